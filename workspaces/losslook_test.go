package workspaces_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// pollsBefore tells of files that differ, and has another one polled between its look and the snapshot.
type pollsBefore struct {
	seen workspaces.Seen
	then func()
}

func (p pollsBefore) Look(context.Context, string) (workspaces.Seen, bool, error) {
	p.then()
	return p.seen, true, nil
}

// What was polled after a sandbox was looked at is not taken for gone by the snapshot the look was for.
func TestKeepHoldsWhatWasPolledSinceTheLook(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "a.txt", "edited\n")
	write(t, w.Path, "reverted", "soon gone\n")
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt", "reverted"}, true))
	must(t, os.Remove(filepath.Join(w.Path, "reverted")))
	h.s.Watch(pollsBefore{workspaces.Seen{Base: w.BaseCommit, Paths: []string{"a.txt"}}, func() {
		write(t, w.Path, "new.txt", "new\n")
		write(t, w.Path, "dir/b.txt", "edited\n")
		must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"new.txt", "dir/b.txt"}, false))
	}})
	sn := h.keep(w.ID, workspaces.KeepFor{Reason: "discard"})
	for name, want := range map[string]string{"a.txt": "edited\n", "new.txt": "new\n", "dir/b.txt": "edited\n", "reverted": "-"} {
		if got := h.fileOf(w, sn.ID, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}
