package server

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
)

// One harness for all of it: what a team's people and the operators say of plans, quotas and budgets, and what holds then.
func TestQuotasAndBudgetsByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.people(t)
	h.serve()
	as := func(who string) []string { return bearer(p.tokens[who]) }
	call := func(who, method, path, body string, status int, into any) reply {
		t.Helper()
		r := h.do(method, "/api/v1"+path, body, as(who)...)
		if r.StatusCode != status {
			t.Fatalf("%s %s by %s: %d %s", method, path, who, r.StatusCode, r.body)
		}
		if into != nil {
			reflect.ValueOf(into).Elem().SetZero() // maps would else be merged
			r.into(t, into)
		}
		return r
	}
	team := "/teams/" + p.ids["team"]

	// Nobody asked for bounds: there are none.
	var q api.TeamQuotas
	call("member", "GET", team+"/quotas", "", 200, &q)
	if len(q.Items) != 4 || q.Plan.Id != "enterprise" || q.Items[0].Effective.HoursMonth != nil || q.Items[0].Percent != nil || *q.Items[0].Effective.Cpus != 8 {
		t.Fatalf("quotas %+v", q)
	}
	call("viewer", "GET", team+"/quotas", "", 403, nil)
	call("outsider", "GET", team+"/quotas", "", 404, nil)

	// An operator gives the team a plan; it holds at once.
	var plan api.TeamPlan
	call("operator", "PUT", "/instance/teams/"+p.team.ID+"/plan", `{"plan_id":"pro"}`, 200, &plan)
	if plan.Plan.Id != "pro" || plan.Source != "operator" || plan.PaidPlanId != nil {
		t.Errorf("plan %+v", plan)
	}
	call("operator", "PUT", "/instance/teams/tm_nobody/plan", `{"plan_id":"pro"}`, 404, nil)
	if r := call("operator", "PUT", "/instance/teams/"+p.team.ID+"/plan", `{"plan_id":"gold"}`, 404, nil); r.code() != "plan_not_found" {
		t.Errorf("%s", r.body)
	}

	// An admin can lower a quota by override, not raise it; null and absent differ.
	member := ""
	call("admin", "GET", team+"/quotas", "", 200, &q)
	for _, it := range q.Items {
		if it.User.Name == "member" {
			member = it.User.Id
		}
	}
	body := func(rest string) string { return `{"items":[{"user_id":"` + member + `",` + rest + `}]}` }
	call("admin", "PUT", team+"/quotas", body(`"hours_month":20,"cpus":1`), 200, &q)
	call("admin", "PUT", team+"/quotas", body(`"concurrent":2,"inherit":["cpus"]`), 200, &q)
	for _, it := range q.Items {
		if it.User.Id != member {
			continue
		}
		if *it.Effective.HoursMonth != 20 || *it.Effective.Concurrent != 2 || *it.Effective.Cpus != 2 || len(it.Override) != 2 || *it.Override["hours_month"] != 20 || len(it.ByOperator) != 0 {
			t.Errorf("override %+v, effective %+v", it.Override, it.Effective)
		}
	}
	for change, code := range map[string]string{`"hours_month":101`: "quota_above_plan", `"hours_month":null`: "quota_above_plan", `"cpus":0`: "invalid_quota", `"inherit":["seats"]`: "invalid_quota"} {
		if r := h.do("PUT", "/api/v1"+team+"/quotas", body(change), as("admin")...); r.code() != code {
			t.Errorf("%s: %d %s", change, r.StatusCode, r.body)
		}
	}
	// All or nothing: the second item is nobody's.
	both := `{"items":[{"user_id":"` + member + `","hours_month":30},{"user_id":"usr_nobody","hours_month":30}]}`
	if r := call("admin", "PUT", team+"/quotas", both, 404, nil); r.code() != "member_not_found" {
		t.Errorf("%s", r.body)
	}
	if r := call("member", "PUT", team+"/quotas", body(`"hours_month":50`), 403, nil); !strings.Contains(string(r.body), "quotas") {
		t.Errorf("the right that is missing is not named: %s", r.body)
	}
	// An operator may go beyond the plan, and what they gave an admin may take back.
	call("operator", "PUT", "/instance/teams/"+p.team.ID+"/quotas", body(`"hours_month":null`), 200, &q)
	var mine api.MyQuotas
	call("member", "GET", "/me/quotas", "", 200, &mine)
	if len(mine.Items) != 1 || mine.Items[0].Effective.HoursMonth != nil || *mine.Items[0].Plan.HoursMonth != 100 || mine.Items[0].Team.Slug != p.ids["team"] {
		t.Errorf("mine %+v", mine)
	}
	if got := mine.Items[0].CountedPlaces; !slices.Equal(got, []string{"bubblewrap", "docker"}) { // two teams share this server
		t.Errorf("of this server's places %v count", got)
	}
	if v, said := mine.Items[0].Override["hours_month"]; !said || v != nil {
		t.Errorf("an explicit null override is missing: %+v", mine.Items[0].Override)
	}
	call("admin", "PUT", team+"/quotas", body(`"inherit":["hours_month","concurrent"]`), 200, &q)

	// The budget.
	var b api.BudgetOfTeam
	call("member", "GET", team+"/budget", "", 200, &b)
	if b.LimitNano != nil || len(b.Thresholds) != 3 || b.Status.State != "ok" || b.Status.Percent != nil || b.Status.LeftNano != nil {
		t.Errorf("budget %+v", b)
	}
	call("admin", "PUT", team+"/budget", `{"limit_nano":5000000000,"thresholds":[100,50],"overage":true,"overage_cap_nano":1000000000}`, 200, &b)
	call("admin", "PUT", team+"/budget", `{"count_tokens":true}`, 200, &b)
	if *b.LimitNano != 5_000_000_000 || b.Thresholds[0] != 50 || !b.CountTokens || *b.Status.LeftNano != 6_000_000_000 || *b.Status.Percent != 0 || !b.Notify.Mail {
		t.Errorf("budget %+v", b)
	}
	call("admin", "PUT", team+"/budget", `{"limit_nano":null}`, 200, &b)
	if b.LimitNano != nil || b.OverageCapNano == nil {
		t.Errorf("budget %+v", b)
	}
	for _, change := range []string{`{"limit_nano":-1}`, `{"thresholds":[0]}`, `{"thresholds":[80,80]}`, `{"grace_seconds":3601}`} {
		if r := h.do("PUT", "/api/v1"+team+"/budget", change, as("admin")...); r.code() != "invalid_budget" {
			t.Errorf("%s: %d %s", change, r.StatusCode, r.body)
		}
	}
	call("member", "PUT", team+"/budget", `{"limit_nano":1}`, 403, nil)

	// Plans.
	var one api.Plan
	call("operator", "POST", "/instance/plans", `{"id":"school","name":"School","hours_month":5,"cpus":1,"offered":true}`, 201, &one)
	if one.Id != "school" || *one.HoursMonth != 5 || one.Concurrent != nil || !one.Offered {
		t.Errorf("plan %+v", one)
	}
	call("operator", "PATCH", "/instance/plans/school", `{"hours_month":null,"concurrent":1}`, 200, &one)
	if one.HoursMonth != nil || *one.Concurrent != 1 || *one.Cpus != 1 || one.Name != "School" {
		t.Errorf("plan %+v", one)
	}
	var plans api.PlanList
	call("operator", "GET", "/instance/plans", "", 200, &plans)
	if plans.DefaultPlan != "enterprise" || plans.DefaultChosen {
		t.Errorf("before anybody chose: %+v", plans)
	}
	hours := map[string]int64{}
	for _, p := range plans.Items {
		if p.HoursMonth != nil {
			hours[p.Id] = *p.HoursMonth
		}
	}
	if hours["free"] != 10 || hours["pro"] != 100 || len(hours) != 2 {
		t.Errorf("hours of the plans that are offered at first: %v", hours)
	}
	call("operator", "PUT", "/instance/plans", `{"default_plan":"school"}`, 200, &plans)
	if plans.DefaultPlan != "school" || len(plans.Items) != 4 || plans.DefaultLocked || !plans.DefaultChosen {
		t.Errorf("plans %+v", plans)
	}
	for path, code := range map[string]string{"school": "plan_in_use", "free": "plan_built_in", "nothing": "plan_not_found"} {
		if r := h.do("DELETE", "/api/v1/instance/plans/"+path, "", as("operator")...); r.code() != code {
			t.Errorf("deleting %s: %d %s", path, r.StatusCode, r.body)
		}
	}
	// Taken back: the default plan holds.
	call("operator", "PUT", "/instance/teams/"+p.team.ID+"/plan", `{"plan_id":null}`, 200, &plan)
	if plan.Plan.Id != "school" || plan.Source != "" {
		t.Errorf("plan %+v", plan)
	}
	call("operator", "PUT", "/instance/plans", `{"default_plan":"enterprise"}`, 200, &plans)
	if !plans.DefaultChosen {
		t.Error("no bound was chosen, and is asked for again")
	}
	call("operator", "DELETE", "/instance/plans/school", "", 204, nil)

	// The kill switch.
	var k api.KillSwitchState
	call("operator", "PUT", "/instance/kill-switch", `{"on":true,"reason":"the bill"}`, 200, &k)
	call("operator", "GET", "/instance/kill-switch", "", 200, &k)
	if !k.On || k.Stop || k.Reason != "the bill" || k.At == nil {
		t.Errorf("switch %+v", k)
	}
	call("operator", "PUT", "/instance/kill-switch", `{"on":false}`, 200, &k)
	if k.On || k.Reason != "" {
		t.Errorf("switch %+v", k)
	}

	// Who did it is remembered, with what they said.
	r := call("owner", "GET", team+"/audit?action=team_quotas.set", "", 200, nil)
	var rows struct{ Items []json.RawMessage }
	r.into(t, &rows)
	if len(rows.Items) == 0 || !strings.Contains(string(r.body), "hours_month 20, cpus 1") {
		t.Errorf("audit: %s", r.body)
	}
}
