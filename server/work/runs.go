package work

import (
	"context"
	"maps"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/runs"
)

// ByRun finds a run that a path names.
func (h Runs) ByRun(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	r, err := h.cfg.Runs.Get(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	hidden, err := h.HiddenIn(ctx, call.Actor, r.TeamID)
	if err != nil {
		return accounts.Object{}, err
	}
	if !concerns(call, r, hidden) {
		return accounts.Object{}, rest.ErrNotFound
	}
	return accounts.InTeam(r.TeamID), nil
}

// notifies reports whether a run is for who asks. What was asked for in private workspaces alone is as private as they are.
func concerns(call *rest.Call, r runs.Run, hidden map[string]bool) bool {
	if r.CreatedBy == call.Actor.User.ID {
		return true
	}
	private := false
	for _, a := range r.Attempts {
		if a.WorkspaceID != "" && !hidden[a.WorkspaceID] {
			return true
		}
		private = private || a.WorkspaceID != ""
	}
	return !private
}

func (h Runs) CreateRun(ctx context.Context, req api.CreateRunRequestObject) (api.CreateRunResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	if err := call.Can(accounts.TypeTerminal); err != nil {
		return nil, err
	}
	if !rest.PlainID(b.ProjectId) || b.ProjectId == "" {
		return nil, fault.New(fault.NotFound, "project_not_found", "The team has no such project.").With("field", "project_id")
	}
	n := runs.Request{ProjectID: b.ProjectId, Name: rest.Val(b.Name), Prompt: b.Prompt}
	ids := rest.Val(b.WorkspaceIds)
	if len(ids) > 0 && len(rest.Val(b.Attempts)) > 0 {
		return nil, fault.New(fault.Invalid, "invalid_run", "Send attempts or workspace_ids, not both.").With("field", "workspace_ids")
	}
	for _, id := range ids {
		if w, err := h.cfg.Workspaces.Records.Workspace(ctx, id); err == nil {
			ok, err := h.Sees(ctx, call, w)
			if err != nil {
				return nil, err
			}
			if !ok {
				id = ""
			}
		}
		if !rest.PlainID(id) || id == "" {
			return nil, fault.New(fault.NotFound, "workspace_not_found", "The project has no such workspace.").With("field", "workspace_ids")
		}
		n.Attempts = append(n.Attempts, runs.AttemptRequest{Agent: rest.Val(b.Agent), AccountID: rest.Val(b.AccountId), Args: rest.Val(b.Argv), WorkspaceID: id})
	}
	kinds := map[executors.Kind]bool{}
	for _, a := range rest.Val(b.Attempts) {
		kind, err := places.PlaceKind(a.Executor, a.RunnerId)
		if err == nil && kind == "" {
			kind, err = places.PlaceKind(b.Executor, b.RunnerId)
		}
		if err != nil {
			return nil, err
		}
		one := runs.AttemptRequest{Agent: a.Agent, AccountID: rest.Val(a.AccountId), Args: rest.Val(a.Argv), Base: rest.Val(a.Base), Executor: string(kind), Name: rest.Val(a.Name)}
		if one.Base == "" {
			one.Base = rest.Val(b.Base)
		}
		kinds[kind] = true
		n.Attempts = append(n.Attempts, one)
	}
	for place := range kinds {
		if err := h.checkPlace(ctx, b.ProjectId, place, false); err != nil {
			return nil, err
		}
	}
	r, err := h.cfg.Runs.Create(ctx, call.Actor, call.Team.ID, n)
	if err != nil {
		return nil, err
	}
	out, err := h.run(ctx, r)
	return api.CreateRun201JSONResponse(out), err
}

func (h Runs) GetRun(ctx context.Context, req api.GetRunRequestObject) (api.GetRunResponseObject, error) {
	r, err := h.cfg.Runs.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.run(ctx, r)
	return api.GetRun200JSONResponse(out), err
}

func (h Runs) ListRuns(ctx context.Context, req api.ListRunsRequestObject) (api.ListRunsResponseObject, error) {
	items, next, err := h.cfg.Runs.List(ctx, rest.CallOf(ctx).Team.ID, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	items = slices.DeleteFunc(items, func(r runs.Run) bool { return !concerns(rest.CallOf(ctx), r, hidden) })
	out, err := h.composeRuns(ctx, rest.CallOf(ctx).Team.ID, items)
	return api.ListRuns200JSONResponse{Items: out, NextCursor: rest.Text(next)}, err
}

func (h Runs) KeepRun(ctx context.Context, req api.KeepRunRequestObject) (api.KeepRunResponseObject, error) {
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	r, err := h.cfg.Runs.Keep(ctx, rest.CallOf(ctx).Actor, req.Id, req.Body.AttemptId, hidden)
	if err != nil {
		return nil, err
	}
	out, err := h.run(ctx, r)
	return api.KeepRun200JSONResponse(out), err
}

func (h Runs) run(ctx context.Context, r runs.Run) (api.Run, error) {
	out, err := h.composeRuns(ctx, r.TeamID, []runs.Run{r})
	if err != nil {
		return api.Run{}, err
	}
	return out[0], nil
}

// composeRuns makes the API's runs. It reads what several services know of their attempts once.
func (h Runs) composeRuns(ctx context.Context, teamID string, items []runs.Run) ([]api.Run, error) {
	if len(items) == 0 {
		return []api.Run{}, nil
	}
	ids := []string{}
	for _, r := range items {
		for _, a := range r.Attempts {
			if a.WorkspaceID != "" {
				ids = append(ids, a.WorkspaceID)
			}
		}
	}
	p, err := h.parts(ctx, teamID, ids)
	if err != nil {
		return nil, err
	}
	hidden, err := h.Hidden(ctx, rest.CallOf(ctx))
	if err != nil {
		return nil, err
	}
	out := make([]api.Run, 0, len(items))
	worked := map[string][]string{} // the sessions of each attempt
	for _, r := range items {
		one := api.Run{Id: r.ID, ProjectId: r.ProjectID, ProjectName: p.projects[r.ProjectID].Name, Name: r.Name, Prompt: r.Prompt, Kept: rest.Text(r.Kept),
			CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, Attempts: make([]api.Attempt, 0, len(r.Attempts))}
		for _, a := range r.Attempts {
			at := api.Attempt{Id: a.ID, Name: a.Name, Agent: a.Agent, AgentName: h.cfg.Sessions.AgentName(a.Agent), Argv: rest.List(a.Args, func(s string) string { return s }), State: api.AttemptState(a.State),
				Code: a.Code, Reason: a.Reason, Made: a.Made, Base: a.Base}
			if hidden[a.WorkspaceID] {
				at.Name, at.Reason, at.Argv = "Private", "", []string{}
				one.Attempts = append(one.Attempts, at)
				continue
			}
			if a.WorkspaceID != "" {
				w, err := h.cfg.Workspaces.Records.Workspace(ctx, a.WorkspaceID)
				if err := ignoreMissing(err); err != nil {
					return nil, err
				}
				if err == nil && w.TeamID == teamID {
					shown := p.workspace(w)
					at.Workspace = &shown
				}
			}
			if a.SessionID != "" {
				s, err := h.cfg.Sessions.Get(ctx, a.SessionID)
				if err := ignoreMissing(err); err != nil {
					return nil, err
				}
				if err == nil && s.TeamID == teamID {
					all := h.conversing(ctx, s)
					for _, o := range all {
						worked[a.ID] = append(worked[a.ID], o.ID)
					}
					shown := running.SessionOf(all[0])
					at.Session = &shown
				}
			}
			one.Attempts = append(one.Attempts, at)
		}
		out = append(out, one)
	}
	return out, h.spent(ctx, out, worked)
}

// spent adds what attempts asked of models in their sessions, for who may see costs.
func (h Runs) spent(ctx context.Context, all []api.Run, worked map[string][]string) error {
	ids := slices.Concat(slices.Collect(maps.Values(worked))...)
	if len(ids) == 0 || rest.CallOf(ctx).Can(accounts.ViewCosts) != nil {
		return nil
	}
	sums, err := h.cfg.Tokens.OfSessions(ctx, ids...)
	if err != nil {
		return err
	}
	for _, r := range all {
		for i := range r.Attempts {
			var sum tokens.Sum
			for _, id := range worked[r.Attempts[i].Id] {
				sum = sum.And(sums[id])
			}
			if sum.Requests > 0 {
				r.Attempts[i].Tokens = new(money.SpentOf(sum))
			}
		}
	}
	return nil
}

// conversing are the sessions that have or went on with s's conversation, newest first.
func (h Runs) conversing(ctx context.Context, s sessions.Session) []sessions.Session {
	if !s.State.Ended() || s.Conversation == "" {
		return []sessions.Session{s}
	}
	all, err := h.cfg.Sessions.List(ctx, s.WorkspaceID)
	all = slices.DeleteFunc(all, func(o sessions.Session) bool { return o.Agent != s.Agent || o.Conversation != s.Conversation })
	if err != nil || len(all) == 0 {
		return []sessions.Session{s}
	}
	return all
}

// ignoreMissing passes on what is wrong, but not that something is gone.
func ignoreMissing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
