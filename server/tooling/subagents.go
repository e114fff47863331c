package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
)

// subagentOf is a subagent as the API shows it to the caller.
func subagentOf(call *rest.Call, a subagents.Subagent) api.Subagent {
	out := api.Subagent{Id: a.ID, Name: a.Name, Task: a.Task, Status: api.SubagentStatus(a.Status), Agent: a.Agent, Model: a.Model, Mode: a.Mode, Where: api.SubagentWhere(a.Where),
		FromWorkspaceId: a.FromWorkspaceID, WorkspaceId: a.WorkspaceID, Branch: a.Branch, SessionId: a.SessionID, ParentSessionId: rest.Text(a.ParentSessionID), Depth: a.Depth, Kept: a.Kept,
		Live: a.Live, Question: a.Question, Result: a.Result, Files: append([]string{}, a.Files...), MoreFiles: a.MoreFiles, Code: a.Code, Error: a.Error, TimeoutMs: a.TimeoutMs, DeadlineAt: a.DeadlineAt, CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt,
		StartedAt: rest.Ptr(a.StartedAt), EndedAt: rest.Ptr(a.EndedAt), Warnings: []string{}}
	if a.Tools != nil {
		out.Tools = &a.Tools
	}
	if call.Can(accounts.ViewCosts) == nil {
		out.CostNano = a.CostNano
	}
	return out
}

func subagentList(call *rest.Call, all []subagents.Subagent, next string) api.SubagentList {
	return api.SubagentList{Items: rest.List(all, func(a subagents.Subagent) api.Subagent { return subagentOf(call, a) }), NextCursor: rest.Text(next)}
}

// callerOf is a person who directs subagents of a workspace.
func callerOf(call *rest.Call, workspaceID, sessionID string) subagents.Caller {
	return subagents.Caller{TeamID: call.Object.TeamID, WorkspaceID: workspaceID, SessionID: sessionID, UserID: call.Actor.User.ID}
}

func (h Subagents) ListSubagents(ctx context.Context, req api.ListSubagentsRequestObject) (api.ListSubagentsResponseObject, error) {
	all, err := h.cfg.Subagents.Tree(ctx, req.Id)
	return api.ListSubagents200JSONResponse(subagentList(rest.CallOf(ctx), all, "")), err
}

func (h Subagents) ListWorkspaceSubagents(ctx context.Context, req api.ListWorkspaceSubagentsRequestObject) (api.ListWorkspaceSubagentsResponseObject, error) {
	all, next, err := h.cfg.Subagents.OfWorkspace(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	return api.ListWorkspaceSubagents200JSONResponse(subagentList(rest.CallOf(ctx), all, next)), err
}

func (h Subagents) SpawnSubagent(ctx context.Context, req api.SpawnSubagentRequestObject) (api.SpawnSubagentResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	where := string(rest.Val(b.Where))
	if rest.Val(b.Sibling) {
		if where == subagents.Same {
			return nil, fault.New(fault.Invalid, "invalid_subagent", "sibling and where: same contradict each other. Leave out one of them.").With("field", "sibling")
		}
		where = subagents.Sibling
	}
	a, warnings, err := h.cfg.Subagents.Spawn(ctx, callerOf(call, call.Session.WorkspaceID, call.Session.ID), subagents.Request{Name: b.Name, Task: b.Task, Agent: rest.Val(b.Agent), Model: rest.Val(b.Model),
		Mode: string(rest.Val(b.Mode)), Tools: rest.Val(b.Tools), Where: where, Kept: rest.Val(b.Keep), TimeoutMs: rest.Val(b.TimeoutMs), MaxCostNano: rest.Val(b.MaxCostNano)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "subagent", a.ID, a.Name)
	audit.Note(ctx, "workspace_id", a.WorkspaceID)
	out := subagentOf(call, a)
	out.Warnings = append(out.Warnings, warnings...)
	return api.SpawnSubagent201JSONResponse(out), nil
}

func (h Subagents) GetSubagent(ctx context.Context, req api.GetSubagentRequestObject) (api.GetSubagentResponseObject, error) {
	a, err := h.cfg.Subagents.Get(ctx, req.Id)
	return api.GetSubagent200JSONResponse(subagentOf(rest.CallOf(ctx), a)), err
}

// directed is who directs a subagent: a person, where it was asked for.
func (h Subagents) directed(ctx context.Context, id string) (subagents.Caller, error) {
	a, err := h.cfg.Subagents.Get(ctx, id)
	return callerOf(rest.CallOf(ctx), a.FromWorkspaceID, ""), err
}

func (h Subagents) MessageSubagent(ctx context.Context, req api.MessageSubagentRequestObject) (api.MessageSubagentResponseObject, error) {
	c, err := h.directed(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	a, err := h.cfg.Subagents.Message(ctx, c, req.Id, req.Body.Text)
	if err != nil {
		return nil, err
	}
	return api.MessageSubagent200JSONResponse(subagentOf(rest.CallOf(ctx), a)), nil
}

func (h Subagents) InterruptSubagent(ctx context.Context, req api.InterruptSubagentRequestObject) (api.InterruptSubagentResponseObject, error) {
	c, err := h.directed(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	a, err := h.cfg.Subagents.Interrupt(ctx, c, req.Id, req.Body != nil && rest.Val(req.Body.Stop))
	if err != nil {
		return nil, err
	}
	return api.InterruptSubagent200JSONResponse(subagentOf(rest.CallOf(ctx), a)), nil
}

func (h Subagents) MergeSubagent(ctx context.Context, req api.MergeSubagentRequestObject) (api.MergeSubagentResponseObject, error) {
	c, err := h.directed(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	u, err := h.cfg.Subagents.Merge(ctx, c, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "commit", u.Commit)
	return api.MergeSubagent200JSONResponse{Merged: u.Updated, UpToDate: u.UpToDate, Branch: u.Base, Commit: u.Commit, Commits: u.Commits,
		Files: rest.List(u.Files, func(f workspaces.FileStatus) string { return guest.EncodePath(f.Path) }), MoreFiles: u.MoreFiles, SnapshotId: u.SnapshotID, Warnings: append([]string{}, u.Warnings...)}, nil
}
