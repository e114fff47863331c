package running

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
)

func (h Automations) ListAutomations(ctx context.Context, req api.ListAutomationsRequestObject) (api.ListAutomationsResponseObject, error) {
	all, next, err := h.cfg.Automations.List(ctx, rest.CallOf(ctx).Team.ID, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	out := api.ListAutomations200JSONResponse{Items: make([]api.Automation, len(all)), NextCursor: rest.Text(next)}
	for i, a := range all {
		if err == nil {
			out.Items[i], err = h.one(ctx, a)
		}
	}
	return out, err
}

func (h Automations) CreateAutomation(ctx context.Context, req api.CreateAutomationRequestObject) (api.CreateAutomationResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	if err := call.Can(accounts.TypeTerminal); err != nil {
		return nil, err
	}
	work, err := workOf(b.Work)
	if err != nil {
		return nil, err
	}
	a, secret, err := h.cfg.Automations.Create(ctx, call.Actor, call.Team.ID, triggers.Automation{Name: b.Name, Trigger: triggerOf(b.Trigger), Work: work, Attempts: rest.Val(b.Attempts), Limits: limitsOf(b.Limits)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "automation", a.ID, a.Name)
	out := h.shown(ctx, a, triggers.Health{})
	out.Secret = rest.Text(secret)
	return api.CreateAutomation201JSONResponse(out), nil
}

func (h Automations) PreviewAutomation(_ context.Context, req api.PreviewAutomationRequestObject) (api.PreviewAutomationResponseObject, error) {
	b := req.Body
	work, err := workOf(b.Work)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range rest.Val(b.Headers) {
		header.Set(name, value)
	}
	a := triggers.Automation{Trigger: triggerOf(b.Trigger), Work: work}
	out := api.PreviewAutomation200JSONResponse{Unknown: []string{}, Times: []int64{}}
	if a.Trigger.Kind == triggers.Schedule {
		if out.Times, err = a.Trigger.Times(h.cfg.Now(), 5); err != nil {
			return nil, err
		}
	}
	filled, unknown, ignored, err := a.Preview(header, []byte(rest.Val(b.Event)), h.cfg.Now())
	out.Prompt, out.Branch, out.Unknown, out.Ignored = filled.Prompt, filled.Branch, append(out.Unknown, unknown...), ignored
	return out, err
}

func (h Automations) GetAutomation(ctx context.Context, _ api.GetAutomationRequestObject) (api.GetAutomationResponseObject, error) {
	out, err := h.one(ctx, rest.CallOf(ctx).Automation)
	return api.GetAutomation200JSONResponse(out), err
}

// owned refuses what only the owner of an automation may do, as whom it runs.
func owned(call *rest.Call) error {
	if call.Automation.CreatedBy == call.Actor.User.ID {
		return nil
	}
	return fault.New(fault.Forbidden, "not_automation_owner", "The automation runs as its owner, so only they may do this. Make one of your own, or ask them.")
}

func (h Automations) UpdateAutomation(ctx context.Context, req api.UpdateAutomationRequestObject) (api.UpdateAutomationResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	if pauses := rest.Val(b.Paused) && b.Name == nil && b.Trigger == nil && b.Work == nil && b.Attempts == nil && b.Limits == nil; !pauses || call.Can(accounts.ManageTeam) != nil {
		if err := owned(call); err != nil {
			return nil, err
		}
	}
	var work jobs.Request
	if b.Work != nil {
		var err error
		if work, err = workOf(*b.Work); err != nil {
			return nil, err
		}
	}
	a, err := h.cfg.Automations.Update(ctx, req.Id, func(a *triggers.Automation) {
		if b.Name != nil {
			a.Name = *b.Name
		}
		if b.Trigger != nil {
			a.Trigger = triggerOf(*b.Trigger)
		}
		if b.Work != nil {
			a.Work = work
		}
		if b.Attempts != nil {
			a.Attempts = *b.Attempts
		}
		if b.Limits != nil {
			a.Limits = limitsOf(b.Limits)
		}
		if b.Paused != nil {
			a.Paused = *b.Paused
		}
	})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "automation", a.ID, a.Name)
	out, err := h.one(ctx, a)
	return api.UpdateAutomation200JSONResponse(out), err
}

func (h Automations) DeleteAutomation(ctx context.Context, req api.DeleteAutomationRequestObject) (api.DeleteAutomationResponseObject, error) {
	call := rest.CallOf(ctx)
	if call.Can(accounts.ManageTeam) != nil {
		if err := owned(call); err != nil {
			return nil, err
		}
	}
	audit.Target(ctx, "automation", call.Automation.ID, call.Automation.Name)
	return api.DeleteAutomation204Response{}, h.cfg.Automations.Delete(ctx, req.Id)
}

func (h Automations) RunAutomation(ctx context.Context, req api.RunAutomationRequestObject) (api.RunAutomationResponseObject, error) {
	call := rest.CallOf(ctx)
	if err := owned(call); err != nil {
		return nil, err
	}
	r, made, err := h.cfg.Automations.Start(ctx, req.Id, rest.Val(req.Params.IdempotencyKey), rest.Val(req.Body.Event))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "automation", call.Automation.ID, call.Automation.Name)
	if !made {
		return api.RunAutomation200JSONResponse(h.run(ctx, r)), nil
	}
	return api.RunAutomation201JSONResponse(h.run(ctx, r)), nil
}

func (h Automations) RenewAutomationSecret(ctx context.Context, req api.RenewAutomationSecretRequestObject) (api.RenewAutomationSecretResponseObject, error) {
	call := rest.CallOf(ctx)
	if err := owned(call); err != nil {
		return nil, err
	}
	audit.Target(ctx, "automation", call.Automation.ID, call.Automation.Name)
	secret, err := h.cfg.Automations.Renew(ctx, call.Actor, req.Id)
	return api.RenewAutomationSecret200JSONResponse{Secret: secret}, err
}

