package store_test

import (
	"testing"

	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestWatchLinks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		team, ws := seedWorkspace(t, db)
		s := store.NewWatch(db)
		for i, l := range []watch.Link{{ID: "wln_1", CreatedAt: 1, ExpiresAt: 100}, {ID: "wln_2", CreatedAt: 2, ExpiresAt: 200, Name: "Ann"}} {
			l.TeamID, l.WorkspaceID, l.SessionID, l.CreatedBy = team, ws, "ses_1", "usr_1"
			if err := s.InsertWatchLink(ctx, l, []string{"a", "b"}[i]); err != nil {
				t.Fatal(err)
			}
		}
		ids := func(session string, at int64) (out string) {
			t.Helper()
			all, err := s.WatchLinks(ctx, team, session, at)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range all {
				out += l.ID[4:]
			}
			return out
		}
		if got := ids("", 50) + " " + ids("ses_1", 100) + " " + ids("ses_2", 50); got != "21 2 " {
			t.Errorf("listed: %q", got)
		}
		if l, err := s.WatchLinkByHash(ctx, "b"); err != nil || l.ID != "wln_2" || l.Name != "Ann" || l.TeamID != team {
			t.Errorf("%+v, %v", l, err)
		}
		if err := s.UseWatchLink(ctx, team, "wln_2", 7); err != nil {
			t.Fatal(err)
		}
		if err := s.RevokeWatchLink(ctx, team, "wln_2", 60); err != nil {
			t.Fatal(err)
		}
		if err := s.RevokeWatchLink(ctx, team, "wln_2", 61); !fault.Is(err, fault.NotFound) {
			t.Errorf("revoked twice: %v", err)
		}
		if l, err := s.WatchLink(ctx, "wln_2"); err != nil || l.RevokedAt != 60 || l.Uses != 1 || l.LastUsedAt != 7 {
			t.Errorf("%+v, %v", l, err)
		}
		if got := ids("", 59) + " " + ids("", 60); got != "21 1" {
			t.Errorf("listed: %q", got)
		}
		// Another team's link is nobody's.
		if _, err := s.WatchLink(tenant.In(ctx, "team_other"), "wln_1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team's: %v", err)
		}
		if _, err := s.WatchLinkByHash(ctx, "c"); !fault.Is(err, fault.NotFound) {
			t.Errorf("none: %v", err)
		}
	})
}
