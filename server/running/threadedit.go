package running

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Threads) UpdateThread(ctx context.Context, req api.UpdateThreadRequestObject) (api.UpdateThreadResponseObject, error) {
	t, err := h.changed(ctx, req.Id, func(t agent.Thread) error {
		return h.cfg.Agent.Set(ctx, t, rest.Val(req.Body.Model), agent.Mode(rest.Val(req.Body.Mode)))
	})
	return api.UpdateThread200JSONResponse(t), err
}

func (h Threads) CompactThread(ctx context.Context, req api.CompactThreadRequestObject) (api.CompactThreadResponseObject, error) {
	t, err := h.changed(ctx, req.Id, func(t agent.Thread) error { return h.cfg.Agent.Compact(ctx, t) })
	return api.CompactThread200JSONResponse(t), err
}

func (h Threads) ClearThread(ctx context.Context, req api.ClearThreadRequestObject) (api.ClearThreadResponseObject, error) {
	t, err := h.changed(ctx, req.Id, func(t agent.Thread) error { return h.cfg.Agent.Clear(ctx, t) })
	return api.ClearThread200JSONResponse(t), err
}

// changed changes a thread and returns it as it is then.
func (h Threads) changed(ctx context.Context, id string, change func(agent.Thread) error) (api.Thread, error) {
	t, err := h.cfg.Agent.Thread(ctx, id)
	if err == nil {
		err = change(t)
	}
	if err == nil {
		t, err = h.cfg.Agent.Thread(ctx, id)
	}
	return threadOf(t), err
}

func (h Threads) ForkThread(ctx context.Context, req api.ForkThreadRequestObject) (api.ForkThreadResponseObject, error) {
	f, call := agent.ForkRequest{MessageID: rest.Val(req.Body.MessageId), Prompt: rest.Val(req.Body.Text), Workspace: rest.Val(req.Body.Workspace), Name: rest.Val(req.Body.Name)}, rest.CallOf(ctx)
	if f.Workspace {
		if err := accounts.Can(call.Actor, accounts.CreateWorkspace, accounts.InTeam(call.Team.ID)); err != nil {
			return nil, err
		}
	}
	t, s, err := h.cfg.Agent.Fork(ctx, call.Actor, req.Id, f)
	if err != nil {
		return nil, err
	}
	if f.Workspace {
		h.Reread()
		audit.Note(ctx, "workspace_id", s.WorkspaceID)
	}
	audit.Target(ctx, "session", s.ID, s.Agent)
	audit.Note(ctx, "thread", t.ID)
	audit.Note(ctx, "forked_from", req.Id)
	return api.ForkThread201JSONResponse{Thread: threadOf(t), Session: inPlace(SessionOf(s), h.cfg.Standings.BoundaryOf(ctx, s.WorkspaceID))}, nil
}

func (h Threads) UndoThread(ctx context.Context, req api.UndoThreadRequestObject) (api.UndoThreadResponseObject, error) {
	b := req.Body
	done, err := h.cfg.Agent.Undo(ctx, req.Id, agent.UndoRequest{TurnID: rest.Val(b.TurnId), MessageID: rest.Val(b.MessageId), Files: b.Files, DryRun: rest.Val(b.DryRun),
		Force: rest.Val(b.EvenWhileWorking), UserID: rest.CallOf(ctx).Actor.User.ID})
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "message", done.MessageID)
	audit.Note(ctx, "files", strconv.FormatBool(b.Files))
	return api.UndoThread200JSONResponse{MessageId: done.MessageID, Prompt: done.Prompt, Messages: done.Messages, Changed: rest.List(done.Paths, func(p string) string { return p }), SafetySnapshot: rest.Text(done.Snapshot)}, nil
}
