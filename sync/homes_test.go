package filesync_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What agents keep in their home is copied before a sandbox ends, and the next sandbox has it. Nothing else is.
func TestHomesComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	home := func(name string) string { return filepath.Join(r.place.Hello.Home, name) }
	kept := func(name string) string { return filepath.Join(r.dir, "home", name) }
	record := ".claude/projects/-work-p/one.jsonl"
	long := strings.Repeat(`{"type":"user"}`+"\n", 400_000) // more than one piece
	put(t, home(record), long)
	put(t, home(".claude.json"), "{}\n")
	put(t, home(".claude/.credentials.json"), "secret\n")
	must(t, os.Chmod(home(".claude/.credentials.json"), 0o600))
	put(t, home(".claude/statsig/x"), "not kept\n")
	put(t, home(".cache/x"), "not kept\n")
	put(t, home(".claude/empty"), "")
	must(t, os.Symlink("/etc/passwd", home(".claude/link")))
	must(t, r.service.SyncToServer(t.Context(), r.place))

	same := func(want map[string]string) {
		t.Helper()
		got := listing(t, filepath.Join(r.dir, "home"))
		for name, text := range want {
			if b, err := os.ReadFile(kept(name)); err != nil || string(b) != text {
				t.Errorf("%s: %d bytes, want %d, %v", name, len(b), len(text), err)
			}
			delete(got, name)
		}
		if got[".claude/link"] != "link /etc/passwd" || len(got) != 1 {
			t.Errorf("kept too: %.200v", got)
		}
	}
	want := map[string]string{record: long, ".claude.json": "{}\n", ".claude/.credentials.json": "secret\n", ".claude/empty": ""}
	same(want)
	for name := range want {
		if fi, err := os.Stat(kept(name)); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}

	// It grows at its end, another is rewritten, one goes.
	f, err := os.OpenFile(home(record), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("more\n")
	must(t, err)
	must(t, f.Close())
	put(t, home(".claude.json"), `{"a":1}`)
	must(t, os.Remove(home(".claude/.credentials.json")))
	must(t, r.service.SyncToServer(t.Context(), r.place))
	want[record], want[".claude.json"] = long+"more\n", `{"a":1}`
	delete(want, ".claude/.credentials.json")
	same(want)

	// A record that is another one by now is not joined with the old one.
	put(t, home(record), strings.Repeat("x", len(long)+100))
	must(t, r.service.SyncToServer(t.Context(), r.place))
	want[record] = strings.Repeat("x", len(long)+100)
	same(want)

	must(t, r.manager.Destroy(t.Context(), r.workspaceID))
	r.place, err = r.manager.Ensure(t.Context(), r.workspaceID)
	must(t, err)
	r.inside = r.place.Hello.Root
	for name, text := range want {
		if b, err := os.ReadFile(home(name)); err != nil || string(b) != text {
			t.Errorf("in the next sandbox, %s: %d bytes, want %d, %v", name, len(b), len(text), err)
		}
	}
	then, err := os.Stat(kept(record))
	must(t, err)
	if now, err := os.Stat(home(record)); err != nil || now.ModTime().UnixMilli() != then.ModTime().UnixMilli() {
		t.Errorf("its time is another: %v, %v", now.ModTime(), err)
	}
	if to, err := os.Readlink(home(".claude/link")); err != nil || to != "/etc/passwd" {
		t.Errorf("link: %q %v", to, err)
	}
}
