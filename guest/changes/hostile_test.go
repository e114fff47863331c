package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Nothing an agent can put into its worktree, its git directory or the shared one may run a program when we look.
func TestNothingOfTheAgentsRuns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		arm  func(tr *tree, evil string) // evil is a program that leaves a marker
		// fires says that plain git runs it, which proves that the case is armed.
		fires []string
	}{
		{"fsmonitor", func(tr *tree, evil string) { tr.git("config", "core.fsmonitor", evil) }, []string{"status"}},
		{"post-index-change hook", func(tr *tree, evil string) {
			hook := filepath.Join(tr.repo, ".git", "hooks", "post-index-change")
			copyProgram(tr.t, evil, hook)
			touch(tr.t, tr.path("README.md"))
		}, []string{"status"}},
		{"hooksPath", func(tr *tree, evil string) {
			dir := realTemp(tr.t)
			copyProgram(tr.t, evil, filepath.Join(dir, "post-index-change"))
			tr.git("config", "core.hooksPath", dir)
			touch(tr.t, tr.path("README.md"))
		}, []string{"status"}},
		{"clean filter by attributes", func(tr *tree, evil string) {
			tr.git("config", "filter.evil.clean", evil)
			tr.git("config", "filter.evil.required", "true")
			tr.write(".gitattributes", "* filter=evil\n")
			tr.write("README.md", "same size of text!!!!\n"[:len(baseFiles["README.md"])])
		}, []string{"status"}},
		{"process filter by info/attributes", func(tr *tree, evil string) {
			tr.git("config", "filter.evil.process", evil)
			writeFile(tr.t, filepath.Join(tr.repo, ".git", "info", "attributes"), "* filter=evil\n")
			tr.write("README.md", "same size of text!!!!\n"[:len(baseFiles["README.md"])])
		}, []string{"status"}},
		{"external diff", func(tr *tree, evil string) {
			tr.git("config", "diff.external", evil)
			tr.write("README.md", "x\n")
		}, []string{"diff"}},
		{"diff command", func(tr *tree, evil string) {
			tr.git("config", "diff.evil.command", evil)
			tr.write(".gitattributes", "* diff=evil\n")
			tr.write("README.md", "x\n")
		}, []string{"diff"}},
		{"textconv", func(tr *tree, evil string) {
			tr.git("config", "diff.evil.textconv", evil)
			tr.write(".gitattributes", "* diff=evil\n")
			tr.write("README.md", "x\n")
		}, []string{"diff"}},
		{"pager", func(tr *tree, evil string) {
			tr.git("config", "core.pager", evil)
			tr.git("config", "pager.diff", evil)
			tr.write("README.md", "x\n")
		}, nil},
		{"include", func(tr *tree, evil string) {
			inc := filepath.Join(realTemp(tr.t), "inc")
			writeFile(tr.t, inc, "[core]\n\tfsmonitor = "+evil+"\n")
			tr.git("config", "include.path", inc)
		}, []string{"status"}},
		{"worktree config", func(tr *tree, evil string) {
			tr.git("config", "extensions.worktreeConfig", "true")
			tr.git("config", "--worktree", "core.fsmonitor", evil)
		}, []string{"status"}},
		{"alias", func(tr *tree, evil string) { tr.git("config", "alias.status", "!"+evil) }, nil},
		{"promisor with a missing object", func(tr *tree, evil string) {
			tr.write("README.md", "x\n")
			tr.git("config", "remote.origin.url", "ssh://example.org/x")
			tr.git("config", "remote.origin.promisor", "true")
			tr.git("config", "core.repositoryformatversion", "1")
			tr.git("config", "extensions.partialClone", "origin")
			tr.git("config", "core.sshCommand", evil)
			id := tr.git("rev-parse", "HEAD:README.md")
			os.Remove(filepath.Join(tr.repo, ".git", "objects", id[:2], id[2:]))
		}, []string{"diff", "HEAD"}},
		{"nested repository, tracked", func(tr *tree, evil string) {
			nested(tr, "sub", evil)
			tr.git("add", "sub")
			tr.git("commit", "-qm", "sub")
			tr.write("sub/file", "edited\n")
		}, []string{"status"}},
		{"nested repository, untracked", func(tr *tree, evil string) { nested(tr, "sub", evil) }, nil},
		{"replaced .git file", func(tr *tree, evil string) {
			other := nested(tr, "../elsewhere", evil)
			writeFile(tr.t, tr.path(".git"), "gitdir: "+other+"/.git\n")
		}, []string{"status"}},
		{"commondir planted", func(tr *tree, evil string) {
			other := nested(tr, "../elsewhere", evil)
			writeFile(tr.t, filepath.Join(tr.repo, ".git", "worktrees", "wt", "commondir"), other+"/.git\n")
		}, []string{"status"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			p := tr.poller()
			tr.pollSet(p) // the guest has looked before the agent begins
			dir := realTemp(t)
			marker := filepath.Join(dir, "marker")
			evil := filepath.Join(dir, "evil")
			if err := os.WriteFile(evil, []byte("#!/bin/sh\necho ran >> "+marker+"\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			tt.arm(tr, evil)

			tr.pollSet(p)
			for _, path := range []string{"README.md", "sub", "sub/file"} {
				_ = p.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: path, Context: 3}, &bytes.Buffer{})
			}
			// A guest started only now meets everything as it is.
			fresh := tr.poller()
			_, _ = fresh.PollNow(t.Context(), tr.base)
			_ = fresh.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: "README.md", Context: 3}, &bytes.Buffer{})
			if b, err := os.ReadFile(marker); err == nil {
				t.Fatalf("the agent's program ran %d times", strings.Count(string(b), "\n"))
			}
			if tt.fires != nil {
				tr.mayFail(tt.fires...)
				if _, err := os.Stat(marker); err != nil {
					t.Fatalf("plain git %v does not run it: the case is not armed", tt.fires)
				}
			}
		})
	}
}

