package people

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func quotaOf(q quota.Quota) api.Quota {
	return api.Quota{HoursMonth: q.HoursMonth, Concurrent: q.Concurrent, ConcurrentTeam: q.ConcurrentTeam, Cpus: q.CPUs, MemoryMb: q.MemoryMB, SessionMinutes: q.SessionMinutes,
		CreationsHour: q.CreationsHour, Seats: q.Seats}
}

func byHandOf(h quota.ByHand) (out api.QuotaOverride, operators []string) {
	out, operators = make(api.QuotaOverride, len(h)), []string{}
	for name, l := range h {
		out[name] = l.Value
		if l.ByOperator {
			operators = append(operators, name)
		}
	}
	slices.Sort(operators)
	return out, operators
}

func usedOf(u quota.UserStanding) api.QuotaUsed {
	return api.QuotaUsed{HoursMs: u.UsedMs, ReservedMs: u.ReservedMs, Running: u.Running}
}

// teamQuotas are all members' of a team.
func (h Quotas) teamQuotas(ctx context.Context, teamID string) (api.TeamQuotas, error) {
	all, members, plan, err := h.cfg.Quota.TeamStandings(ctx, teamID)
	if err != nil {
		return api.TeamQuotas{}, err
	}
	out := api.TeamQuotas{Items: []api.UserQuota{}, Plan: api.PlanRef{Id: plan.ID, Name: plan.Name}}
	for i, u := range all {
		hand, operators := byHandOf(u.ByHand)
		out.Items = append(out.Items, api.UserQuota{User: api.Person{Id: u.UserID, Name: members[i].Name}, Plan: quotaOf(plan.Quota), Override: hand, ByOperator: operators,
			Effective: quotaOf(u.Quota), Used: usedOf(u), Percent: u.Percent, ExhaustedAt: u.ExhaustedAt, ResetsAt: u.ResetsAt})
	}
	return out, nil
}

func (h Quotas) GetTeamQuotas(ctx context.Context, _ api.GetTeamQuotasRequestObject) (api.GetTeamQuotasResponseObject, error) {
	out, err := h.teamQuotas(ctx, rest.CallOf(ctx).Team.ID)
	return api.GetTeamQuotas200JSONResponse(out), err
}

func (h Quotas) SetTeamQuotas(ctx context.Context, req api.SetTeamQuotasRequestObject) (api.SetTeamQuotasResponseObject, error) {
	out, err := h.setQuotas(ctx, rest.CallOf(ctx).Team.ID, req.Body.Items, false)
	return api.SetTeamQuotas200JSONResponse(out), err
}

func (h Quotas) setQuotas(ctx context.Context, teamID string, items []api.QuotaChange, byOperator bool) (api.TeamQuotas, error) {
	changes := make([]quota.UserChange, 0, len(items))
	var users []string
	for _, it := range items {
		c := quota.UserChange{UserID: it.UserId, Set: make(map[string]*int64), Inherit: rest.Val(it.Inherit)}
		for name, m := range map[string]api.Maybe{quota.HoursMonth: it.HoursMonth, quota.Concurrent: it.Concurrent, quota.CPUs: it.Cpus, quota.MemoryMB: it.MemoryMb,
			quota.SessionMinutes: it.SessionMinutes} {
			if m.Said {
				c.Set[name] = m.Value
			}
		}
		changes = append(changes, c)
		users = append(users, it.UserId+": "+changeWords(c))
	}
	if err := h.cfg.Quota.SetUsers(ctx, teamID, changes, rest.CallOf(ctx).Actor.User.ID, byOperator); err != nil {
		return api.TeamQuotas{}, err
	}
	audit.Note(ctx, "quotas", strings.Join(users, "; "))
	return h.teamQuotas(ctx, teamID)
}

// changeWords write a change for the audit: "hours_month 20, cpus none, concurrent of the plan".
func changeWords(c quota.UserChange) string {
	var out []string
	for _, name := range quota.Fields {
		if v, ok := c.Set[name]; ok {
			out = append(out, name+" "+amount(v))
		}
	}
	for _, name := range c.Inherit {
		out = append(out, name+" of the plan")
	}
	return strings.Join(out, ", ")
}

// amount writes a bound for the audit.
func amount(v *int64) string {
	if v == nil {
		return "without bound"
	}
	return strconv.FormatInt(*v, 10)
}

