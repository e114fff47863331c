package work

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

func (h Workspaces) ListWorkspaces(ctx context.Context, req api.ListWorkspacesRequestObject) (api.ListWorkspacesResponseObject, error) {
	team := rest.CallOf(ctx).Team.ID
	f := workspaces.Filter{ProjectID: rest.Val(req.Params.ProjectId), Show: workspaces.Show(rest.Val(req.Params.Show))}
	switch f.Show {
	case "", workspaces.ShowActive, workspaces.ShowArchived, workspaces.ShowTrash, workspaces.ShowAll:
	default:
		return nil, fault.New(fault.Invalid, "invalid_parameter", "show must be active, archived, trash or all.").With("field", "show")
	}
	if key := rest.Val(req.Params.Key); key != "" {
		num, ok := workspaces.ParseKey(key)
		if !ok {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "key must be the key of a workspace, such as PW-12.").With("field", "key")
		}
		f.Num = num
	}
	if !rest.PlainID(f.ProjectID) {
		return api.ListWorkspaces200JSONResponse{Items: []api.Workspace{}}, nil
	}
	items, next, err := h.cfg.Workspaces.Records.List(ctx, team, rest.ShownTo(rest.CallOf(ctx), f), rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	out, err := h.compose(ctx, team, items)
	if err != nil {
		return nil, err
	}
	return api.ListWorkspaces200JSONResponse{Items: out, NextCursor: rest.Text(next)}, nil
}

func (h Workspaces) CreateWorkspace(ctx context.Context, req api.CreateWorkspaceRequestObject) (api.CreateWorkspaceResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	kind, err := places.PlaceKind(b.Executor, b.RunnerId)
	if err != nil {
		return nil, err
	}
	if !rest.PlainID(b.ProjectId) {
		return nil, fault.New(fault.NotFound, "project_not_found", "The team has no such project.").With("field", "project_id")
	}
	ctx = places.Latencies(ctx, b.Latencies)
	if err := h.checkPlace(ctx, b.ProjectId, kind, rest.Val(b.FallbackOk)); err != nil {
		return nil, err
	}
	asked := kind
	chosen, err := h.cfg.Choice.Explain(choice.ByHand(executors.As(ctx, "", call.Actor.User.ID)), call.Team.ID, kind, h.projectPlace(ctx, b.ProjectId))
	if err == nil {
		kind = h.cfg.PlaceViews.ByHand(chosen.Kind) // what is made is what was explained
	}
	if err := h.checkSize(ctx, b.ProjectId, kind, limitsOf(b.Resources)); err != nil {
		return nil, err
	}
	n := workspaces.NewWorkspace{ProjectID: b.ProjectId, Name: b.Name, Base: rest.Val(b.Base),
		Branch: rest.Val(b.Branch), Executor: string(kind), Folder: rest.Val(b.RunnerFolder), Limits: limitsOf(b.Resources), FallbackOK: rest.Val(b.FallbackOk), Private: rest.Val(b.Private)}
	if n.Also, err = h.firstOf(ctx, b.Start); err != nil {
		return nil, err
	}
	w, err := h.cfg.Workspaces.Lifecycle.Create(ctx, call.Actor, call.Team.ID, n)
	if err != nil {
		return nil, err
	}
	if b.Start != nil {
		audit.Note(ctx, "agent", b.Start.Agent)
		h.cfg.Starts.Follow(w.ID)
	}
	audit.Target(ctx, "workspace", w.ID, rest.ShownName(w))
	audit.Note(ctx, "place", string(kind))
	h.Reread()
	h.cfg.MachineViews.Remember(ctx, b.ProjectId, asked) // who asked for the nearest region is asked for no other next time
	if string(chosen.Kind) == w.Executor {
		h.cfg.PlaceViews.KeepWhy(ctx, w.ID, chosen)
	}
	one, err := h.one(ctx, w)
	return api.CreateWorkspace201JSONResponse(one), err
}

// checkPlace is asked before anything is made: a workspace that cannot have a sandbox is of no use. project may be a name nobody knows.
func (h *group) checkPlace(ctx context.Context, projectID string, kind executors.Kind, fallbackOK bool) error {
	return h.cfg.Workspaces.Lifecycle.CheckPlace(executors.As(ctx, "", rest.CallOf(ctx).Actor.User.ID), rest.CallOf(ctx).Team.ID, kind, h.projectPlace(ctx, projectID), fallbackOK)
}

// projectPlace is the place a project of the team asks for, "" for none.
func (h *group) projectPlace(ctx context.Context, projectID string) executors.Kind {
	if p, err := h.cfg.Workspaces.Records.Project(ctx, projectID); err == nil && p.TeamID == rest.CallOf(ctx).Team.ID {
		return executors.Kind(p.Executor)
	}
	return ""
}

