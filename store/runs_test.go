package store_test

import (
	"reflect"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewRuns(db)
		team, user, ws := sessionHarness(t, db)
		var project string
		if err := db.QueryRow(ctx, `SELECT project_id FROM workspaces WHERE id = ?`, ws[0]).Scan(&project); err != nil {
			t.Fatal(err)
		}
		make := func(at int64) runs.Run {
			t.Helper()
			r := runs.Run{ID: id.New("run"), TeamID: team, ProjectID: project, Name: "n", Prompt: "do\nit é", CreatedBy: user, CreatedAt: at}
			for i := range 2 {
				r.Attempts = append(r.Attempts, runs.Attempt{ID: id.New("att"), RunID: r.ID, Num: i + 1, Name: "w", Agent: "codex", AccountID: "a", Args: [][]string{{}, {"--model", "é x"}}[i], Base: "main",
					Executor: "local", Made: i == 0, State: runs.Making, StateAt: at})
			}
			if err := st.InsertRun(ctx, r); err != nil {
				t.Fatal(err)
			}
			return r
		}
		first, second := make(1), make(2)
		if got, err := st.Run(ctx, first.ID); err != nil || !reflect.DeepEqual(got, first) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := st.Run(ctx, "run_none"); fault.CodeOf(err) != "run_not_found" {
			t.Errorf("got %v", err)
		}
		a := &first.Attempts[0]
		a.WorkspaceID, a.SessionID, a.State, a.StateAt = ws[0], "ses_1", runs.Started, 9
		if err := st.UpdateAttempt(ctx, *a); err != nil {
			t.Fatal(err)
		}
		b := &first.Attempts[1]
		b.State, b.Code, b.Reason = runs.Failed, "c", "r"
		if err := st.UpdateAttempt(ctx, *b); err != nil {
			t.Fatal(err)
		}
		first.Kept = a.ID
		if err := st.KeepAttempt(ctx, first.ID, a.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Run(ctx, first.ID); err != nil || !reflect.DeepEqual(got, first) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if open, err := st.OpenRuns(ctx); err != nil || len(open) != 1 || open[0].ID != second.ID || len(open[0].Attempts) != 2 {
			t.Errorf("open: %+v, %v", open, err)
		}
		items, next, err := st.Runs(ctx, team, page.Page{Limit: 1})
		if err != nil || len(items) != 1 || items[0].ID != second.ID || next == "" {
			t.Fatalf("got %+v, %q, %v", items, next, err)
		}
		if items, next, err = st.Runs(ctx, team, page.Page{Limit: 1, Cursor: next}); err != nil || len(items) != 1 || items[0].ID != first.ID || next != "" {
			t.Errorf("got %+v, %q, %v", items, next, err)
		}
		if items, _, _ := st.Runs(ctx, "team_other", page.Page{}); len(items) != 0 {
			t.Errorf("another team sees %d", len(items))
		}
		if by, err := st.RunsByWorkspace(ctx, team); err != nil || !reflect.DeepEqual(by, map[string]string{ws[0]: first.ID}) {
			t.Errorf("got %v, %v", by, err)
		}
	})
}