func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// touch makes git refresh its index.
func touch(t testing.TB, path string) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// nested makes a repository with a file and an fsmonitor.
func nested(tr *tree, name, evil string) string {
	dir := tr.path(name)
	writeFile(tr.t, filepath.Join(dir, "file"), "x\n")
	tr.gitIn(dir, "init", "-q")
	tr.gitIn(dir, "add", "-A")
	tr.gitIn(dir, "commit", "-qm", "x")
	tr.gitIn(dir, "config", "core.fsmonitor", evil)
	return dir
}

func TestNestedRepositoryIsOneEntry(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	nested(tr, "sub dir/repo", "false")
	want := guest.Change{Path: "sub dir/repo", Status: "untracked", Mode: "040000"}
	if got := tr.poll(p); len(got) != 1 || got[want.Path] != want {
		t.Fatalf("got %+v", got)
	}
	if text := tr.diff(p, want.Path, ""); !strings.Contains(text, NoteMark+"a git repository") {
		t.Fatalf("diff: %s", text)
	}
	tr.git("add", "sub dir/repo")
	got := tr.poll(p)
	if c := got[want.Path]; len(got) != 1 || c.Mode != "160000" || c.Status != "added" || !c.Staged {
		t.Fatalf("got %+v", got)
	}
	if text := tr.diff(p, want.Path, ""); !strings.Contains(text, "+Subproject commit ") {
		t.Fatalf("diff: %s", text)
	}
	tr.git("commit", "-qm", "sub")
	got = tr.poll(p)
	if c := got[want.Path]; len(got) != 1 || c.Mode != "160000" || !c.Committed {
		t.Fatalf("got %+v", got)
	}
}

