package store_test

import (
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestTeamSandboxesAreTheNewestOfEachWorkspace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		team, ws := seedWorkspace(t, db)
		s := store.NewExecutors(db)
		old := executors.Record{Handle: executors.Handle{Kind: executors.Local, ID: "sbx_1"}, TeamID: team, WorkspaceID: ws, State: executors.Running, StartedAt: 1}
		if err := s.InsertSandbox(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		old.State, old.EndedAt = executors.Gone, 2
		if err := s.UpdateSandbox(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		now := executors.Record{Handle: executors.Handle{Kind: executors.Local, ID: "sbx_2"}, TeamID: team, WorkspaceID: ws, State: executors.Running, StartedAt: 3}
		if err := s.InsertSandbox(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		got, err := s.TeamSandboxes(t.Context(), team)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Handle.ID != "sbx_2" || got[0].State != executors.Running {
			t.Errorf("got %+v, want the running sbx_2 alone", got)
		}
		if other, err := s.TeamSandboxes(t.Context(), "team_other"); err != nil || len(other) != 0 {
			t.Errorf("another team sees %d sandboxes (%v), want none", len(other), err)
		}
	})
}
