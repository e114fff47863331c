package server

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// What people may expect of this server's places, as its metrics page says.
const (
	creationTargetMs = 3000
	successTarget    = 99.0 // percent
	commandTargetMs  = 100
	syncTargetMs     = 5000
)

// leastMakings is how many makings it takes for their success to mean anything.
const leastMakings = 5

func (h operations) GetInstanceMetrics(ctx context.Context, _ api.GetInstanceMetricsRequestObject) (api.GetInstanceMetricsResponseObject, error) {
	report, err := h.cfg.Ledger.Report(ctx)
	if err != nil {
		return nil, err
	}
	counts := h.cfg.Places.Counters().Counts()
	out := api.GetInstanceMetrics200JSONResponse{Since: h.cfg.Places.Counters().Since(), Period: report.Period, ResetsAt: report.Budget.ResetsAt,
		Targets: targets(counts), Places: []api.PlaceMetrics{}, Workspaces: rest.List(report.Workspaces, workspaceCost), Users: rest.List(report.Users, userCost),
		Teams: rest.List(report.Teams, teamCost), Budget: budgetOf(report.Budget)}
	all := int64(0)
	for _, n := range report.Living {
		all += n
	}
	active := h.cfg.Metering.Active()
	living := make(map[executors.Kind]int64, len(report.Living)) // members' machines are one place here
	for k, n := range report.Living {
		living[executors.Kind(k).Base()] += n
	}
	places := h.cfg.Choice.Capabilities(ctx)
	if n := counts[executors.Runner]; living[executors.Runner] > 0 || n.Created+n.Failed > 0 {
		places = append(places, executors.Capabilities{Kind: executors.Runner, Name: "Members' own machines"})
	}
	for _, c := range places {
		p := placeMetrics(counts[c.Kind], active[c.Kind])
		p.Executor, p.Name, p.Workspaces = string(c.Kind), c.Name, living[c.Kind]
		if all > 0 {
			p.Share = round(float64(p.Workspaces)/float64(all), 4)
		}
		p.CostNanoMonth = report.Executors[string(c.Kind)].CostNano
		out.Places = append(out.Places, p)
	}
	out.Purposes, out.Total = purposes(counts, active)
	pool, err := h.cfg.Places.Pool(ctx)
	if err != nil {
		return nil, err
	}
	out.Pool = api.PoolMetrics{Enabled: pool.Enabled, Min: pool.Min, Max: pool.Max, Ready: pool.Ready, Making: pool.Making, Taken: pool.Taken}
	for _, c := range counts {
		out.Pool.Hits += c.WarmHits
		out.Pool.Misses += c.WarmMisses
	}
	for _, e := range report.Executors {
		out.Pool.CostNanoMonth += e.PoolCostNano
	}
	return out, nil
}

func placeMetrics(c executors.Counts, active map[executors.Purpose]int64) api.PlaceMetrics {
	all := map[executors.Kind]map[executors.Purpose]int64{c.Kind: active}
	out := api.PlaceMetrics{Created: c.Created, Cleaned: c.Cleaned, Reused: c.Reused, HealthFailures: c.HealthFailures, Fallbacks: c.Fallbacks, Failed: c.Failed}
	var total api.SandboxCounts
	out.Purposes, total = purposes(map[executors.Kind]executors.Counts{c.Kind: c}, all)
	out.Active = total.Active
	if c.Create.Count > 0 {
		out.CreateP50Ms, out.CreateP95Ms = &c.Create.P50Ms, &c.Create.P95Ms
	}
	if n := c.Created + c.Failed; n > 0 {
		out.Success = new(round(float64(c.Created)/float64(n), 4))
	}
	if c.RunMs > 0 {
		out.IdleShare = new(round(float64(c.IdleMs)/float64(c.RunMs), 4))
	}
	if c.Lag.Count > 0 {
		out.SyncLagP95Ms = &c.Lag.P95Ms
	}
	return out
}