func (h Quotas) GetMyQuotas(ctx context.Context, _ api.GetMyQuotasRequestObject) (api.GetMyQuotasResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	mine := actor.TeamIDs()
	out := api.GetMyQuotas200JSONResponse{Items: []api.MyQuota{}}
	counted, err := h.cfg.Quota.Counted(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range actor.Memberships {
		if !slices.Contains(mine, m.Team.ID) {
			continue // a token of another team
		}
		u, err := h.cfg.Quota.UserStanding(ctx, m.Team.ID, actor.User.ID)
		if err != nil {
			return nil, err
		}
		hand, _ := byHandOf(u.ByHand)
		one := api.MyQuota{PlanName: u.Plan.Name, Plan: quotaOf(u.Plan.Quota), Override: hand, Effective: quotaOf(u.Quota), Used: usedOf(u), Percent: u.Percent,
			ExhaustedAt: u.ExhaustedAt, ResetsAt: u.ResetsAt, CountedPlaces: counted}
		one.Team.Id, one.Team.Slug, one.Team.Name = m.Team.ID, m.Team.Slug, m.Team.Name
		out.Items = append(out.Items, one)
	}
	return out, nil
}

// teamBudget is a team's budget with how it stands.
func (h Quotas) teamBudget(ctx context.Context, teamID string) (api.BudgetOfTeam, error) {
	st, err := h.cfg.Quota.TeamStanding(ctx, teamID)
	if err != nil {
		return api.BudgetOfTeam{}, err
	}
	alerts, err := h.cfg.Quota.Alerts(ctx, teamID)
	if err != nil {
		return api.BudgetOfTeam{}, err
	}
	b := st.Budget
	return api.BudgetOfTeam{LimitNano: b.LimitNano, CountTokens: b.CountTokens, Thresholds: append([]int64{}, b.Thresholds...), Overage: b.Overage, OverageCapNano: b.OverageCapNano,
		GraceSeconds: b.GraceSeconds, Notify: api.NotifyWays{App: b.NotifyApp, Mail: b.NotifyMail, Webhooks: b.NotifyWebhooks},
		Status: api.BudgetStatus{Period: st.Period, ResetsAt: st.ResetsAt, SpentNano: st.SpentNano, SandboxNano: st.SandboxNano, TokensNano: st.TokensNano,
			TokensUnknown: st.TokensUnknown, TokensEstimateNano: st.TokensEstimateNano, ReservedNano: st.ReservedNano, LeftNano: st.Left(), RateNanoPerHour: st.RateNano, ExhaustedAt: st.ExhaustedAt, Percent: st.Percent,
			State: api.BudgetStatusState(st.State)},
		Alerts: rest.List(alerts, func(a quota.Alert) api.BudgetAlert {
			return api.BudgetAlert{Scope: a.Scope, ScopeId: a.ScopeID, Period: a.Period, Percent: a.Percent, Used: a.Used, Limit: a.LimitAt, NotedAt: a.NotedAt}
		})}, nil
}

func (h Quotas) GetTeamBudget(ctx context.Context, _ api.GetTeamBudgetRequestObject) (api.GetTeamBudgetResponseObject, error) {
	out, err := h.teamBudget(ctx, rest.CallOf(ctx).Team.ID)
	return api.GetTeamBudget200JSONResponse(out), err
}

func (h Quotas) SetTeamBudget(ctx context.Context, req api.SetTeamBudgetRequestObject) (api.SetTeamBudgetResponseObject, error) {
	call, in := rest.CallOf(ctx), req.Body
	b, err := h.cfg.Quota.ChangeBudget(ctx, call.Team.ID, call.Actor.User.ID, func(b *quota.Budget) {
		in.LimitNano.Put(&b.LimitNano)
		in.OverageCapNano.Put(&b.OverageCapNano)
		set(&b.CountTokens, in.CountTokens)
		set(&b.Overage, in.Overage)
		set(&b.GraceSeconds, in.GraceSeconds)
		if in.Thresholds != nil {
			b.Thresholds = slices.Clone(*in.Thresholds)
		}
		if t := in.Notify; t != nil {
			b.NotifyApp, b.NotifyMail, b.NotifyWebhooks = t.App, t.Mail, t.Webhooks
		}
	})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "limit_nano", amount(b.LimitNano))
	audit.Note(ctx, "overage", strconv.FormatBool(b.Overage))
	audit.Note(ctx, "overage_cap_nano", amount(b.OverageCapNano))
	audit.Note(ctx, "count_tokens", strconv.FormatBool(b.CountTokens))
	out, err := h.teamBudget(ctx, call.Team.ID)
	return api.SetTeamBudget200JSONResponse(out), err
}

