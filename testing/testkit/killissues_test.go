package testkit_test

import (
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/testing/testkit"
)

// A server that is killed when the forge has a new issue, and then a change of it, and nothing here says so: the next one finds the issue
// instead of opening a second one, and nothing is left to send.
func TestKilledWhileAnIssueIsSent(t *testing.T) {
	t.Parallel()
	f, env := startForge(t, testforge.Gitea)
	h := testkit.StartWith(t, testkit.With{Env: env}, reachForge, `"database":{"url":"sqlite"}`)
	p := forgeProject(h, f)
	h.API("PATCH", "/projects/"+p+"/task-settings", map[string]any{"direction": "out", "all_tasks": true}, nil)
	// The lease of a server that died ends by itself, after minutes.
	released := func() {
		t.Helper()
		ctx := tenant.All(t.Context(), "test")
		db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: h.DataDir()})
		must(t, err)
		defer db.Close()
		_, err = db.Exec(ctx, `UPDATE issue_outbox SET lease = 0`)
		must(t, err)
	}
	sent := func(title string) {
		t.Helper()
		released()
		h.Wait("the forge lacks nothing", func() bool {
			var set struct{ Issues, Pending, Failed int }
			h.API("GET", "/projects/"+p+"/task-settings", nil, &set)
			return set.Issues == 1 && set.Pending == 0 && set.Failed == 0
		})
		if all := f.Issues(forgeRepo); len(all) != 1 || all[0].Title != title {
			t.Errorf("the forge has %+v", all)
		}
	}
	h.DieInTurn(failpoint.OfIssues, func(at failpoint.Point) {
		switch at {
		case failpoint.IssueOpened:
			_ = h.Try("POST", "/teams/"+h.Team+"/tasks", map[string]any{"project_id": p, "title": "Known"}, nil)
		case failpoint.IssueChanged:
			sent("Known")
			var tasks struct{ Items []struct{ ID string } }
			h.API("GET", "/teams/"+h.Team+"/tasks?project_id="+p, nil, &tasks)
			_ = h.Try("PATCH", "/tasks/"+tasks.Items[0].ID, map[string]any{"title": "Renamed"}, nil)
		default:
			t.Fatalf("%s is not tried", at)
		}
	})
	sent("Renamed")
}
