package snapshot_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// ownDisk is a sandbox that has its files to itself.
type ownDisk struct {
	dir     string
	written func() // called before a file changes
}

func (d ownDisk) FilesInSandbox(context.Context, string) (bool, error) { return true, nil }

func (d ownDisk) Put(_ context.Context, _, path string, r io.Reader, _ string, mode uint32) error {
	d.written()
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, path), text, os.FileMode(mode))
}

func (d ownDisk) Remove(_ context.Context, _, path, _ string) error {
	d.written()
	return os.Remove(filepath.Join(d.dir, path))
}

// A file with which an agent replaced a link, in a sandbox with its own disk and since the last sync, stays.
func TestApplyLeavesWhatReplacedALink(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w := h.Workspace()
	p, err := h.Store.Project(t.Context(), w.ProjectID)
	wstest.Must(t, err)
	blob := func(text string) string {
		wstest.Write(t, w.Path, "content", text)
		return wstest.Git(t, w.Path, "hash-object", "-w", "content")
	}
	target, other := blob("nowhere"), blob("other\n")
	link := filepath.Join(w.Path, "link")
	replaces := false
	replace := func() {
		if replaces {
			replaces = false
			wstest.Must(t, os.Remove(link))
			wstest.Must(t, os.WriteFile(link, []byte("precious\n"), 0o600))
		}
	}
	h.Sandboxes.OnRun = func([]string) { replace() }
	h.S.Snapshots.ConnectSandboxed(ownDisk{w.Path, replace})
	for name, to := range map[string]git.ChangedFile{
		"remove": {Path: "link", OldBlob: target, OldMode: "120000"},
		"write":  {Path: "link", OldBlob: target, OldMode: "120000", NewBlob: other, Mode: "100644", Size: 6},
	} {
		for _, replaces = range []bool{true, false} {
			raced := replaces
			_ = os.Remove(link)
			wstest.Must(t, os.Symlink("nowhere", link))
			var done snapshot.Restored
			wstest.Must(t, h.S.Snapshots.Apply(t.Context(), p, w, []git.ChangedFile{to}, &done))
			text, err := os.ReadFile(link)
			switch {
			case raced && (len(done.Conflicts) != 1 || string(text) != "precious\n"):
				t.Errorf("%s: a file that replaced the link has %q, %v; %+v", name, text, err, done)
			case !raced && (len(done.Changed) != 1 || name == "remove" && !os.IsNotExist(err) || name == "write" && string(text) != "other\n"):
				t.Errorf("%s: the link is now %q, %v; %+v", name, text, err, done)
			}
		}
	}
}
