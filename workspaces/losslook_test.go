package workspaces_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// pollsBefore reports files that differ, and has another one polled between its look and the snapshot.
type pollsBefore struct {
	seen snapshot.Seen
	then func()
}

func (p pollsBefore) Look(context.Context, string) (snapshot.Seen, bool, error) {
	p.then()
	return p.seen, true, nil
}

// A snapshot does not take files that were polled after its look at the sandbox for deleted.
func TestSnapshotHasWhatWasPolledSinceTheLook(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "a.txt", "edited\n")
	wstest.Write(t, w.Path, "reverted", "soon gone\n")
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt", "reverted"}, true))
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "reverted")))
	h.S.Snapshots.Watch(pollsBefore{snapshot.Seen{Base: w.BaseCommit, Paths: []string{"a.txt"}}, func() {
		wstest.Write(t, w.Path, "new.txt", "new\n")
		wstest.Write(t, w.Path, "dir/b.txt", "edited\n")
		wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"new.txt", "dir/b.txt"}, false))
	}})
	sn := h.Keep(w.ID, snapshot.Request{Reason: "discard"})
	for name, want := range map[string]string{"a.txt": "edited\n", "new.txt": "new\n", "dir/b.txt": "edited\n", "reverted": "-"} {
		if got := h.FileOf(w, sn.ID, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}
