package store_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
)

func TestPullRequestsAreKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		_, team := storetest.Seed(t, db)
		ctx := tenant.In(t.Context(), team.ID)
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		rows, s := store.NewWorkspaces(db), store.NewForge(db)
		ok(rows.InsertProject(ctx, workspaces.Project{ID: "prj_1", TeamID: team.ID, Name: "p", SourceKind: workspaces.SourceURL, State: workspaces.ProjectReady}))
		_, err := rows.InsertWorkspace(ctx, workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: "prj_1", Name: "w", State: workspaces.Ready})
		ok(err)

		said := forge.Settings{Kind: forge.Gitea, APIURL: "https://git.example/api/v1", Repository: "a/b"}
		ok(s.SetProjectForge(ctx, "prj_1", said))
		if got, err := s.ProjectForge(ctx, "prj_1"); err != nil || got != said {
			t.Errorf("%+v %v", got, err)
		}

		p := forge.PullRequest{ID: "pr_1", TeamID: team.ID, WorkspaceID: "ws_1", ProjectID: "prj_1", Forge: forge.Gitea, Host: "git.example", Repository: "a/b", OpenedBy: "usr_1", OpenedAt: 1,
			Seen: forge.Seen{Number: 1, URL: "u", Title: "t", State: forge.Draft, Head: "h", Base: "main"}}
		ok(s.InsertPullRequest(ctx, p))
		if err := s.InsertPullRequest(ctx, p); err == nil {
			t.Error("it was kept twice")
		}
		p.State, p.Checks, p.Reviews, p.SyncedAt = forge.Open, []forge.Check{{Name: "unit", State: forge.Passed}}, []forge.Review{{Who: "grace", State: "approved"}}, 5
		ok(s.SavePullRequest(ctx, p))
		got, err := s.PullRequest(ctx, "ws_1")
		if err != nil || got.State != forge.Open || !slices.Equal(got.Checks, p.Checks) || !slices.Equal(got.Reviews, p.Reviews) || got.SyncedAt != 5 {
			t.Errorf("%+v %v", got, err)
		}
		next := p
		next.ID, next.Number, next.State, next.OpenedAt = "pr_2", 2, forge.Closed, 9
		ok(s.InsertPullRequest(ctx, next))
		if all, err := s.PullRequests(ctx, team.ID); err != nil || len(all) != 1 || all["ws_1"].ID != "pr_1" {
			t.Errorf("an open one comes first: %+v %v", all, err)
		}
		open := func(want ...string) {
			t.Helper()
			list, err := s.OpenPullRequests(tenant.All(t.Context(), "a test"))
			ids := []string{}
			for _, p := range list {
				ids = append(ids, p.ID)
			}
			if err != nil || !slices.Equal(ids, append([]string{}, want...)) {
				t.Errorf("to be looked at: %v %v, expected %v", ids, err, want)
			}
		}
		open("pr_1")
		p.State, p.Error = forge.Merged, "Its merge is being fetched."
		ok(s.SavePullRequest(ctx, p))
		open("pr_1")
		p.Error = ""
		ok(s.SavePullRequest(ctx, p))
		open()
		if _, err := s.PullRequestAt(ctx, "ws_1", "git.example", "a/b", 3); !fault.Is(err, fault.NotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		if _, err := s.PullRequest(tenant.In(t.Context(), "another"), "ws_1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads it: %v", err)
		}
	})
}
