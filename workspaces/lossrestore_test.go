package workspaces_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// A restore does not overwrite a large file whose current version is in no snapshot, because it is too large or was written just now.
func TestRestoreLeavesLargeFilesNoSnapshotHolds(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "model", "small\n")
	wstest.Write(t, w.Path, "log", "short\n")
	sn := h.Keep(w.ID, snapshot.Request{})
	wstest.Write(t, w.Path, "model", "small, but another\n")
	wstest.Write(t, w.Path, "log", string(bytes.Repeat([]byte("a line\n"), 2<<20)))
	h.Keep(w.ID, snapshot.Request{})
	wstest.Must(t, os.Truncate(filepath.Join(w.Path, "model"), 1<<30+1)) // more than any snapshot takes
	h.S.Snapshots.OnSnapshot(func(_ string, s snapshot.Snap) {
		if s.Reason == "restore" {
			f, err := os.OpenFile(filepath.Join(w.Path, "log"), os.O_WRONLY|os.O_APPEND, 0)
			wstest.Must(t, err)
			_, err = f.WriteString("written meanwhile\n")
			wstest.Must(t, err)
			wstest.Must(t, f.Close())
		}
	})
	done, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{})
	wstest.Must(t, err)
	slices.Sort(done.Conflicts)
	if !slices.Equal(done.Conflicts, []string{"log", "model"}) || len(done.Changed) != 0 {
		t.Errorf("changed %q, left alone %q", done.Changed, done.Conflicts)
	}
	if fi, err := os.Stat(filepath.Join(w.Path, "model")); err != nil || fi.Size() != 1<<30+1 {
		t.Errorf("the file that is too large is %v, %v", fi, err)
	}
	if !bytes.HasSuffix([]byte(wstest.Read(t, w.Path, "log")), []byte("written meanwhile\n")) {
		t.Error("what was written meanwhile is gone")
	}
}
