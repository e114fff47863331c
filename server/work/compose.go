package work

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/firststart"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/reviews"
)

// parts are what other packages know of the workspaces of a team that are shown, read once for all of them.
type parts struct {
	projects  map[string]workspaces.ProjectLine
	sessions  map[string]sessions.Summary
	changes   map[string]filesync.Summary
	sandboxes map[string]executors.Record
	runs      map[string]string
	starts    map[string]firststart.Start
	pulls     map[string]forge.PullRequest
	costs     map[string]int64      // nil = who asks may not see any
	tokens    map[string]tokens.Sum // of models; nil likewise
	names     map[string]string     // of the team's members
	agentName func(agent string) string
	outlook   func(kind string, running bool) places.Outlook
	machine   func(executors.Kind) (machines.Machine, bool)
	grace     func(workspaceID string) *api.Grace
	moves     func(workspaceID string) *api.Move
	reviews   map[string]reviews.Summary
	merging   merging
	needing   map[string]tending.Tending // whose pull request needs a person
}

func (h Composer) parts(ctx context.Context, teamID string, ids []string) (parts, error) {
	var p parts
	var err error
	if p.projects, err = h.cfg.Workspaces.Records.ProjectLines(ctx, teamID); err != nil {
		return p, fmt.Errorf("reading projects: %w", err)
	}
	if p.sessions, err = h.cfg.Sessions.Summaries(ctx, teamID, ids...); err != nil {
		return p, fmt.Errorf("summing up sessions: %w", err)
	}
	if p.changes, err = h.cfg.Files.Summaries(ctx, teamID, ids...); err != nil {
		return p, fmt.Errorf("summing up changes: %w", err)
	}
	if p.sandboxes, err = h.cfg.Places.Sandboxes(ctx, teamID, ids...); err != nil {
		return p, fmt.Errorf("reading sandboxes: %w", err)
	}
	all, _, err := h.cfg.Choice.Options(ctx, teamID)
	if err != nil {
		return p, fmt.Errorf("reading places: %w", err)
	}
	p.outlook = places.Outlooks(all)
	p.grace = h.cfg.GraceViews.GraceOf
	p.moves = func(id string) *api.Move { return h.moveNow(ctx, id) }
	p.machine = func(k executors.Kind) (machines.Machine, bool) { return h.cfg.MachineViews.MachineOf(ctx, k) }
	if p.names, err = rest.MemberNames(ctx, h.cfg.Directory, teamID); err != nil {
		return p, fmt.Errorf("reading members: %w", err)
	}
	if p.pulls, err = h.cfg.Forge.PullRequests(ctx, teamID, ids...); err != nil {
		return p, err
	}
	if p.runs, err = h.cfg.Runs.ByWorkspace(ctx, teamID, ids...); err != nil {
		return p, fmt.Errorf("reading runs: %w", err)
	}
	if p.starts, err = h.cfg.Starts.Of(ctx, teamID, ids...); err != nil {
		return p, err
	}
	p.agentName = h.cfg.Sessions.AgentName
	if p.reviews, err = h.cfg.Reviews.Summaries(ctx, teamID, rest.CallOf(ctx).Actor.User.ID, ids...); err != nil {
		return p, fmt.Errorf("summing up reviews: %w", err)
	}
	if p.merging, err = h.mergingOf(ctx, teamID, p.projects, ids); err != nil {
		return p, err
	}
	needing, err := h.cfg.Tending.Needing(ctx, teamID)
	if err != nil {
		return p, err
	}
	p.needing = make(map[string]tending.Tending, len(needing))
	for _, t := range needing {
		p.needing[t.WorkspaceID] = t
	}
	return p, nil
}

// compose makes the API's workspaces of a team: a fixed number of queries, which read what belongs to these workspaces alone.
func (h Composer) compose(ctx context.Context, teamID string, items []workspaces.Workspace) ([]api.Workspace, error) {
	if len(items) == 0 {
		return []api.Workspace{}, nil
	}
	ids := rest.List(items, func(w workspaces.Workspace) string { return w.ID })
	p, err := h.parts(ctx, teamID, ids)
	if err != nil {
		return nil, err
	}
	if rest.CallOf(ctx).Can(accounts.ViewCosts) == nil {
		if p.costs, err = h.cfg.Ledger.Costs(ctx, ids); err != nil {
			return nil, err
		}
		if p.tokens, err = h.cfg.Tokens.OfWorkspaces(ctx, ids...); err != nil {
			return nil, err
		}
	}
	actor := rest.CallOf(ctx).Actor
	return rest.List(items, func(w workspaces.Workspace) api.Workspace {
		out := p.workspace(w)
		if h.usesFolder(ctx, actor, w) {
			out.Path = rest.Text(w.Path)
		}
		return out
	}), nil
}

// usesFolder reports whether the workspace's folder on this server is of any use to somebody: to operators, who have a shell there, and to its
// owner where its agents see the server's folders under the same names. Others learn nothing of how the server is laid out.
func (h Composer) usesFolder(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) bool {
	if actor.User.Operator {
		return true
	}
	if w.CreatedBy != actor.User.ID {
		return false
	}
	c, ok := h.cfg.Choice.Place(ctx, executors.Kind(w.Executor))
	return ok && c.Host && !c.OwnDisk
}

func (h Composer) one(ctx context.Context, w workspaces.Workspace) (api.Workspace, error) {
	out, err := h.compose(ctx, w.TeamID, []workspaces.Workspace{w})
	if err != nil {
		return api.Workspace{}, err
	}
	return out[0], nil
}

