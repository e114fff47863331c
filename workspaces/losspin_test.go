package workspaces_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

type rows = store.Workspaces

// listedOld calls a func between the listing of old snapshots and their removal.
type listedOld struct {
	*rows
	then func()
}

func (l listedOld) OldSnapshots(ctx context.Context, before int64, n int) ([]workspaces.Snap, error) {
	out, err := l.rows.OldSnapshots(ctx, before, n)
	if then := l.then; then != nil && len(out) > 0 {
		then()
	}
	return out, err
}

// A snapshot that is pinned while old ones are being removed stays.
func TestPinnedWhileOldSnapshotsEnd(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	h.stop()
	var ahead atomic.Int64
	var sn workspaces.Snap
	h.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.cfg.Store = listedOld{h.store, func() {
		var err error
		sn, err = h.s.PinSnapshot(ctx, sn, true)
		must(t, err)
	}}
	h.start()
	w := h.workspace()
	write(t, w.Path, "a.txt", "pinned\n")
	sn = h.keep(w.ID, workspaces.KeepFor{})
	ahead.Store(int64(60 * 24 * time.Hour))
	if _, err := h.s.PruneSnapshots(ctx); err != nil {
		t.Fatal(err)
	}
	if got := h.fileOf(w, sn.ID, "a.txt"); got != "pinned\n" || !sn.Pinned {
		t.Errorf("the pinned one has %q: %+v", got, sn)
	}
}
