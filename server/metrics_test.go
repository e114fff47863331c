package server

import (
	"testing"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
)

func TestMetricsOfTheInstance(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	member, operator := bearer(p.tokens["member"]), bearer(p.tokens["operator"])
	ws := "/api/v1/workspaces/" + p.ids["workspace"]
	if r := h.do("PATCH", ws, `{"executor":"fake"}`, member...); r.StatusCode != 200 {
		t.Fatalf("naming its place: %d %s", r.StatusCode, r.body)
	}
	if run := h.do("POST", ws+"/exec", `{"command":"true"}`, member...); run.StatusCode != 200 {
		t.Fatalf("a command: %d %s", run.StatusCode, run.body)
	}
	// What it would have cost in a place that costs something.
	paid := executors.UsageInterval{SandboxID: "sbx_paid", TeamID: p.team.ID, WorkspaceID: p.ids["workspace"], UserID: "usr_gone", Kind: "fake", PriceNano: 10 * billing.Nano}
	paid.Since = h.cfg.Ledger.Now() - 30_000
	pooled := executors.UsageInterval{SandboxID: "sbx_warm", Kind: "fake", Purpose: "pool", PriceNano: 10 * billing.Nano, Since: paid.Since}
	for _, s := range []executors.UsageInterval{paid, pooled} {
		if err := h.cfg.Ledger.Began(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := h.cfg.Ledger.Stopped(t.Context(), s, paid.Since+18_000, executors.ByExecutor); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.do("GET", "/api/v1/instance/metrics", "", member...); r.StatusCode != 403 {
		t.Errorf("a member: %d", r.StatusCode)
	}
	var m api.InstanceMetrics
	r := h.do("GET", "/api/v1/instance/metrics", "", operator...)
	r.into(t, &m)
	if len(m.Places) != 1 || m.Places[0].Executor != "fake" || m.Places[0].Created != 1 || m.Places[0].Active != 1 || m.Places[0].Workspaces == 0 || m.Places[0].CreateP95Ms == nil || m.Places[0].Share == 0 {
		t.Errorf("places: %s", r.body)
	}
	if len(m.Places[0].Purposes) != 1 || m.Places[0].Purposes[0] != m.Purposes[0] || len(m.Purposes) != 1 || m.Purposes[0].Purpose != "execution" || m.Purposes[0].Created != 1 || m.Purposes[0].Active != 1 ||
		m.Total.Created != 1 || m.Total.Active != 1 || m.Total.Reused != m.Places[0].Reused {
		t.Errorf("purposes: %s", r.body)
	}
	if len(m.Targets) != 4 || m.Targets[0].Met == nil || m.Targets[2].Value == nil || m.Targets[3].Value != nil || m.Targets[1].Value != nil {
		t.Errorf("targets: %s", r.body)
	}
	// It was last seen when it was noted, up to 30 s of $10 an hour.
	cost := m.Workspaces[0].CostNano
	if len(m.Workspaces) != 1 || m.Workspaces[0].Key == "" || m.Workspaces[0].Team != p.team.Slug || cost < billing.Cost(paid.PriceNano, 18_000) {
		t.Errorf("workspaces: %s", r.body)
	}
	if len(m.Users) != 1 || m.Users[0].UserId != "usr_gone" || m.Users[0].CostNano != cost || len(m.Teams) != 2 {
		t.Errorf("users and teams: %s", r.body)
	}
	if m.Pool.CostNanoMonth < cost/2 || m.Places[0].CostNanoMonth != cost+m.Pool.CostNanoMonth || m.Budget.SpentNano != m.Places[0].CostNanoMonth {
		t.Errorf("what they add up to: %s", r.body)
	}
	if m.Budget.LimitNano == nil || *m.Budget.LeftNano != *m.Budget.LimitNano-m.Budget.SpentNano || *m.Budget.LimitNano != 500*billing.Nano {
		t.Errorf("budget: %s", r.body)
	}
	var w api.Workspace
	h.do("GET", ws, "", member...).into(t, &w)
	if w.CostNano == nil || *w.CostNano != cost {
		t.Errorf("the workspace says that it cost %d, not %d", w.CostNano, cost)
	}
}
