package noticestore_test

import (
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Notices are shown to members of their team, and hidden with a workspace that became private; the newest of each user stay.
func TestNotices(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := tenant.All(t.Context(), "a test of notices")
		s, people, work := noticestore.New(db), store.NewAccounts(db), store.NewWorkspaces(db)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ada, team := storetest.Seed(t, db)
		eve := accounts.User{ID: "usr_eve", Email: "eve@example.com", Name: "Eve"}
		_, err := people.InsertUser(ctx, eve)
		must(err)
		_, err = people.InsertMember(ctx, team.ID, eve.ID, accounts.Member, 1)
		must(err)
		p := workspaces.Project{ID: "prj_1", TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: ada.ID}
		must(work.InsertProject(ctx, p))
		w, err := work.InsertWorkspace(ctx, workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: p.ID, Name: "w", Branch: "b", State: workspaces.Ready, CreatedBy: ada.ID})
		must(err)

		must(s.InsertNotices(ctx, []notify.Notice{{ID: "n1", UserID: eve.ID, TeamID: team.ID, Kind: notify.Failed, WorkspaceID: w.ID, At: 1}, {ID: "n2", UserID: eve.ID, TeamID: team.ID, Kind: notify.Budget, At: 2},
			{ID: "n3", UserID: eve.ID, TeamID: team.ID, Kind: notify.Budget, At: 3, ReadAt: 3}, {ID: "n1", UserID: ada.ID, TeamID: team.ID, Kind: notify.Failed, WorkspaceID: w.ID, At: 1}}))
		seen := func(user string, count, unread int, when string) {
			t.Helper()
			if all, n, err := s.Notices(ctx, user, 10); err != nil || len(all) != count || n != unread {
				t.Errorf("%s: %d notices, %d unread, %v; want %d and %d", when, len(all), n, err, count, unread)
			}
		}
		seen(eve.ID, 3, 2, "a member")
		_, err = db.Exec(ctx, `/* every team: a test */ UPDATE workspaces SET private = ? WHERE id = ?`, true, w.ID)
		must(err)
		seen(eve.ID, 2, 1, "a workspace that became private")
		seen(ada.ID, 1, 1, "its owner")
		must(s.PruneNotices(ctx, 0, 1))
		seen(eve.ID, 1, 0, "the newest that stays")
		must(people.DeleteMember(ctx, team.ID, eve.ID))
		seen(eve.ID, 0, 0, "a former member")
		must(s.PruneNotices(ctx, 100, 10))
		seen(ada.ID, 0, 0, "old ones")

		must(store.NewChecks(db).InsertCheckRuns(ctx, []checks.Run{{ID: "cru_1", TeamID: team.ID, WorkspaceID: w.ID, BatchID: "b", CheckID: "c", Name: "lint", Required: true, State: checks.RunTimedOut, EndedAt: 5},
			{ID: "cru_2", TeamID: team.ID, WorkspaceID: w.ID, CheckID: "c", Required: true, State: checks.RunFailed, EndedAt: 4}}))
		if all, err := s.FailedChecks(ctx, team.ID, 4); err != nil || len(all) != 1 || all[0].Name != "lint" || all[0].BatchID != "b" || all[0].WorkspaceID != w.ID {
			t.Errorf("failed checks: %+v, %v", all, err)
		}
		_, err = store.NewReviews(db).OpenDraft(ctx, reviews.Review{ID: "rev_1", TeamID: team.ID, WorkspaceID: w.ID, AuthorID: eve.ID, State: reviews.Sent, Verdict: reviews.Approve, SentAt: 5})
		must(err)
		if all, err := s.SentReviews(ctx, team.ID, 4); err != nil || len(all) != 1 || all[0].AuthorID != eve.ID || all[0].Verdict != reviews.Approve {
			t.Errorf("reviews: %+v, %v", all, err)
		}
	})
}