func TestHostileNames(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	names := []string{
		"new\nline", "tab\there", "esc\x1b[31mred", "-leading", "--output=x", ":(exclude)*", ":", "*", "[a]", "qu\"ote", "back\\slash",
		" space ", "caf\xe9", "\xff\xfe", "ünïcode", "\uF7E9private", "a/\xe9/b", "...", "\r", "héé\u202Eevil", "nul-like\x01",
		strings.Repeat("n", 255), strings.Repeat("d/", 100) + "deep",
	}
	for _, n := range names {
		tr.write(n, "x\n")
	}
	got := tr.poll(p)
	for _, n := range names {
		wire := guest.EncodePath(n)
		c, ok := got[wire]
		if !ok || c.Status != "untracked" || c.Additions != 1 || c.Hash != hashOf("x\n") {
			t.Errorf("%q: %+v", n, c)
			continue
		}
		text := tr.diff(p, wire, "")
		if !strings.Contains(text, "new file mode 100644") || !strings.Contains(text, "\n+x\n") || strings.Count(text, "diff --git") != 1 {
			t.Errorf("diff of %q: %q", n, text)
		}
	}
	if len(got) != len(names) {
		t.Errorf("%d changes for %d names", len(got), len(names))
	}
	for _, n := range names {
		tr.git("add", "--", ":(literal,top)"+n)
	}
	tr.git("commit", "-qm", "names")
	tr.write("caf\xe9", "y\n")
	got = tr.poll(p)
	if len(got) != len(names) || got[guest.EncodePath("caf\xe9")].Committed || !got[guest.EncodePath("new\nline")].Committed {
		t.Errorf("after the commit: %+v", got)
	}
}

func TestBadPathsAreRefused(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	writeFile(t, filepath.Join(filepath.Dir(tr.root), "secret"), "secret\n")
	for _, path := range []string{"", "/etc/passwd", "../secret", "a/../../secret", "./x", "a//b", "a\x00b", strings.Repeat("x", 5000)} {
		var b bytes.Buffer
		err := p.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: path}, &b)
		if !fault.Is(err, fault.Invalid) || b.Len() > 0 {
			t.Errorf("%q: %v %q", path, err, b.String())
		}
		if path != "" {
			err = p.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: "README.md", OldPath: path}, &b)
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("old path %q: %v", path, err)
			}
		}
	}
	for _, base := range []string{"", "HEAD", "--output=/tmp/x", tr.base[:12], tr.base + "\n"} {
		if _, err := p.PollNow(t.Context(), base); !fault.Is(err, fault.Invalid) {
			t.Errorf("base %q: %v", base, err)
		}
		if err := p.Diff(t.Context(), guest.DiffRequest{Base: base, Path: "README.md"}, &bytes.Buffer{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("base %q: %v", base, err)
		}
	}
	if err := p.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: "no/such"}, &bytes.Buffer{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no such file: %v", err)
	}
	if err := p.Diff(t.Context(), guest.DiffRequest{Base: tr.base, Path: "src"}, &bytes.Buffer{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a folder: %v", err)
	}
	set, err := p.PollNow(t.Context(), strings.Repeat("1", 40))
	if err != nil || set.Error == "" {
		t.Errorf("a base that does not exist: %+v %v", set, err)
	}
}