// set puts what was said in a value's place.
func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func quotaPlan(p quota.Plan) api.Plan {
	q := p.Quota
	return api.Plan{Id: p.ID, Name: p.Name, Description: p.Description, Position: p.Position, Offered: p.Offered, HoursMonth: q.HoursMonth, Concurrent: q.Concurrent,
		ConcurrentTeam: q.ConcurrentTeam, Cpus: q.CPUs, MemoryMb: q.MemoryMB, SessionMinutes: q.SessionMinutes, CreationsHour: q.CreationsHour, Seats: q.Seats,
		SeatMonthNano: p.SeatMonthNano, TrialDays: p.TrialDays, MeteredUsage: p.MeteredUsage}
}

func (h Quotas) plans(ctx context.Context) (api.PlanList, error) {
	all, err := h.cfg.Quota.Plans(ctx)
	if err != nil {
		return api.PlanList{}, err
	}
	def, err := h.cfg.Quota.DefaultPlan(ctx)
	if err != nil {
		return api.PlanList{}, err
	}
	chosen, err := h.cfg.Settings.Said(ctx, settings.DefaultPlan)
	if err != nil {
		return api.PlanList{}, err
	}
	return api.PlanList{Items: rest.List(all, quotaPlan), DefaultPlan: def.ID, DefaultLocked: h.cfg.Settings.Locked(settings.DefaultPlan),
		DefaultChosen: chosen || def.ID != quota.Enterprise}, nil
}

func (h Quotas) ListPlans(ctx context.Context, _ api.ListPlansRequestObject) (api.ListPlansResponseObject, error) {
	out, err := h.plans(ctx)
	return api.ListPlans200JSONResponse(out), err
}

func (h Quotas) SetDefaultPlan(ctx context.Context, req api.SetDefaultPlanRequestObject) (api.SetDefaultPlanResponseObject, error) {
	if _, err := h.cfg.Quota.Plan(ctx, req.Body.DefaultPlan); err != nil {
		return nil, err
	}
	if _, err := h.cfg.Settings.Set(ctx, rest.CallOf(ctx).Actor.User.ID, map[string]any{settings.DefaultPlan: req.Body.DefaultPlan}); err != nil {
		return nil, err
	}
	h.cfg.Quota.Changed(ctx, "")
	audit.Note(ctx, "plan", req.Body.DefaultPlan)
	out, err := h.plans(ctx)
	return api.SetDefaultPlan200JSONResponse(out), err
}

// putPlan puts what was said of a plan in its place.
func putPlan(p *quota.Plan, in api.PlanPatch) {
	set(&p.Name, in.Name)
	set(&p.Description, in.Description)
	set(&p.Position, in.Position)
	set(&p.Offered, in.Offered)
	set(&p.SeatMonthNano, in.SeatMonthNano)
	set(&p.TrialDays, in.TrialDays)
	set(&p.MeteredUsage, in.MeteredUsage)
	q := &p.Quota
	in.HoursMonth.Put(&q.HoursMonth)
	in.Concurrent.Put(&q.Concurrent)
	in.ConcurrentTeam.Put(&q.ConcurrentTeam)
	in.Cpus.Put(&q.CPUs)
	in.MemoryMb.Put(&q.MemoryMB)
	in.SessionMinutes.Put(&q.SessionMinutes)
	in.CreationsHour.Put(&q.CreationsHour)
	in.Seats.Put(&q.Seats)
}

func (h Quotas) CreatePlan(ctx context.Context, req api.CreatePlanRequestObject) (api.CreatePlanResponseObject, error) {
	in := req.Body
	p := quota.Plan{ID: in.Id}
	putPlan(&p, api.PlanPatch{Name: &in.Name, Description: in.Description, Position: in.Position, Offered: in.Offered, HoursMonth: in.HoursMonth, Concurrent: in.Concurrent,
		ConcurrentTeam: in.ConcurrentTeam, Cpus: in.Cpus, MemoryMb: in.MemoryMb, SessionMinutes: in.SessionMinutes, CreationsHour: in.CreationsHour, Seats: in.Seats,
		SeatMonthNano: in.SeatMonthNano, TrialDays: in.TrialDays, MeteredUsage: in.MeteredUsage})
	p, err := h.cfg.Quota.AddPlan(ctx, p, rest.CallOf(ctx).Actor.User.ID)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "plan", p.ID, p.Name)
	return api.CreatePlan201JSONResponse(quotaPlan(p)), nil
}

