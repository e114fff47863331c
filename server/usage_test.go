package server

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
)

// What people read of costs is the ledger, wherever they read it: the usage of the team and of the instance, its CSV, the workspace, the hours
// that are reported, the metrics page and Prometheus.
func TestEverybodySeesTheSameCosts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	member, operator := bearer(p.tokens["member"]), bearer(p.tokens["operator"])
	ws := p.ids["workspace"]
	now := h.cfg.Ledger.Now()
	_, first, _ := billing.Month(now)
	begin := max(first, now-3*24*3_600_000)
	if now-begin < 60_000 {
		begin = now - 60_000 // a month that has just begun
	}
	for i, ms := range []int64{7_000, 12_345, 40_001} {
		s := executors.UsageInterval{SandboxID: fmt.Sprintf("sbx_%d", i), TeamID: p.team.ID, WorkspaceID: ws, UserID: p.ids["member user"], Kind: "fake", CPUs: 2, MemoryMB: 2048,
			PriceNano: 133_200_000, Metered: true, Since: begin}
		if err := h.cfg.Ledger.Stopped(t.Context(), s, begin+ms, executors.ByExecutor); err != nil {
			t.Fatal(err)
		}
	}
	var ledger int64
	if err := h.db.QueryRow(t.Context(), `SELECT SUM(cost_nano) FROM segments`).Scan(&ledger); err != nil || ledger == 0 {
		t.Fatal(ledger, err)
	}
	said := map[string]int64{}
	for _, group := range []string{"day", "user", "project", "executor", "agent", "workspace"} {
		for path, as := range map[string][]string{"/api/v1/teams/" + p.team.Slug + "/usage?group=" + group: member, "/api/v1/instance/usage?group=" + group: operator} {
			var u api.UsageReport
			h.do("GET", path, "", as...).into(t, &u)
			said[path] = u.Totals.CostNano
			r := h.do("GET", path+"&format=csv", "", as...)
			if r.Header.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(r.Header.Get("Content-Disposition"), "by-"+group+".csv") {
				t.Errorf("%s as a file: %v", path, r.Header)
			}
			rows, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
			if err != nil || len(rows) != len(u.Items)+1 {
				t.Fatalf("%s as a file: %v %v", path, rows, err)
			}
			for _, row := range rows[1:] {
				nano, err := strconv.ParseInt(strings.Replace(row[6], ".", "", 1), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				said[path+" csv"] += nano
			}
		}
	}
	var w api.Workspace
	h.do("GET", "/api/v1/workspaces/"+ws, "", member...).into(t, &w)
	said["workspace"] = *w.CostNano
	var c api.WorkspaceCosts
	h.do("GET", "/api/v1/workspaces/"+ws+"/costs", "", member...).into(t, &c)
	said["costs"] = c.CostNano
	for _, s := range c.BySession {
		said["sessions"] += s.CostNano
	}
	var m api.InstanceMetrics
	h.do("GET", "/api/v1/instance/metrics", "", operator...).into(t, &m)
	said["metrics page"], said["its workspaces"] = m.Budget.SpentNano, m.Workspaces[0].CostNano
	text := string(h.do("GET", "/metrics", "", operator...).body)
	for _, name := range []string{`parawork_budget_spent_dollars`, `parawork_cost_month_dollars{executor="fake"}`} {
		found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		said[name] = int64(v*billing.Nano + 0.5)
	}
	if err := h.cfg.Ledger.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now-begin > 2*3_600_000 { // else the hour is not over
		var hours int64
		if err := h.db.QueryRow(t.Context(), `SELECT SUM(cost_nano) FROM usage_hours`).Scan(&hours); err != nil {
			t.Fatal(err)
		}
		said["hours"] = hours
	}
	for where, nano := range said {
		if nano != ledger {
			t.Errorf("%s says %d, and the ledger %d", where, nano, ledger)
		}
	}
	var items api.UsageReport
	h.do("GET", "/api/v1/teams/"+p.team.Slug+"/usage?group=workspace", "", member...).into(t, &items)
	if len(items.Items) != 1 || items.Items[0].Key != ws || !strings.HasPrefix(items.Items[0].Name, w.Key+" ") || items.Items[0].MeteredMs != items.Totals.RunMs {
		t.Errorf("%+v", items.Items)
	}
}

// A private workspace is a line without a name to others, also to operators.
func TestUsageTellsNothingOfPrivateWorkspaces(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	now := h.cfg.Ledger.Now()
	s := executors.UsageInterval{SandboxID: "sbx_1", TeamID: p.team.ID, WorkspaceID: p.ids["workspace"], Kind: "fake", PriceNano: 133_200_000, Since: now - 50_000}
	if err := h.cfg.Ledger.Stopped(t.Context(), s, now-1_000, executors.ByExecutor); err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.Exec(t.Context(), `UPDATE workspaces SET private = TRUE, created_by = 'usr_else' WHERE id = ?`, p.ids["workspace"]); err != nil {
		t.Fatal(err)
	}
	for path, token := range map[string]string{"/api/v1/teams/" + p.team.Slug + "/usage?group=workspace": "member", "/api/v1/instance/usage?group=workspace": "operator"} {
		var u api.UsageReport
		r := h.do("GET", path, "", bearer(p.tokens[token])...)
		r.into(t, &u)
		if len(u.Items) != 1 || u.Items[0].Key != "private" || u.Items[0].Name != "" || u.Items[0].CostNano == 0 || strings.Contains(string(r.body), p.ids["workspace"]) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	operator := bearer(p.tokens["operator"])
	if r := h.do("POST", "/api/v1/instance/prices", `{"executor":"local","vcpu_second_nano":1,"gib_second_nano":1,"metered":true}`, operator...); r.StatusCode != 422 && r.StatusCode != 400 || r.code() != "price_invalid" {
		t.Errorf("a price of this server's own: %d %s", r.StatusCode, r.body)
	}
	r := h.do("POST", "/api/v1/instance/prices", `{"executor":"docker","vcpu_second_nano":5000,"gib_second_nano":0,"metered":true}`, operator...)
	var row api.Price
	r.into(t, &row)
	if r.StatusCode != 201 || !row.Holds || row.CreatedBy == "" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	later := fmt.Sprintf(`{"executor":"docker","vcpu_second_nano":6000,"gib_second_nano":0,"metered":false,"effective_from":%d}`, row.EffectiveFrom+3_600_000)
	for _, want := range []string{"", "price_taken"} {
		if r := h.do("POST", "/api/v1/instance/prices", later, operator...); r.code() != want {
			t.Errorf("%d %s, not %q", r.StatusCode, r.body, want)
		}
	}
	var all api.PriceList
	h.do("GET", "/api/v1/instance/prices", "", operator...).into(t, &all)
	if len(all.Items) != 2 || all.Items[0].Holds || !all.Items[1].Holds || all.Items[1].Id != row.Id {
		t.Errorf("%+v", all.Items)
	}
}
