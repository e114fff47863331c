package workspaces_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// A large file that no snapshot holds as it is now, because it is too large or was written just now, is not written over by a restore.
func TestRestoreLeavesLargeFilesNoSnapshotHolds(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "model", "small\n")
	write(t, w.Path, "log", "short\n")
	sn := h.keep(w.ID, workspaces.KeepFor{})
	write(t, w.Path, "model", "small, but another\n")
	write(t, w.Path, "log", string(bytes.Repeat([]byte("a line\n"), 2<<20)))
	h.keep(w.ID, workspaces.KeepFor{})
	must(t, os.Truncate(filepath.Join(w.Path, "model"), 1<<30+1)) // more than any snapshot takes
	h.s.OnSnapshot(func(_ string, s workspaces.Snap) {
		if s.Reason == "restore" {
			f, err := os.OpenFile(filepath.Join(w.Path, "log"), os.O_WRONLY|os.O_APPEND, 0)
			must(t, err)
			_, err = f.WriteString("written meanwhile\n")
			must(t, err)
			must(t, f.Close())
		}
	})
	done, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{})
	must(t, err)
	slices.Sort(done.Conflicts)
	if !slices.Equal(done.Conflicts, []string{"log", "model"}) || len(done.Changed) != 0 {
		t.Errorf("changed %q, left alone %q", done.Changed, done.Conflicts)
	}
	if fi, err := os.Stat(filepath.Join(w.Path, "model")); err != nil || fi.Size() != 1<<30+1 {
		t.Errorf("the file that is too large is %v, %v", fi, err)
	}
	if !bytes.HasSuffix([]byte(read(t, w.Path, "log")), []byte("written meanwhile\n")) {
		t.Error("what was written meanwhile is gone")
	}
}
