package work

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/move"
)

func movePlaceOf(c executors.Capabilities) api.MovePlace {
	out := api.MovePlace{Name: c.Name, Boundary: api.Boundary(c.Boundary), BoundaryName: places.BoundaryName(c.Boundary)}
	out.Executor, out.RunnerId = places.PlaceOf(c.Kind)
	out.Name = cmp.Or(out.Name, out.Executor)
	out.Boundary = cmp.Or(out.Boundary, api.Boundary(executors.NoBoundary))
	return out
}

func movedSessionOf(m workspaces.MovedSession) api.MovedSession {
	out := api.MovedSession{Id: m.ID, Agent: m.Agent, AgentName: m.Name, Title: m.Title, How: api.MovedSessionHow(m.How), Busy: m.Busy, State: api.MovedSessionState(m.State),
		NextId: rest.Text(m.Next), Reason: m.Reason}
	out.State = cmp.Or(out.State, "running") // of a plan
	return out
}

func moveItemOf(i move.MoveItem) api.MoveItem {
	return api.MoveItem{What: i.What, Detail: i.Detail, Bytes: rest.Ptr(i.Bytes)}
}

// placeNow is a place as it is known now; one that is gone has its kind for a name.
func (h Composer) placeNow(ctx context.Context, kind string) api.MovePlace {
	c, _ := h.cfg.Choice.Place(ctx, executors.Kind(kind))
	c.Kind = executors.Kind(kind)
	return movePlaceOf(c)
}

func (h Composer) moveOf(ctx context.Context, m workspaces.Moving) api.Move {
	return api.Move{Id: m.ID, From: h.placeNow(ctx, m.From), To: h.placeNow(ctx, m.To), State: api.MoveState(m.State), Reason: m.Reason, Steps: rest.List(m.Steps, stepOf),
		Sessions: rest.List(m.Sessions, movedSessionOf), ActorId: m.ActorID, CreatedAt: m.CreatedAt, EndedAt: rest.Ptr(m.EndedAt)}
}

// moveNow is the move of a workspace that is under way, nil when there is none.
func (h Composer) moveNow(ctx context.Context, workspaceID string) *api.Move {
	m, ok := h.cfg.Moves.MoveOf(workspaceID)
	if !ok {
		return nil
	}
	out := h.moveOf(ctx, m)
	return &out
}

func (h Moves) PlanMove(ctx context.Context, req api.PlanMoveRequestObject) (api.PlanMoveResponseObject, error) {
	kind, err := places.PlaceKind(&req.Params.To, req.Params.RunnerId)
	if err != nil {
		return nil, err
	}
	p, err := h.cfg.Moves.PlanMove(ctx, rest.CallOf(ctx).Actor, req.Id, string(kind), rest.Val(req.Params.Folder))
	if err != nil {
		return nil, err
	}
	return api.PlanMove200JSONResponse{From: movePlaceOf(p.From), To: movePlaceOf(p.To), Possible: p.Possible, Reason: p.Reason, Code: p.Code, Carried: rest.List(p.Carried, moveItemOf),
		Lost: rest.List(p.Lost, moveItemOf), Changes: rest.List(p.Changes, func(s string) string { return s }), Sessions: rest.List(p.Sessions, movedSessionOf), PriceNano: p.PriceNano}, nil
}

func (h Moves) MoveWorkspace(ctx context.Context, req api.MoveWorkspaceRequestObject) (api.MoveWorkspaceResponseObject, error) {
	kind, err := places.PlaceKind(&req.Body.To, req.Body.RunnerId)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "to", string(kind))
	w, err := h.cfg.Moves.MoveLive(ctx, rest.CallOf(ctx).Actor, req.Id, string(kind), rest.Val(req.Body.Folder))
	if err != nil {
		return nil, err
	}
	h.cfg.MachineViews.Remember(ctx, w.ProjectID, kind)
	one, err := h.one(ctx, w)
	return api.MoveWorkspace200JSONResponse(one), err
}

func (h Moves) CancelMove(ctx context.Context, req api.CancelMoveRequestObject) (api.CancelMoveResponseObject, error) {
	w, err := h.cfg.Moves.CancelMove(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, w)
	return api.CancelMove200JSONResponse(one), err
}

func (h Moves) ListMoves(ctx context.Context, req api.ListMovesRequestObject) (api.ListMovesResponseObject, error) {
	all, err := h.cfg.Moves.Moves(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.ListMoves200JSONResponse{Items: rest.List(all, func(m workspaces.Moving) api.Move { return h.moveOf(ctx, m) })}, nil
}
