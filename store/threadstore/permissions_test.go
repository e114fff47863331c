package threadstore_test

import (
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/threadstore"
)

// A session has the rules of its team and its project, and nobody else's; the same rule is stored once.
func TestRulesOfTeamsProjectsAndSessions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, _, th := thread(t, db)
		s := threadstore.NewPermissions(db)
		add := func(id, project, tool string, most int) (permissions.Rule, error) {
			return s.Add(ctx, permissions.Rule{ID: id, TeamID: th.TeamID, ProjectID: project, Tool: tool, Pattern: "p *", Effect: permissions.Deny, CreatedBy: "usr_1", CreatedAt: int64(len(id))}, most)
		}
		if _, err := add("prl_1", "", "run_command", 1); err != nil {
			t.Fatal(err)
		}
		if r, err := add("prl_22", "prj_1", "run_command", 1); err != nil || r.ID != "prl_22" {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := add("prl_3", "prj_1", "run_command", 1); err != nil || r.ID != "prl_22" {
			t.Errorf("the same rule again: %+v, %v", r, err)
		}
		if _, err := add("prl_3", "prj_1", "web", 1); fault.CodeOf(err) != "permission_rules_full" {
			t.Errorf("one too many: %v", err)
		}
		for want, of := range map[int][2]string{1: {"", ""}, 2: {"prj_1", "ses_1"}} {
			all, err := s.Rules(ctx, th.TeamID, of[0], of[1])
			if err != nil || len(all) != want || all[0].ID != "prl_1" || all[0].Pattern != "p *" || all[0].Effect != permissions.Deny {
				t.Errorf("%v: %+v, %v", of, all, err)
			}
		}
		if all, err := s.Rules(ctx, th.TeamID, "prj_other", ""); err != nil || len(all) != 1 {
			t.Errorf("of another project: %+v, %v", all, err)
		}
		if _, err := s.Rule(tenant.In(t.Context(), "team_other"), "prl_1"); !fault.Is(err, fault.NotFound) {
			t.Errorf("read by another team: %v", err)
		}
		if err := s.Delete(ctx, "prl_22"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rule(ctx, "prl_22"); !fault.Is(err, fault.NotFound) {
			t.Errorf("after it was removed: %v", err)
		}
	})
}

// Limits of a team and of its projects are apart, can be taken away one by one, and no other team reads them.
func TestLimitsOfTurns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, s, th := thread(t, db)
		set := func(project string, steps, cost *int64) {
			t.Helper()
			if err := s.SetTurnLimits(ctx, agent.TurnLimits{TeamID: th.TeamID, ProjectID: project, Steps: steps, CostNano: cost, UpdatedBy: "usr_1", UpdatedAt: 5}); err != nil {
				t.Fatal(err)
			}
		}
		set("", new(int64(7)), nil)
		set("prj_1", new(int64(3)), new(int64(9)))
		set("prj_1", nil, new(int64(8)))
		if l, err := s.TurnLimits(ctx, th.TeamID, ""); err != nil || l.Steps == nil || *l.Steps != 7 || l.CostNano != nil || l.UpdatedBy != "usr_1" {
			t.Errorf("%+v, %v", l, err)
		}
		if l, err := s.TurnLimits(ctx, th.TeamID, "prj_1"); err != nil || l.Steps != nil || l.CostNano == nil || *l.CostNano != 8 {
			t.Errorf("%+v, %v", l, err)
		}
		if l, err := s.TurnLimits(ctx, th.TeamID, "prj_2"); err != nil || l.Steps != nil || l.UpdatedAt != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		if l, err := s.TurnLimits(tenant.In(t.Context(), "team_other"), th.TeamID, ""); err != nil || l.Steps != nil {
			t.Errorf("another team reads %+v, %v", l, err)
		}
	})
}
