package workspaces_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// What a review is about stays, for its reader compares with it, and others see what was approved.
func TestSnapshotsOfReviewsStay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		ctx := context.Background()
		h.stop()
		var ahead atomic.Int64
		h.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		h.start()
		w := h.workspace()
		polled := func(text string) workspaces.Snap {
			write(t, w.Path, "a.txt", text)
			must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
			sn, err := h.s.Now(ctx, w.ID)
			must(t, err)
			return sn
		}
		read, later := polled("reviewed\n"), polled("later\n")
		_, err := db.Exec(ctx, `INSERT INTO reviews (id, team_id, workspace_id, author_id, state, verdict, snapshot_id, created_at, updated_at, sent_at)
			VALUES ('rev_1', ?, ?, ?, 'sent', 'approve', ?, 1, 1, 1) /* every team */`, w.TeamID, w.ID, h.actor.User.ID, read.ID)
		must(t, err)
		ahead.Store(int64(60 * 24 * time.Hour))
		if n, err := h.s.PruneSnapshots(ctx); err != nil || n != 1 {
			t.Fatalf("%d ended: %v", n, err)
		}
		_, err = h.s.Resolve(ctx, w, later.ID, "")
		wantCode(t, err, "revision_not_found")
		git(t, w.Path, "-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
		if got := h.fileOf(w, read.ID, "a.txt"); got != "reviewed\n" {
			t.Errorf("what was reviewed has %q", got)
		}
	})
}
