package work

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/workspaces"
)

// firstOf returns what stores the first session of a new workspace; nil without one.
func (h Workspaces) firstOf(ctx context.Context, b *api.NewStart) (func(context.Context, workspaces.Workspace) error, error) {
	if b == nil {
		return nil, nil
	}
	call := rest.CallOf(ctx)
	if err := call.Can(accounts.TypeTerminal); err != nil {
		return nil, err
	}
	r := firststart.Request{Agent: b.Agent, Prompt: rest.Val(b.Prompt), Argv: rest.Val(b.Argv), AccountID: rest.Val(b.AccountId), Permissions: string(rest.Val(b.Permissions)), ConfirmNoBoundary: rest.Val(b.ConfirmNoBoundary),
		Cols: uint16(min(rest.Val(b.Cols), 1001)), Rows: uint16(min(rest.Val(b.Rows), 1001))}
	if r.Cols > 1000 || r.Rows > 1000 || rest.Val(b.Cols) < 0 || rest.Val(b.Rows) < 0 {
		return nil, fault.New(fault.Invalid, "invalid_size", "cols and rows must be numbers from 1 to 1000.").With("field", "start.cols")
	}
	if m := rest.Val(b.Model); m != "" {
		r.Argv = append([]string{"--model", m}, r.Argv...)
	}
	for _, a := range rest.Val(b.Attachments) {
		r.Files = append(r.Files, firststart.File{Name: a.Name, Data: a.Data})
	}
	if err := h.cfg.Starts.Check(ctx, r); err != nil {
		return nil, err
	}
	return func(ctx context.Context, w workspaces.Workspace) error {
		return h.cfg.Starts.Keep(ctx, call.Actor, w, r)
	}, nil
}

// StartFirstSession starts the first session of a workspace that failed once more.
func (h Workspaces) StartFirstSession(ctx context.Context, req api.StartFirstSessionRequestObject) (api.StartFirstSessionResponseObject, error) {
	err := h.cfg.Starts.Again(ctx, rest.CallOf(ctx).Actor, req.Id)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Conflict, "first_start_not_failed", "Nothing waits to be started in this workspace.")
	}
	if err != nil {
		return nil, err
	}
	one, err := h.one(ctx, rest.CallOf(ctx).Workspace)
	return api.StartFirstSession200JSONResponse(one), err
}

// ForgetFirstSession has the first session of a workspace not be started.
func (h Workspaces) ForgetFirstSession(ctx context.Context, req api.ForgetFirstSessionRequestObject) (api.ForgetFirstSessionResponseObject, error) {
	if err := h.cfg.Starts.Forget(ctx, req.Id); err != nil {
		return nil, err
	}
	h.cfg.Workspaces.Records.PublishWorkspace(ctx, rest.CallOf(ctx).Workspace)
	return api.ForgetFirstSession204Response{}, nil
}