// checkSize refuses a size the place has not. Without a place, which may yet be another one, there is nothing to say.
func (h Workspaces) checkSize(ctx context.Context, projectID string, wish executors.Kind, l executors.Limits) error {
	kind, err := h.cfg.Choice.Choose(executors.As(ctx, "", rest.CallOf(ctx).Actor.User.ID), rest.CallOf(ctx).Team.ID, wish, h.projectPlace(ctx, projectID))
	if err != nil {
		return nil
	}
	return h.cfg.Choice.CheckSize(executors.As(ctx, "", rest.CallOf(ctx).Actor.User.ID), rest.CallOf(ctx).Team.ID, kind, l)
}

func (h Workspaces) GetWorkspace(ctx context.Context, _ api.GetWorkspaceRequestObject) (api.GetWorkspaceResponseObject, error) {
	one, err := h.one(ctx, rest.CallOf(ctx).Workspace)
	return api.GetWorkspace200JSONResponse(one), err
}

func (h Workspaces) UpdateWorkspace(ctx context.Context, req api.UpdateWorkspaceRequestObject) (api.UpdateWorkspaceResponseObject, error) {
	w := rest.CallOf(ctx).Workspace
	if req.Body.Name != nil {
		var err error
		if w, err = h.cfg.Workspaces.Lifecycle.Rename(ctx, w.ID, *req.Body.Name); err != nil {
			return nil, err
		}
	}
	if private := req.Body.Private; private != nil {
		audit.Note(ctx, "private", strconv.FormatBool(*private))
		var err error
		if w, err = h.SetPrivate(ctx, rest.CallOf(ctx), w.ID, *private); err != nil {
			return nil, err
		}
	}
	if ok := req.Body.FallbackOk; ok != nil {
		var err error
		if w, err = h.cfg.Moves.AgreeToFallBack(ctx, rest.CallOf(ctx).Actor, w.ID, *ok); err != nil {
			return nil, err
		}
	}
	var changes []string
	if req.Body.Executor != nil || req.Body.RunnerId != nil {
		kind, err := places.PlaceKind(req.Body.Executor, req.Body.RunnerId)
		if err != nil {
			return nil, err
		}
		if w, changes, err = h.cfg.Moves.Move(ctx, rest.CallOf(ctx).Actor, w.ID, string(kind), rest.Val(req.Body.RunnerFolder)); err != nil {
			return nil, err
		}
		h.cfg.MachineViews.Remember(ctx, w.ProjectID, kind)
	}
	one, err := h.one(ctx, w)
	if req.Body.Executor != nil || req.Body.RunnerId != nil {
		one.PlaceChanges = &changes
	}
	return api.UpdateWorkspace200JSONResponse(one), err
}

func (h Workspaces) FallBack(ctx context.Context, req api.FallBackRequestObject) (api.FallBackResponseObject, error) {
	w, changes, err := h.cfg.Moves.FallBackNow(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	one.PlaceChanges = &changes
	return api.FallBack200JSONResponse(one), err
}

func (h Workspaces) DeleteWorkspace(ctx context.Context, req api.DeleteWorkspaceRequestObject) (api.DeleteWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Lifecycle.Delete(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.DeleteWorkspace200JSONResponse(one), err
}

func (h Workspaces) CancelWorkspace(ctx context.Context, req api.CancelWorkspaceRequestObject) (api.CancelWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Lifecycle.Cancel(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.CancelWorkspace200JSONResponse(one), err
}

func (h Workspaces) RetryWorkspace(ctx context.Context, req api.RetryWorkspaceRequestObject) (api.RetryWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Lifecycle.RetryCreate(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.RetryWorkspace200JSONResponse(one), err
}

func (h Workspaces) ArchiveWorkspace(ctx context.Context, req api.ArchiveWorkspaceRequestObject) (api.ArchiveWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Lifecycle.Archive(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.ArchiveWorkspace200JSONResponse(one), err
}

func (h Workspaces) RestoreWorkspace(ctx context.Context, req api.RestoreWorkspaceRequestObject) (api.RestoreWorkspaceResponseObject, error) {
	w, err := h.cfg.Workspaces.Lifecycle.Restore(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.RestoreWorkspace200JSONResponse(one), err
}

func (h Workspaces) GetLoss(ctx context.Context, req api.GetLossRequestObject) (api.GetLossResponseObject, error) {
	l, err := h.cfg.Workspaces.Lifecycle.Loss(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetLoss200JSONResponse{Uncommitted: rest.List(l.Uncommitted, guest.EncodePath), UncommittedCount: l.UncommittedCount,
		UnmergedCommits: l.UnmergedCommits, RunningSessions: l.RunningSessions, Restorable: l.Restorable}, nil
}

func (h Workspaces) ListActivity(ctx context.Context, req api.ListActivityRequestObject) (api.ListActivityResponseObject, error) {
	items, next, err := h.cfg.Workspaces.Records.Activity(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListActivity200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(items, func(a workspaces.Activity) api.Activity { return activityOf(a, names) })}, nil
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
