package workspaces_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/snapshot"
)

type rows = store.Workspaces

// listedOld calls a func between listing old snapshots and removing them.
type listedOld struct {
	*rows
	then func()
}

func (l listedOld) OldSnapshots(ctx context.Context, before int64, n int) ([]snapshot.Snap, error) {
	out, err := l.rows.OldSnapshots(ctx, before, n)
	if then := l.then; then != nil && len(out) > 0 {
		then()
	}
	return out, err
}

// A snapshot that is pinned while old ones are being removed stays.
func TestPinnedWhileOldSnapshotsExpire(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	h.Stop()
	var ahead atomic.Int64
	var sn snapshot.Snap
	h.Cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.Cfg.Store = listedOld{h.Store, func() {
		var err error
		sn, err = h.S.Snapshots.PinSnapshot(ctx, sn, true)
		wstest.Must(t, err)
	}}
	h.Start()
	w := h.Workspace()
	wstest.Write(t, w.Path, "a.txt", "pinned\n")
	sn = h.Keep(w.ID, snapshot.Request{})
	ahead.Store(int64(60 * 24 * time.Hour))
	if _, err := h.S.Snapshots.PruneSnapshots(ctx); err != nil {
		t.Fatal(err)
	}
	if got := h.FileOf(w, sn.ID, "a.txt"); got != "pinned\n" || !sn.Pinned {
		t.Errorf("the pinned one has %q: %+v", got, sn)
	}
}