func (h Quotas) UpdatePlan(ctx context.Context, req api.UpdatePlanRequestObject) (api.UpdatePlanResponseObject, error) {
	p, err := h.cfg.Quota.ChangePlan(ctx, req.Id, rest.CallOf(ctx).Actor.User.ID, func(p *quota.Plan) { putPlan(p, *req.Body) })
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "plan", p.ID, p.Name)
	audit.Note(ctx, "hours_month", amount(p.Quota.HoursMonth))
	audit.Note(ctx, "concurrent", amount(p.Quota.Concurrent))
	audit.Note(ctx, "cpus", amount(p.Quota.CPUs))
	audit.Note(ctx, "seat_month_nano", strconv.FormatInt(p.SeatMonthNano, 10))
	return api.UpdatePlan200JSONResponse(quotaPlan(p)), nil
}

func (h Quotas) DeletePlan(ctx context.Context, req api.DeletePlanRequestObject) (api.DeletePlanResponseObject, error) {
	audit.Target(ctx, "plan", req.Id, "")
	if err := h.cfg.Quota.DeletePlan(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.DeletePlan204Response{}, nil
}

// anyTeam is a team of an operator's path.
func (h Quotas) anyTeam(ctx context.Context, id string) (accounts.Team, error) {
	if !rest.PlainID(id) {
		return accounts.Team{}, rest.ErrNotFound
	}
	i, err := h.cfg.Directory.TeamInfo(ctx, id)
	return i.Team, err
}

func (h Quotas) teamPlan(ctx context.Context, teamID string) (api.TeamPlan, error) {
	p, t, err := h.cfg.Quota.PlanOf(ctx, teamID)
	return api.TeamPlan{Plan: quotaPlan(p), Source: t.Source, PaidPlanId: rest.Text(t.PaidPlanID)}, err
}

func (h Quotas) GetInstanceTeamPlan(ctx context.Context, req api.GetInstanceTeamPlanRequestObject) (api.GetInstanceTeamPlanResponseObject, error) {
	t, err := h.anyTeam(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.teamPlan(ctx, t.ID)
	return api.GetInstanceTeamPlan200JSONResponse(out), err
}

func (h Quotas) SetInstanceTeamPlan(ctx context.Context, req api.SetInstanceTeamPlanRequestObject) (api.SetInstanceTeamPlanResponseObject, error) {
	t, err := h.anyTeam(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.ID, t.Name)
	if err := h.cfg.Quota.SetPlan(ctx, t.ID, rest.Val(req.Body.PlanId), quota.ByOperator, 0); err != nil {
		return nil, err
	}
	out, err := h.teamPlan(ctx, t.ID)
	audit.Note(ctx, "plan", out.Plan.Id)
	return api.SetInstanceTeamPlan200JSONResponse(out), err
}

func (h Quotas) GetInstanceTeamQuotas(ctx context.Context, req api.GetInstanceTeamQuotasRequestObject) (api.GetInstanceTeamQuotasResponseObject, error) {
	t, err := h.anyTeam(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.teamQuotas(ctx, t.ID)
	return api.GetInstanceTeamQuotas200JSONResponse(out), err
}

func (h Quotas) SetInstanceTeamQuotas(ctx context.Context, req api.SetInstanceTeamQuotasRequestObject) (api.SetInstanceTeamQuotasResponseObject, error) {
	t, err := h.anyTeam(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.ID, t.Name)
	out, err := h.setQuotas(ctx, t.ID, req.Body.Items, true)
	return api.SetInstanceTeamQuotas200JSONResponse(out), err
}

func killSwitchOf(k quota.KillSwitch) api.KillSwitchState {
	return api.KillSwitchState{On: k.On, Stop: k.Stop, Reason: k.Reason, At: rest.Ptr(k.At)}
}

func (h Quotas) GetKillSwitch(ctx context.Context, _ api.GetKillSwitchRequestObject) (api.GetKillSwitchResponseObject, error) {
	k, err := h.cfg.Quota.KillSwitch(ctx)
	return api.GetKillSwitch200JSONResponse(killSwitchOf(k)), err
}

func (h Quotas) SetKillSwitch(ctx context.Context, req api.SetKillSwitchRequestObject) (api.SetKillSwitchResponseObject, error) {
	k, err := h.cfg.Quota.SetKillSwitch(ctx, req.Body.On, rest.Val(req.Body.Stop), rest.Val(req.Body.Reason), rest.CallOf(ctx).Actor.User.ID)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "on", strconv.FormatBool(k.On))
	audit.Note(ctx, "stop", strconv.FormatBool(k.Stop))
	audit.Note(ctx, "reason", k.Reason)
	return api.SetKillSwitch200JSONResponse(killSwitchOf(k)), nil
}