// purposes returns the counts of sandboxes by purpose, sorted, and of all of them.
func purposes(counts map[executors.Kind]executors.Counts, active map[executors.Kind]map[executors.Purpose]int64) (rows []api.PurposeMetrics, total api.SandboxCounts) {
	of := make(map[executors.Purpose]executors.PurposeCounts)
	run := make(map[executors.Purpose]int64)
	for _, c := range counts {
		for p, n := range c.Purposes {
			sum := of[p]
			sum.Add(n)
			of[p] = sum
		}
	}
	for _, by := range active {
		for p, n := range by {
			run[p] += n
			if _, ok := of[p]; !ok {
				of[p] = executors.PurposeCounts{}
			}
		}
	}
	rows = []api.PurposeMetrics{}
	var all executors.PurposeCounts
	for _, p := range slices.Sorted(maps.Keys(of)) {
		n := of[p]
		all.Add(n)
		total.Active += run[p]
		rows = append(rows, api.PurposeMetrics{Purpose: string(p), Active: run[p], Created: n.Created, Failed: n.Failed, Cleaned: n.Cleaned, Reused: n.Reused, HealthFailures: n.HealthFailures})
	}
	total.Created, total.Failed, total.Cleaned, total.Reused, total.HealthFailures = all.Created, all.Failed, all.Cleaned, all.Reused, all.HealthFailures
	return rows, total
}

// targets say what people may expect, and how it is in the place that does worst.
func targets(counts map[executors.Kind]executors.Counts) []api.MetricTarget {
	var creation, command, lag *float64
	success := (*float64)(nil)
	worst := func(to **float64, n, ms int64) {
		if v := float64(ms); n > 0 && (*to == nil || **to < v) {
			*to = &v
		}
	}
	for _, c := range counts {
		worst(&creation, c.Create.Count, c.Create.P95Ms)
		worst(&command, c.Command.Count, c.Command.P95Ms)
		worst(&lag, c.Lag.Count, c.Lag.P95Ms)
		if n := c.Created + c.Failed; n >= leastMakings {
			if v := round(100*float64(c.Created)/float64(n), 2); success == nil || *success > v {
				success = &v
			}
		}
	}
	below := func(name string, target float64, v *float64, words string) api.MetricTarget {
		t := api.MetricTarget{Name: name, Target: target, Value: v, Unit: "ms", Description: words}
		if v != nil {
			t.Met = new(*v < target)
		}
		return t
	}
	out := []api.MetricTarget{
		below("creation", creationTargetMs, creation, "95 of 100 sandboxes are ready within 3 s"),
		{Name: "success", Target: successTarget, Value: success, Unit: "percent", Description: "More than 99 of 100 sandboxes that are asked for become ready"},
		below("command", commandTargetMs, command, "95 of 100 commands run within 100 ms in a sandbox that is ready"),
		below("sync", syncTargetMs, lag, "95 of 100 changed files are on this server within 5 s"),
	}
	if success != nil {
		out[1].Met = new(*success > successTarget)
	}
	return out
}

func budgetOf(b billing.Standing) api.BudgetMetrics {
	out := api.BudgetMetrics{SpentNano: b.SpentNano}
	if b.Limited {
		out.LimitNano, out.LeftNano = &b.LimitNano, new(b.LeftNano())
	}
	return out
}

func workspaceCost(c billing.WorkspaceCost) api.WorkspaceCost {
	out := api.WorkspaceCost{WorkspaceId: c.WorkspaceID, Name: c.Name, Team: c.Team, CostNano: c.CostNano}
	if c.Num > 0 {
		out.Key = workspaces.Workspace{Num: c.Num}.Key()
	}
	return out
}

func userCost(c billing.UserCost) api.UserCost {
	return api.UserCost{UserId: c.UserID, Name: c.Name, CostNano: c.CostNano}
}

func teamCost(c billing.TeamCost) api.TeamCost {
	return api.TeamCost{TeamId: c.TeamID, Team: c.Slug, Name: c.Name, CostNano: c.CostNano}
}

// round keeps so many places of a figure for people.
func round(v float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(v*p) / p
}