func TestFifos(t *testing.T) {
	t.Parallel()
	mkfifo := func(tr *tree, name string) {
		tr.remove(name)
		if err := os.MkdirAll(filepath.Dir(tr.path(name)), 0o755); err != nil {
			tr.t.Fatal(err)
		}
		if err := syscall.Mkfifo(tr.path(name), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
	t.Run("untracked and in place of a file", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		p := tr.poller()
		mkfifo(tr, "pipe")
		mkfifo(tr, "README.md")
		got := tr.poll(p)
		if len(got) != 1 || got["README.md"].Status != "deleted" && got["README.md"].Status != "type_changed" {
			t.Fatalf("got %+v", got)
		}
		_ = tr.diff(p, "README.md", "")
	})
	t.Run("gitignore at the root", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		p := tr.poller()
		tr.write("before.txt", "x\n")
		tr.poll(p)
		mkfifo(tr, ".gitignore")
		tr.write("README.md", "x\n")
		set := tr.pollSet(p)
		got := byPath(t, set)
		if !strings.Contains(set.Error, "FIFO") || got["README.md"].Status != "modified" || got["before.txt"].Status != "untracked" {
			t.Fatalf("error %q, got %+v", set.Error, got)
		}
		tr.remove(".gitignore")
		tr.write(".gitignore", baseFiles[".gitignore"])
		tr.write("after.txt", "x\n")
		if got := tr.poll(p); len(got) != 3 {
			t.Fatalf("after its removal: %+v", got)
		}
	})
	t.Run("gitignore deep down", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		p := New(Config{Root: tr.root, Dir: filepath.Join(realTemp(t), "private"), Timeout: 5 * time.Second})
		mkfifo(tr, "some/where/.gitignore")
		tr.write("README.md", "x\n")
		set := tr.pollSet(p)
		if !strings.Contains(set.Error, "some/where/.gitignore") || byPath(t, set)["README.md"].Status != "modified" {
			t.Fatalf("error %q, got %+v", set.Error, set.Upserts)
		}
		begin := time.Now()
		tr.pollSet(p)
		if d := time.Since(begin); d > 4900*time.Millisecond {
			t.Errorf("the second poll waited again: %v", d)
		}
	})
	t.Run("gitattributes", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		p := New(Config{Root: tr.root, Dir: filepath.Join(realTemp(t), "private"), Timeout: time.Second})
		mkfifo(tr, "src/.gitattributes")
		tr.write("src/main.go", strings.Repeat("x", len(baseFiles["src/main.go"])))
		set := tr.pollSet(p)
		if !strings.Contains(set.Error, "src/.gitattributes") {
			t.Fatalf("error %q", set.Error)
		}
		tr.remove("src/.gitattributes")
		if got := tr.poll(p); len(got) != 1 {
			t.Fatalf("got %+v", got)
		}
	})
	t.Run("in the git directory", func(t *testing.T) {
		t.Parallel()
		tr := newTree(t)
		p := New(Config{Root: tr.root, Dir: filepath.Join(realTemp(t), "private"), Timeout: time.Minute})
		for _, name := range []string{"info/exclude", "info/attributes", "config", "packed-refs"} {
			path := filepath.Join(tr.repo, ".git", name)
			os.Remove(path)
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		set := tr.pollSet(p)
		if set.Error == "" || time.Since(begin) > 50*time.Second {
			t.Fatalf("error %q after %v", set.Error, time.Since(begin))
		}
		index := filepath.Join(tr.repo, ".git", "worktrees", "wt", "index")
		os.Remove(filepath.Join(tr.repo, ".git", "config"))
		os.Remove(index)
		if err := syscall.Mkfifo(index, 0o644); err != nil {
			t.Fatal(err)
		}
		if set := tr.pollSet(p); set.Error == "" {
			t.Fatal("a FIFO in place of the index is not reported")
		}
	})
}

