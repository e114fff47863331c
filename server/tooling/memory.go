package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/memory"
)

// ByMemory finds a fact of a project that a path names.
func (h Memory) ByMemory(ctx context.Context, _ *rest.Call, id string) (accounts.Object, error) {
	f, err := h.cfg.Memory.Get(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return accounts.InTeam(f.TeamID), nil
}

func factOf(f memory.Fact, names map[string]string) api.Memory {
	return api.Memory{Id: f.ID, ProjectId: f.ProjectID, Key: f.Key, Text: f.Text, Tags: append([]string{}, f.Tags...), CreatedBy: makerOf(f.UserID, names), Agent: f.Agent, CreatedAt: f.CreatedAt,
		ExpiresAt: rest.Ptr(f.ExpiresAt)}
}

func (h Memory) ListMemory(ctx context.Context, req api.ListMemoryRequestObject) (api.ListMemoryResponseObject, error) {
	facts, next, err := h.cfg.Memory.List(ctx, req.Id, rest.Val(req.Params.Q), rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Object.TeamID)
	return api.ListMemory200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(facts, func(f memory.Fact) api.Memory { return factOf(f, names) })}, err
}

func (h Memory) CreateMemory(ctx context.Context, req api.CreateMemoryRequestObject) (api.CreateMemoryResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	f, err := h.cfg.Memory.Add(ctx, memory.Fact{TeamID: call.Object.TeamID, ProjectID: req.Id, UserID: call.Actor.User.ID, Key: rest.Val(b.Key), Text: b.Text, Tags: rest.Val(b.Tags)}, rest.Val(b.ExpiresInDays))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "memory", f.ID, f.Key)
	return api.CreateMemory201JSONResponse(factOf(f, map[string]string{call.Actor.User.ID: call.Actor.User.Name})), nil
}

func (h Memory) DeleteMemory(ctx context.Context, req api.DeleteMemoryRequestObject) (api.DeleteMemoryResponseObject, error) {
	f, err := h.cfg.Memory.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "memory", f.ID, f.Key)
	return api.DeleteMemory204Response{}, h.cfg.Memory.Delete(ctx, f)
}