func (h Automations) ListAutomationRuns(ctx context.Context, req api.ListAutomationRunsRequestObject) (api.ListAutomationRunsResponseObject, error) {
	all, next, err := h.cfg.Automations.Runs(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	return api.ListAutomationRuns200JSONResponse{Items: rest.List(all, func(r triggers.Run) api.AutomationRun { return h.run(ctx, r) }), NextCursor: rest.Text(next)}, err
}

// one is an automation with how its runs went.
func (h Automations) one(ctx context.Context, a triggers.Automation) (api.Automation, error) {
	health, err := h.cfg.Automations.Health(ctx, a.ID)
	return h.shown(ctx, a, health), err
}

// shown is an automation as the API shows it to the caller.
func (h Automations) shown(ctx context.Context, a triggers.Automation, health triggers.Health) api.Automation {
	out := api.Automation{Id: a.ID, Name: a.Name, Attempts: a.Attempts, Limits: api.AutomationLimits{RunNano: &a.Limits.RunNano, MonthNano: &a.Limits.MonthNano}, Paused: a.Paused, Because: a.Because,
		NextAt: rest.Ptr(a.NextAt), Next: []int64{}, Runs: health.Runs, Failed: health.Failed, CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt}
	t, w := a.Trigger, a.Work
	out.Trigger = api.AutomationTrigger{Kind: api.AutomationKind(t.Kind), Cron: rest.Text(t.Cron), TimeZone: rest.Text(t.TimeZone), Events: some(t.Events), Labels: some(t.Labels), Branches: some(t.Branches), Authors: some(t.Authors)}
	if t.Missed != "" {
		missed := api.AutomationTriggerMissed(t.Missed)
		out.Trigger.Missed = &missed
	}
	out.Work = api.AutomationWork{Prompt: w.Prompt, Agent: w.Agent, Argv: some(w.Argv), Model: rest.Text(w.Model), Account: rest.Text(w.AccountID), ProjectId: rest.Text(w.ProjectID), Base: rest.Text(w.Base), Branch: rest.Text(w.Branch),
		Artifacts: some(w.Artifacts), TimeoutMs: &w.TimeoutMs}
	if w.Keep {
		out.Work.Keep = &w.Keep
	}
	if w.ConfirmNoBoundary {
		out.Work.ConfirmNoBoundary = &w.ConfirmNoBoundary
	}
	if kind, machine, isMachine := strings.Cut(string(w.Executor), ":"); isMachine {
		out.Work.Executor, out.Work.RunnerId = &kind, &machine
	} else {
		out.Work.Executor = rest.Text(kind)
	}
	if a.NextAt != 0 {
		if times, err := t.Times(h.cfg.Now(), 5); err == nil {
			out.Next = times
		}
	}
	if health.Last != nil {
		last := h.run(ctx, *health.Last)
		out.LastRun = &last
	}
	if a.SecretID != "" {
		out.EventsUrl = rest.Text(h.cfg.Automations.EventsURL(a.ID))
	}
	if rest.CallOf(ctx).Can(accounts.ViewCosts) == nil {
		out.MonthNano = &health.MonthNano
	}
	return out
}

func some(all []string) *[]string {
	if len(all) == 0 {
		return nil
	}
	return &all
}

func (h Automations) run(ctx context.Context, r triggers.Run) api.AutomationRun {
	out := api.AutomationRun{Id: r.ID, Cause: api.AutomationRunCause(r.Cause), Event: r.Event, Fields: r.Fields, Folded: r.Folded, State: api.AutomationRunState(r.State), JobIds: slices.Clone(r.JobIDs), Code: r.Code, Error: r.Error,
		DueAt: r.DueAt, CreatedAt: r.CreatedAt, StartedAt: rest.Ptr(r.StartedAt), EndedAt: rest.Ptr(r.EndedAt)}
	out.JobIds = append([]string{}, out.JobIds...)
	if rest.CallOf(ctx).Can(accounts.ViewCosts) == nil {
		out.CostNano = r.CostNano
	}
	return out
}

func triggerOf(t api.AutomationTrigger) triggers.Trigger {
	return triggers.Trigger{Kind: triggers.Kind(t.Kind), Cron: rest.Val(t.Cron), TimeZone: rest.Val(t.TimeZone), Missed: triggers.Missed(rest.Val(t.Missed)), Events: rest.Val(t.Events), Labels: rest.Val(t.Labels),
		Branches: rest.Val(t.Branches), Authors: rest.Val(t.Authors)}
}

func limitsOf(l *api.AutomationLimits) triggers.Limits {
	if l == nil {
		return triggers.Limits{}
	}
	return triggers.Limits{RunNano: rest.Val(l.RunNano), MonthNano: rest.Val(l.MonthNano)}
}

func workOf(w api.AutomationWork) (jobs.Request, error) {
	kind, err := places.PlaceKind(w.Executor, w.RunnerId)
	if err != nil {
		return jobs.Request{}, err
	}
	return jobs.Request{Prompt: w.Prompt, Agent: w.Agent, Argv: rest.Val(w.Argv), Model: rest.Val(w.Model), AccountID: rest.Val(w.Account), ProjectID: rest.Val(w.ProjectId), Executor: executors.Kind(kind), Base: rest.Val(w.Base),
		Branch: rest.Val(w.Branch), TimeoutMs: rest.Val(w.TimeoutMs), Artifacts: rest.Val(w.Artifacts), Keep: rest.Val(w.Keep), ConfirmNoBoundary: rest.Val(w.ConfirmNoBoundary)}, nil
}