func (p parts) workspace(w workspaces.Workspace) api.Workspace {
	ch := p.changes[w.ID]
	out := api.Workspace{Id: w.ID, Key: w.Key(), Name: w.Name, ProjectId: w.ProjectID, ProjectName: p.projects[w.ProjectID].Name, Branch: w.Branch,
		Base: w.Base, BaseCommit: w.BaseCommit, State: api.WorkspaceState(w.State), StateReason: w.StateReason,
		Steps: rest.List(w.Steps, stepOf), MergedAt: rest.Ptr(w.MergedAt), MergedCommit: w.MergedCommit, CreatedBy: w.CreatedBy, CreatedAt: w.CreatedAt,
		UpdatedAt: w.UpdatedAt, ArchivedAt: rest.Ptr(w.ArchivedAt), DeletedAt: rest.Ptr(w.DeletedAt),
		Changes: api.ChangesSummary{Files: ch.Files, Additions: ch.Additions, Deletions: ch.Deletions, Version: ch.Version}}
	out.Executor, out.RunnerId, out.RunnerName = places.RunnerOn(w, p.machine)
	if p.costs != nil {
		out.CostNano = new(p.costs[w.ID])
	}
	if p.tokens != nil {
		sum := p.tokens[w.ID]
		out.TokensCostNano, out.TokensUnknown = money.CostOf(sum), &sum.Unknown
	}
	out.Grace = p.grace(w.ID)
	out.Overlaps, out.Checks, out.Queue = p.merging.of(w.ID)
	out.Private = w.Private
	out.Review = new(reviewSummaryOf(p.reviews[w.ID], p.names))
	out.Owner = api.WorkspaceOwner{Id: w.CreatedBy, Name: p.names[w.CreatedBy]}
	out.Owner.Name = cmp.Or(out.Owner.Name, "a former member")
	out.FallbackOk = &w.FallbackOK
	out.RunId = rest.Text(p.runs[w.ID])
	if st, ok := p.starts[w.ID]; ok {
		out.Start = &api.WorkspaceStart{Agent: st.Request.Agent, AgentName: p.agentName(st.Request.Agent), State: api.WorkspaceStartState(st.State), Code: st.Code, Reason: st.Reason, At: st.StateAt}
	}
	if pr, ok := p.pulls[w.ID]; ok {
		out.PullRequest = pullSummary(pr)
	}
	look := p.outlook(w.Executor, p.sandboxes[w.ID].State == executors.Running)
	out.Boundary, out.BoundaryName = new(api.Boundary(look.Boundary)), new(places.BoundaryName(look.Boundary))
	out.RunnerFolder = &w.Folder
	out.Move = p.moves(w.ID)
	out.PlaceWarning, out.PlaceBlocked = &look.Warning, &look.Blocked
	if sb, ok := p.sandboxes[w.ID]; ok {
		out.Sandbox = &api.SandboxSummary{Id: sb.Handle.ID, State: api.SandboxState(sb.State)}
		if sb.State == executors.Paused && w.State == workspaces.Ready {
			out.State, out.StateReason = api.WorkspaceStatePaused, sb.Reason
		}
	}
	if s := w.Snapshot; s != nil {
		out.Snapshot = &api.Snapshot{Ref: s.Ref, Commit: s.Commit, Head: s.Head, Uncommitted: s.Uncommitted, Unmerged: s.Unmerged, TakenAt: s.TakenAt}
	}
	ss, any := p.sessions[w.ID]
	out.Agents = api.AgentsSummary{State: api.AgentsSummaryStateNone, Sessions: ss.Sessions, Running: ss.Running, Watchers: rest.List(ss.Watchers, running.WatcherOf)}
	if any && ss.State != "" {
		out.Agents.State, out.Agents.At = api.AgentsSummaryState(ss.State), &ss.At
		out.Agents.Agent, out.Agents.AgentName, out.Agents.SessionId = rest.Text(ss.Agent), rest.Text(ss.AgentName), rest.Text(ss.SessionID)
	}
	out.Attention = attentionOf(w, ss, p.needing[w.ID])
	if sb := p.sandboxes[w.ID]; out.Attention == nil && out.State == api.WorkspaceStatePaused && strings.HasPrefix(sb.Reason, meter.StoppedByLimit) {
		out.Attention = &api.Attention{Reason: api.AttentionReasonStuck, Text: sb.Reason, At: w.UpdatedAt}
	}
	return out
}

// attentionOf returns why a person should look at a workspace: it could not be created, what its sessions need, or what its pull request does,
// which says more than that an agent has finished. An archived workspace needs nobody.
func attentionOf(w workspaces.Workspace, ss sessions.Summary, pull tending.Tending) *api.Attention {
	switch {
	case w.DeletedAt != 0 || w.State == workspaces.Archived:
		return nil
	case w.State == workspaces.Failed:
		return &api.Attention{Reason: api.AttentionReasonFailed, Text: w.StateReason, At: w.UpdatedAt}
	case pull.WorkspaceID != "" && (ss.Attention == "" || ss.Attention == string(api.AttentionReasonFinished)):
		return &api.Attention{Reason: api.AttentionReasonStuck, Text: pull.Because, At: pull.Since}
	case ss.Attention == "":
		return nil
	}
	return &api.Attention{Reason: api.AttentionReason(ss.Attention), Text: ss.Reason, At: ss.At, SessionId: rest.Text(ss.SessionID), Until: rest.Ptr(ss.Until)}
}

func stepOf(s workspaces.Step) api.Step {
	return api.Step{Name: s.Name, Title: s.Title, State: api.StepState(s.State), Detail: s.Detail, StartedAt: rest.Ptr(s.StartedAt), EndedAt: rest.Ptr(s.EndedAt),
		SessionId: rest.Text(s.SessionID)}
}
