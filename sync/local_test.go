package filesync_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	filesync "github.com/parawork/parawork/sync"
)

func (r *remoteHarness) read(path string) (string, error) {
	body, info, err := r.service.Read(r.t.Context(), r.workspaceID, path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if int64(len(b)) != info.Size || len(info.Hash) != 64 {
		r.t.Errorf("%s: %+v of %d bytes", path, info, len(b))
	}
	return string(b), err
}

// A folder with more in it than is listed says so, whoever lists it: the guest, or without a sandbox the server.
func TestALargeFolderSaysThatItIsCut(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	const most = 10_000
	fill := func(root string, from, to int) {
		must(t, os.MkdirAll(filepath.Join(root, "many"), 0o755))
		for i := from; i < to; i++ {
			must(t, os.WriteFile(filepath.Join(root, "many", fmt.Sprintf("%05d", i)), nil, 0o644))
		}
	}
	list := func(where string, truncated bool) {
		t.Helper()
		f, err := r.service.Tree(t.Context(), r.workspaceID, "many")
		if err != nil || len(f.Entries) != most || f.Truncated != truncated {
			t.Errorf("%s: %d entries, cut %v, %v; want %d, %v", where, len(f.Entries), f.Truncated, err, most, truncated)
		}
	}
	fill(r.inside, 0, most)
	list("all in a sandbox", false)
	fill(r.inside, most, most+1)
	list("one too many in a sandbox", true)
	r.sync() // a sandbox is not ended while files of it are not on the server
	must(t, r.manager.Destroy(t.Context(), r.workspaceID))
	must(t, os.RemoveAll(filepath.Join(r.host, "many")))
	fill(r.host, 0, most)
	list("all on the server", false)
	fill(r.host, most, most+1)
	list("one too many on the server", true)
}

// Once its sandbox is gone a workspace is read and written on the server, and nobody starts a sandbox for that.
func TestWithoutASandbox(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	put(t, r.in("README.md"), "hello\nagent\n")
	put(t, r.in("src/new.go"), "new\n")
	must(t, os.Symlink("/etc/passwd", r.in("out")))
	r.sync()
	must(t, r.manager.Destroy(t.Context(), r.workspaceID))

	if got, err := r.read("README.md"); err != nil || got != "hello\nagent\n" {
		t.Errorf("read %q, %v", got, err)
	}
	src, err := r.service.Tree(t.Context(), r.workspaceID, "src")
	entries := src.Entries
	if err != nil || src.Truncated || len(entries) != 3 || entries[0].Name != "deep" || entries[0].Type != "dir" || entries[2].Path != "src/new.go" {
		t.Errorf("listed %+v, %v", entries, err)
	}
	root, err := r.service.Tree(t.Context(), r.workspaceID, "")
	must(t, err)
	// A link is listed as one, with where it leads: nobody follows it to list it.
	if !slices.ContainsFunc(root.Entries, func(e guest.FileInfo) bool {
		return e.Path == "out" && e.Type == "symlink" && e.Link == "/etc/passwd"
	}) {
		t.Errorf("the link is not in %+v", root.Entries)
	}
	for _, e := range root.Entries {
		if e.Name == ".git" || strings.HasPrefix(e.Path, "./") {
			t.Errorf("listed %+v", e)
		}
	}
	for path, code := range map[string]string{"nothing": "file_not_found", "src": "is_a_directory", "out": "not_a_file", ".git": "git_directory", ".GIT/config": "git_directory", "README.md/x": "file_not_found"} {
		if _, err := r.read(path); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
	body, err := r.service.Diff(t.Context(), r.workspaceID, "README.md", 3)
	must(t, err)
	if b, err := io.ReadAll(body); err != nil || string(b) != "diff of README.md, 100644, 12 bytes\n" {
		t.Errorf("diff %q, %v", b, err)
	}

	info, err := r.service.Write(t.Context(), r.workspaceID, "notes/a.md", strings.NewReader("a\n"), "")
	if err != nil || info.Size != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := r.service.Write(t.Context(), r.workspaceID, "notes/a.md", strings.NewReader("b\n"), strings.Repeat("0", 64)); !fault.Is(err, fault.Precondition) {
		t.Errorf("a write over what nobody saw: %v", err)
	}
	if _, err := r.service.Write(t.Context(), r.workspaceID, "notes/a.md", strings.NewReader("b\n"), info.Hash); err != nil {
		t.Error(err)
	}
	carefully(t, r.service, r.workspaceID)
	must(t, r.service.Remove(t.Context(), r.workspaceID, "careful/there"))
	must(t, r.service.Remove(t.Context(), r.workspaceID, "run.sh"))
	_, err = r.service.Write(t.Context(), r.workspaceID, "README.md", strings.NewReader("hello\n"), "")
	must(t, err)
	set := r.changes()
	if c := find(set.Items, "notes/a.md"); c.Status != "untracked" || c.Size != 2 {
		t.Errorf("new: %+v", c)
	}
	if c := find(set.Items, "run.sh"); c.Status != "deleted" || c.OldMode != "100755" {
		t.Errorf("deleted: %+v", c)
	}
	if c := find(set.Items, "README.md"); c.Path != "" {
		t.Errorf("as in the base, and told: %+v", c)
	}
	if again, err := r.service.SyncNow(t.Context(), r.workspaceID); err != nil || len(again.Items) != len(set.Items) {
		t.Errorf("synced: %+v, %v", again, err)
	}
	if _, live := r.manager.Live(r.workspaceID); live {
		t.Error("looking started a sandbox")
	}

	// The next sandbox has all of it.
	p, err := r.manager.Ensure(t.Context(), r.workspaceID)
	must(t, err)
	r.place, r.inside = p, p.Hello.Root
	r.sync()
	r.same()
	if h := r.home(); h.State != filesync.Synced || len(h.Conflicts) != 0 {
		t.Errorf("told %+v", h)
	}
}

// Before a sandbox ends its files are synced, without a request.
func TestTheLastFilesAreSynced(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	var inside map[string]string
	put(t, r.in("last.txt"), "last\n")
	must(t, os.Remove(r.in("README.md")))
	inside = listing(t, r.inside)
	must(t, r.service.SyncToServer(t.Context(), r.place))
	must(t, r.manager.Destroy(t.Context(), r.workspaceID))
	out := listing(t, r.host)
	if len(out) != len(inside) || out["last.txt"] != inside["last.txt"] || out["README.md"] != "" {
		t.Errorf("on the host: %v", out)
	}
	if h := r.home(); h.State != filesync.Synced || h.Pending != 0 {
		t.Errorf("told %+v", h)
	}
}

// Files lost with a sandbox are reported.
func TestASandboxThatIsLost(t *testing.T) {
	t.Parallel()
	r := newRemoteHarness(t)
	r.stop()
	s := filesync.New(r.cfg)
	r.service = s
	hold := make(chan struct{})
	s.Crash(func(string) error { <-hold; return context.Canceled })
	ctx, cancel := contextOf(t)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	put(t, r.in("lost.txt"), "x\n")
	s.Follow(r.place)
	eventually(t, "the change is known", func() bool { return len(r.changes().Items) == 1 && r.home().Pending == 1 })
	must(t, r.manager.Destroy(t.Context(), r.workspaceID))
	close(hold)
	eventually(t, "the loss is reported", func() bool {
		st, err := r.store.MirrorState(t.Context(), r.workspaceID)
		return err == nil && st.State == filesync.Behind && st.Pending == 1 && strings.Contains(st.Reason, "ended before")
	})
	cancel()
	<-done
}
