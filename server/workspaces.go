package server

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

func (h handlers) ListWorkspaces(ctx context.Context, req api.ListWorkspacesRequestObject) (api.ListWorkspacesResponseObject, error) {
	team := callOf(ctx).team.ID
	f := workspaces.Filter{ProjectID: val(req.Params.ProjectId), Show: workspaces.Show(val(req.Params.Show))}
	switch f.Show {
	case "", workspaces.ShowActive, workspaces.ShowArchived, workspaces.ShowTrash, workspaces.ShowAll:
	default:
		return nil, fault.New(fault.Invalid, "invalid_parameter", "show is one of active, archived, trash and all.").With("field", "show")
	}
	if !plainID(f.ProjectID) {
		return api.ListWorkspaces200JSONResponse{Items: []api.Workspace{}}, nil
	}
	items, next, err := h.cfg.Workspaces.List(ctx, team, shownTo(callOf(ctx), f), pageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	out, err := h.compose(ctx, team, items)
	if err != nil {
		return nil, err
	}
	return api.ListWorkspaces200JSONResponse{Items: out, NextCursor: text(next)}, nil
}

func (h handlers) CreateWorkspace(ctx context.Context, req api.CreateWorkspaceRequestObject) (api.CreateWorkspaceResponseObject, error) {
	call, b := callOf(ctx), req.Body
	kind, err := placeKind(b.Executor, b.RunnerId)
	if err != nil {
		return nil, err
	}
	if !plainID(b.ProjectId) {
		return nil, fault.New(fault.NotFound, "project_not_found", "The team has no such project.").With("field", "project_id")
	}
	if err := h.checkPlace(ctx, b.ProjectId, kind, val(b.FallbackOk)); err != nil {
		return nil, err
	}
	if err := h.checkSize(ctx, b.ProjectId, kind, limitsOf(b.Resources)); err != nil {
		return nil, err
	}
	w, err := h.cfg.Workspaces.Create(ctx, call.actor, call.team.ID, workspaces.NewWorkspace{ProjectID: b.ProjectId, Name: b.Name, Base: val(b.Base),
		Branch: val(b.Branch), Executor: string(kind), Folder: val(b.RunnerFolder), Limits: limitsOf(b.Resources), FallbackOK: val(b.FallbackOk), Private: val(b.Private)})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "workspace", w.ID, shownName(w))
	audit.Note(ctx, "place", string(kind))
	h.reread()
	h.remember(ctx, b.ProjectId, kind)
	one, err := h.one(ctx, w)
	return api.CreateWorkspace201JSONResponse(one), err
}

// checkPlace is asked before anything is made: a workspace that cannot have a sandbox is of no use. project may be a name nobody knows.
func (h handlers) checkPlace(ctx context.Context, projectID string, kind executors.Kind, fallbackOK bool) error {
	return h.cfg.Workspaces.CheckPlace(executors.As(ctx, "", callOf(ctx).actor.User.ID), callOf(ctx).team.ID, kind, h.projectPlace(ctx, projectID), fallbackOK)
}

// projectPlace is the place a project of the team asks for, "" for none.
func (h handlers) projectPlace(ctx context.Context, projectID string) executors.Kind {
	if p, err := h.cfg.Workspaces.Project(ctx, projectID); err == nil && p.TeamID == callOf(ctx).team.ID {
		return executors.Kind(p.Executor)
	}
	return ""
}

// checkSize refuses a size the place has not. Without a place, which may yet be another one, there is nothing to say.
func (h handlers) checkSize(ctx context.Context, projectID string, wish executors.Kind, l executors.Limits) error {
	kind, err := h.cfg.Places.Choose(executors.As(ctx, "", callOf(ctx).actor.User.ID), callOf(ctx).team.ID, wish, h.projectPlace(ctx, projectID))
	if err != nil {
		return nil
	}
	return h.cfg.Places.CheckSize(executors.As(ctx, "", callOf(ctx).actor.User.ID), callOf(ctx).team.ID, kind, l)
}

func (h handlers) GetWorkspace(ctx context.Context, _ api.GetWorkspaceRequestObject) (api.GetWorkspaceResponseObject, error) {
	one, err := h.one(ctx, callOf(ctx).workspace)
	return api.GetWorkspace200JSONResponse(one), err
}

