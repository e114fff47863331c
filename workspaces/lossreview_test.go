package workspaces_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// A snapshot that was reviewed stays, because its reader compares with it, and others see what was approved.
func TestSnapshotsOfReviewsStay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := wstest.New(t, db)
		ctx := context.Background()
		h.Stop()
		var ahead atomic.Int64
		h.Cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		h.Start()
		w := h.Workspace()
		polled := func(text string) snapshot.Snap {
			wstest.Write(t, w.Path, "a.txt", text)
			wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
			sn, err := h.S.Snapshots.Now(ctx, w.ID)
			wstest.Must(t, err)
			return sn
		}
		read, later := polled("reviewed\n"), polled("later\n")
		_, err := db.Exec(ctx, `INSERT INTO reviews (id, team_id, workspace_id, author_id, state, verdict, snapshot_id, created_at, updated_at, sent_at)
			VALUES ('rev_1', ?, ?, ?, 'sent', 'approve', ?, 1, 1, 1) /* every team */`, w.TeamID, w.ID, h.Actor.User.ID, read.ID)
		wstest.Must(t, err)
		ahead.Store(int64(60 * 24 * time.Hour))
		if n, err := h.S.Snapshots.PruneSnapshots(ctx); err != nil || n != 1 {
			t.Fatalf("%d ended: %v", n, err)
		}
		_, err = h.S.Snapshots.Resolve(ctx, w, later.ID, "")
		wstest.WantCode(t, err, "revision_not_found")
		wstest.Git(t, w.Path, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
		if got := h.FileOf(w, read.ID, "a.txt"); got != "reviewed\n" {
			t.Errorf("what was reviewed has %q", got)
		}
	})
}