func TestLargeFile(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	const size = 64 << 30 // to read it would take minutes
	for _, name := range []string{"huge.bin", "README.md", "staged.bin", "link"} {
		tr.remove(name)
		if name == "staged.bin" {
			tr.write(name, "x")
			tr.git("add", name)
		}
		f, err := os.Create(tr.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil { // sparse
			t.Fatal(err)
		}
		f.Close()
	}
	tr.remove("src/old.go") // so that git looks for renames
	begin := time.Now()
	got := tr.poll(p)
	for name, status := range map[string]string{"huge.bin": "untracked", "README.md": "modified", "staged.bin": "added", "link": "type_changed"} {
		if c := got[name]; c.Size != size || c.Hash != "" || !c.Binary || c.Status != status || c.Mode != "100644" {
			t.Errorf("%s: %+v", name, c)
		}
		if text := tr.diff(p, name, ""); !strings.Contains(text, NoteMark+"the file is too large") {
			t.Errorf("diff of %s: %s", name, text)
		}
	}
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("it took %v", d)
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("12,000 files take a while")
	}
	tr := newTree(t)
	p := tr.poller()
	const n = 12_000
	for i := range n {
		tr.write(fmt.Sprintf("many/%03d/a file with a name of some length %d.txt", i%500, i), "x\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	count, records := 0, 0
	enough := errors.New("enough")
	err := p.Watch(ctx, tr.base, 0, func(set guest.ChangeSet) error {
		if set.Error != "" {
			return errors.New(set.Error)
		}
		records++
		count += len(set.Upserts)
		if set.Reset != (records == 1) {
			return fmt.Errorf("record %d: reset %v", records, set.Reset)
		}
		if !set.More {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || count != n || records < 5 {
		t.Fatalf("%v: %d changes in %d records", err, count, records)
	}
	tr.write("many/007/a file with a name of some length 7.txt", "x\ny\n")
	set := tr.pollSet(p)
	if !set.More || set.Error != "" {
		t.Fatalf("more %v error %q", set.More, set.Error)
	}
}

func TestWorktreeGone(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.write("x", "x")
	tr.poll(p)
	if err := os.Rename(tr.root, tr.root+"-moved"); err != nil {
		t.Fatal(err)
	}
	set := tr.pollSet(p)
	if set.Error == "" || len(set.Upserts) != 1 {
		t.Fatalf("got %+v", set)
	}
	p = New(Config{Root: realTemp(t)})
	if set, err := p.PollNow(t.Context(), tr.base); err != nil || !strings.Contains(set.Error, "not a git worktree") {
		t.Fatalf("a plain folder: %+v %v", set, err)
	}
}

func TestCorruptIndex(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	tr.write("README.md", "x\n")
	tr.poll(p)
	index := filepath.Join(tr.repo, ".git", "worktrees", "wt", "index")
	if err := os.WriteFile(index, []byte("DIRC rubbish"), 0o644); err != nil {
		t.Fatal(err)
	}
	set := tr.pollSet(p)
	if set.Error == "" || len(set.Upserts) != 1 {
		t.Fatalf("got %+v", set)
	}
	os.Remove(index)
	tr.git("reset", "-q")
	if got := tr.poll(p); len(got) != 1 {
		t.Fatalf("after mending: %+v", got)
	}
}

func TestIndexLockOfTheAgentIsNeverTaken(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	gitDir := filepath.Join(tr.repo, ".git", "worktrees", "wt")
	writeFile(t, filepath.Join(gitDir, "index.lock"), "")
	touch(t, tr.path("README.md"))
	before, _ := os.ReadFile(filepath.Join(gitDir, "index"))
	tr.write("new", "x\n")
	if got := tr.poll(p); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	after, _ := os.ReadFile(filepath.Join(gitDir, "index"))
	if !bytes.Equal(before, after) {
		t.Error("the worktree's own index was written")
	}
}

func TestLongDiffIsCut(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	lines := func(c string) string { return strings.Repeat(strings.Repeat(c, 99)+"\n", 83_800) }
	tr.write("long", lines("a"))
	tr.git("add", "-A")
	tr.git("commit", "-qm", "long")
	tr.base = tr.git("rev-parse", "HEAD")
	tr.write("long", lines("b"))
	text := tr.diff(p, "long", "")
	if len(text) < maxDiff || len(text) > maxDiff+200 || !strings.HasSuffix(text, "the rest is not shown.\n") || !strings.Contains(text[maxDiff:], "\n"+NoteMark) {
		t.Fatalf("%d bytes, ending %q", len(text), text[max(0, len(text)-100):])
	}
}

// Everything at once, beside an agent that works: nothing breaks, and the end is right.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p := tr.poller()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = p.PollNow(ctx, tr.base)
				p.Hint()
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = p.Diff(ctx, guest.DiffRequest{Base: tr.base, Path: "README.md", Context: 3}, &bytes.Buffer{})
			}
		})
		wg.Go(func() { _ = p.Watch(ctx, tr.base, 0, func(guest.ChangeSet) error { return nil }) })
	}
	for i := range 15 {
		tr.write(fmt.Sprintf("file%d", i), "x\n")
		tr.write("README.md", fmt.Sprintln(i))
		if i%5 == 0 {
			tr.git("add", "-A") // never meets a lock of ours
			tr.git("commit", "-qm", "x")
		}
	}
	cancel()
	wg.Wait()
	if got := tr.poll(p); len(got) != 16 || got["README.md"].Hash != hashOf("14\n") || !got["file10"].Committed || got["file11"].Status != "untracked" {
		t.Fatalf("got %+v", got)
	}
}
