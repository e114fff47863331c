package executortest

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
)

func testGit(t *testing.T, cfg Config) {
	t.Run("what changed", func(t *testing.T) {
		b := newBox(t, cfg)
		base := Git(t, b.spec.Root, "rev-parse", "HEAD")
		b.run("printf 'one\\n2\\nthree\\nfour\\n' > a.txt; rm dir/b.txt; printf 'x\\ny\\n' > new.txt; printf '\\000\\001' > bin")
		set, err := b.c.PollNow(b.ctx, base)
		if err != nil {
			t.Fatalf("PollNow: %v", err)
		}
		if set.Error != "" || set.Head != base || set.Branch != "main" || set.Base != base {
			t.Errorf("set %+v", set)
		}
		got := make(map[string]guest.Change)
		for _, c := range set.Upserts {
			got[c.Path] = c
		}
		if c := got["a.txt"]; c.Status != "modified" || c.Additions != 2 || c.Deletions != 1 || c.Hash != sha("one\n2\nthree\nfour\n") {
			t.Errorf("a.txt: %+v", c)
		}
		if c := got["dir/b.txt"]; c.Status != "deleted" || c.Deletions != 1 {
			t.Errorf("dir/b.txt: %+v", c)
		}
		if c := got["new.txt"]; (c.Status != "untracked" && c.Status != "added") || c.Additions != 2 {
			t.Errorf("new.txt: %+v", c)
		}
		if c := got["bin"]; !c.Binary {
			t.Errorf("bin: %+v", c)
		}
		if len(got) != 4 {
			t.Errorf("changes %+v", got)
		}
	})
	t.Run("an unreadable file does not hide the others", func(t *testing.T) {
		b := newBox(t, cfg)
		base := Git(t, b.spec.Root, "rev-parse", "HEAD")
		b.run("echo x > locked; echo y > open.txt; echo z >> dir/b.txt; mkdir shut; echo > shut/in; chmod 000 locked dir/b.txt shut a.txt")
		set, err := b.c.PollNow(b.ctx, base)
		if err != nil || set.Error != "" {
			t.Fatalf("PollNow: %v, %q", err, set.Error)
		}
		got := make(map[string]string)
		for _, c := range set.Upserts {
			got[c.Path] = c.Status
		}
		if got["open.txt"] == "" || got["locked"] == "" || got["dir/b.txt"] != "modified" {
			t.Errorf("changes %v", got)
		}
		b.run("chmod 700 shut; chmod 600 locked dir/b.txt a.txt")
		if set, err = b.c.PollNow(b.ctx, base); err != nil || set.Error != "" {
			t.Errorf("afterwards: %v, %q", err, set.Error)
		}
	})
	t.Run("a change is reported without being asked", func(t *testing.T) {
		b := newBox(t, cfg)
		base := Git(t, b.spec.Root, "rev-parse", "HEAD")
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		w, err := b.c.Watch(ctx, base, 0)
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		defer w.Close()
		known := make(map[string]guest.Change)
		version := uint64(0)
		next := func() {
			set, err := w.Next()
			if err != nil {
				t.Fatalf("Next: %v", err)
			}
			if set.Reset {
				clear(known)
			}
			for _, c := range set.Upserts {
				known[c.Path] = c
			}
			for _, path := range set.Removes {
				delete(known, path)
			}
			version = max(version, set.Version)
		}
		next()
		b.run("printf hello > told.txt")
		for known["told.txt"].Path == "" {
			next()
		}
		b.run("rm told.txt")
		for known["told.txt"].Path != "" {
			next()
		}
		if version == 0 {
			t.Error("versions do not grow")
		}
	})
	t.Run("diff", func(t *testing.T) {
		b := newBox(t, cfg)
		base := Git(t, b.spec.Root, "rev-parse", "HEAD")
		b.run("printf 'one\\n2\\nthree\\n' > a.txt; printf 'new\\n' > new.txt")
		diff := func(path string) string {
			r, err := b.c.Diff(b.ctx, guest.DiffRequest{Base: base, Path: path, Context: 3})
			if err != nil {
				t.Fatalf("Diff %s: %v", path, err)
			}
			defer r.Close()
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("reading the diff of %s: %v", path, err)
			}
			return string(text)
		}
		if got := diff("a.txt"); !strings.Contains(got, "\n one\n-two\n+2\n three\n") {
			t.Errorf("diff of a.txt:\n%s", got)
		}
		if got := diff("new.txt"); !strings.Contains(got, "+new\n") {
			t.Errorf("diff of new.txt:\n%s", got)
		}
	})
}