func (h handlers) UpdateWorkspace(ctx context.Context, req api.UpdateWorkspaceRequestObject) (api.UpdateWorkspaceResponseObject, error) {
	w := callOf(ctx).workspace
	if req.Body.Name != nil {
		var err error
		if w, err = h.cfg.Workspaces.Rename(ctx, w.ID, *req.Body.Name); err != nil {
			return nil, err
		}
	}
	if private := req.Body.Private; private != nil {
		audit.Note(ctx, "private", strconv.FormatBool(*private))
		var err error
		if w, err = h.setPrivate(ctx, callOf(ctx), w.ID, *private); err != nil {
			return nil, err
		}
	}
	if ok := req.Body.FallbackOk; ok != nil {
		var err error
		if w, err = h.cfg.Workspaces.AgreeToFallBack(ctx, callOf(ctx).actor, w.ID, *ok); err != nil {
			return nil, err
		}
	}
	var changes []string
	if req.Body.Executor != nil || req.Body.RunnerId != nil {
		kind, err := placeKind(req.Body.Executor, req.Body.RunnerId)
		if err != nil {
			return nil, err
		}
		if w, changes, err = h.cfg.Workspaces.Move(ctx, callOf(ctx).actor, w.ID, string(kind), val(req.Body.RunnerFolder)); err != nil {
			return nil, err
		}
		h.remember(ctx, w.ProjectID, kind)
	}
	one, err := h.one(ctx, w)
	if req.Body.Executor != nil || req.Body.RunnerId != nil {
		one.PlaceChanges = &changes
	}
	return api.UpdateWorkspace200JSONResponse(one), err
}

func (h handlers) FallBack(ctx context.Context, req api.FallBackRequestObject) (api.FallBackResponseObject, error) {
	w, changes, err := h.cfg.Workspaces.FallBackNow(ctx, callOf(ctx).actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	one.PlaceChanges = &changes
	return api.FallBack200JSONResponse(one), err
}

func (h handlers) DeleteWorkspace(ctx context.Context, req api.DeleteWorkspaceRequestObject) (api.DeleteWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Delete(ctx, callOf(ctx).actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.DeleteWorkspace200JSONResponse(one), err
}

func (h handlers) CancelWorkspace(ctx context.Context, req api.CancelWorkspaceRequestObject) (api.CancelWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Cancel(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.CancelWorkspace200JSONResponse(one), err
}

func (h handlers) RetryWorkspace(ctx context.Context, req api.RetryWorkspaceRequestObject) (api.RetryWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.RetryCreate(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.RetryWorkspace200JSONResponse(one), err
}

func (h handlers) ArchiveWorkspace(ctx context.Context, req api.ArchiveWorkspaceRequestObject) (api.ArchiveWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Archive(ctx, callOf(ctx).actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.ArchiveWorkspace200JSONResponse(one), err
}

func (h handlers) RestoreWorkspace(ctx context.Context, req api.RestoreWorkspaceRequestObject) (api.RestoreWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Restore(ctx, callOf(ctx).actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.RestoreWorkspace200JSONResponse(one), err
}

func (h handlers) GetLoss(ctx context.Context, req api.GetLossRequestObject) (api.GetLossResponseObject, error) {
	l, err := h.cfg.Workspaces.Loss(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetLoss200JSONResponse{Uncommitted: list(l.Uncommitted, guest.EncodePath), UncommittedCount: l.UncommittedCount,
		UnmergedCommits: l.UnmergedCommits, RunningSessions: l.RunningSessions, Restorable: l.Restorable}, nil
}

func (h handlers) ListActivity(ctx context.Context, req api.ListActivityRequestObject) (api.ListActivityResponseObject, error) {
	items, next, err := h.cfg.Workspaces.Activity(ctx, req.Id, pageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := memberNames(ctx, h.cfg.Accounts, callOf(ctx).team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListActivity200JSONResponse{NextCursor: text(next), Items: list(items, func(a workspaces.Activity) api.Activity { return activityOf(a, names) })}, nil
}

// activityOf shows a line of a timeline. names are those of the team's members.
func activityOf(a workspaces.Activity, names map[string]string) api.Activity {
	name := names[a.ActorID]
	switch {
	case a.ActorID == "":
		name = "Parawork"
	case name == "":
		name = "a former member"
	}
	data := a.Data
	if data == nil {
		data = map[string]any{}
	}
	return api.Activity{Id: a.ID, At: a.At, ActorId: a.ActorID, ActorName: name, Kind: a.Kind, Text: a.Text, Data: data}
}
