package running

import (
	"context"
	"net/http"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/sandboxes"
)

func (h Sandboxes) CreateSandbox(ctx context.Context, req api.CreateSandboxRequestObject) (api.CreateSandboxResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	kind, err := places.PlaceKind(b.Executor, b.RunnerId)
	if err != nil {
		return nil, err
	}
	r := sandboxes.Request{Key: rest.Val(b.Key), Purpose: executors.Purpose(b.Purpose), Executor: kind, Idle: time.Duration(rest.Val(b.IdleSeconds)) * time.Second,
		SessionID: rest.Val(b.EndWithSession), Image: rest.Val(b.Image), Replace: rest.Val(b.Replace)}
	if b.Network != nil {
		r.Network = &network.Policy{Mode: executors.NetworkMode(b.Network.Mode), Allow: rest.Val(b.Network.Allow)}
	}
	sb, made, err := h.cfg.Sandboxes.Obtain(ctx, call.Actor, call.Team.ID, r)
	if err != nil {
		return nil, err
	}
	h.Reread()
	audit.Target(ctx, "sandbox", sb.ID, "")
	audit.Note(ctx, "purpose", string(sb.Purpose))
	out, err := h.one(ctx, sb)
	if err != nil {
		return nil, err
	}
	if made {
		return api.CreateSandbox201JSONResponse(out), nil
	}
	return api.CreateSandbox200JSONResponse(out), nil
}

func (h Sandboxes) ListTeamSandboxes(ctx context.Context, req api.ListTeamSandboxesRequestObject) (api.ListTeamSandboxesResponseObject, error) {
	call := rest.CallOf(ctx)
	of := call.Actor.User.ID
	if call.Actor.RoleIn(call.Team.ID).AtLeast(accounts.Admin) {
		of = ""
	}
	items, next, err := h.cfg.Sandboxes.List(ctx, call.Team.ID, of, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	shown, err := h.shown(ctx, call.Team.ID, items...)
	return api.ListTeamSandboxes200JSONResponse{NextCursor: rest.Text(next), Items: shown}, err
}

func (h Sandboxes) one(ctx context.Context, sb sandboxes.Sandbox) (api.ApiSandbox, error) {
	all, err := h.shown(ctx, sb.TeamID, sb)
	if err != nil {
		return api.ApiSandbox{}, err
	}
	return all[0], nil
}

// shown shows sandboxes of a team with where they run now, and what they cost to who may see costs.
func (h Sandboxes) shown(ctx context.Context, teamID string, items ...sandboxes.Sandbox) ([]api.ApiSandbox, error) {
	if len(items) == 0 {
		return []api.ApiSandbox{}, nil
	}
	ids := rest.List(items, func(sb sandboxes.Sandbox) string { return sb.WorkspaceID })
	now, err := h.cfg.Places.Sandboxes(ctx, teamID, ids...)
	if err != nil {
		return nil, err
	}
	var costs map[string]int64
	if rest.CallOf(ctx).Can(accounts.ViewCosts) == nil {
		if costs, err = h.cfg.Costs(ctx, ids); err != nil {
			return nil, err
		}
	}
	return rest.List(items, func(sb sandboxes.Sandbox) api.ApiSandbox {
		out := sandboxOf(sb, now[sb.WorkspaceID])
		if costs != nil {
			out.CostNano = new(costs[sb.WorkspaceID])
		}
		return out
	}), nil
}

// sandboxOf shows a sandbox and where it runs now.
func sandboxOf(sb sandboxes.Sandbox, now executors.Record) api.ApiSandbox {
	state := now.State
	if now.Handle.ID == "" {
		state = executors.Starting
	}
	out := api.ApiSandbox{Id: sb.ID, Key: sb.Key, Purpose: api.ApiSandboxPurpose(sb.Purpose), UserId: sb.UserID, WorkspaceId: sb.WorkspaceID, Executor: rest.First(string(now.Handle.Kind.Base()), sb.Executor),
		Image: sb.Image.Name, State: string(state), StateReason: now.Reason, IdleSeconds: sb.IdleMs / 1000, CreatedAt: sb.CreatedAt, UsedAt: sb.UsedAt, EndsAt: sb.EndsAt, EndsBy: sb.EndsBy}
	if n := sb.Network; n.Mode != "" {
		out.Network = &api.ApiSandboxNetwork{Mode: api.ApiSandboxNetworkMode(n.Mode)}
		if n.Mode == executors.NetworkAllow {
			out.Network.Allow = &n.Allow
		}
	}
	return out
}

func (h Sandboxes) GetApiSandbox(ctx context.Context, _ api.GetApiSandboxRequestObject) (api.GetApiSandboxResponseObject, error) {
	out, err := h.one(ctx, rest.CallOf(ctx).Sandbox)
	return api.GetApiSandbox200JSONResponse(out), err
}

func (h Sandboxes) UpdateApiSandbox(ctx context.Context, req api.UpdateApiSandboxRequestObject) (api.UpdateApiSandboxResponseObject, error) {
	sb, err := h.cfg.Sandboxes.SetKey(ctx, req.Id, req.Body.Key)
	if err != nil {
		return nil, err
	}
	out, err := h.one(ctx, sb)
	return api.UpdateApiSandbox200JSONResponse(out), err
}

func (h Sandboxes) ExtendApiSandbox(ctx context.Context, req api.ExtendApiSandboxRequestObject) (api.ExtendApiSandboxResponseObject, error) {
	sb, err := h.cfg.Sandboxes.Extend(ctx, req.Id, time.Duration(req.Body.Seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	out, err := h.one(ctx, sb)
	return api.ExtendApiSandbox200JSONResponse(out), err
}

func (h Sandboxes) DeleteApiSandbox(ctx context.Context, req api.DeleteApiSandboxRequestObject) (api.DeleteApiSandboxResponseObject, error) {
	if err := h.cfg.Sandboxes.End(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.DeleteApiSandbox204Response{}, nil
}

func (h Sandboxes) ExecInSandbox(ctx context.Context, req api.ExecInSandboxRequestObject) (api.ExecInSandboxResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	r := command.Request{TeamID: call.Sandbox.TeamID, WorkspaceID: call.Sandbox.WorkspaceID, ActorID: call.Actor.User.ID, Cwd: rest.Val(b.Cwd), Env: rest.Val(b.Env), TimeoutMs: rest.Val(b.TimeoutMs),
		Stdin: []byte(rest.Val(b.Stdin)), Sudo: rest.Val(b.Sudo)}
	if err := commandOf(b.Command, &r); err != nil {
		return nil, err
	}
	if _, err := h.cfg.Sandboxes.Use(ctx, call.Sandbox.ID); err != nil {
		return nil, err
	}
	if WantsStream(call.Request) {
		return sandboxExec{execStream{Commands{h.group}, ctx, r}}, nil
	}
	c, err := h.cfg.Commands.Exec(ctx, r)
	if err != nil {
		return nil, err
	}
	return api.ExecInSandbox200JSONResponse(Commands{h.group}.command(c)), nil
}

// commandOf reads a command: a list, or a line for the shell.
func commandOf(v any, r *command.Request) error {
	wrong := fault.New(fault.Invalid, "invalid_command", "command is a list of texts, or a line for /bin/sh.").With("field", "command")
	switch v := v.(type) {
	case string:
		r.Command = v
	case []any:
		for _, a := range v {
			s, ok := a.(string)
			if !ok {
				return wrong
			}
			r.Argv = append(r.Argv, s)
		}
	default:
		return wrong
	}
	return nil
}

type sandboxExec struct{ execStream }

// VisitExecInSandboxResponse runs the command.
func (e sandboxExec) VisitExecInSandboxResponse(w http.ResponseWriter) error {
	return e.VisitExecCommandResponse(w)
}

func (h Sandboxes) RunCodeInSandbox(ctx context.Context, req api.RunCodeInSandboxRequestObject) (api.RunCodeInSandboxResponseObject, error) {
	call := rest.CallOf(ctx)
	r := code.Request{TeamID: call.Sandbox.TeamID, WorkspaceID: call.Sandbox.WorkspaceID, UserID: call.Actor.User.ID, Language: code.Language(req.Body.Language), Kernel: rest.Val(req.Body.Kernel),
		Code: req.Body.Code, TimeoutMs: rest.Val(req.Body.TimeoutMs)}
	if _, err := h.cfg.Sandboxes.Use(ctx, call.Sandbox.ID); err != nil {
		return nil, err
	}
	if WantsStream(call.Request) {
		return sandboxCode{Code{h.group}.stream(ctx, func(ctx context.Context, fn func(code.Event) error) (code.Run, error) {
			return h.cfg.Code.Stream(ctx, r, fn)
		})}, nil
	}
	run, err := h.cfg.Code.Execute(ctx, r)
	if err != nil {
		return nil, err
	}
	return api.RunCodeInSandbox200JSONResponse(runOf(run)), nil
}

type sandboxCode struct{ codeStream }

// VisitRunCodeInSandboxResponse runs the code.
func (e sandboxCode) VisitRunCodeInSandboxResponse(w http.ResponseWriter) error {
	return e.VisitRunCodeResponse(w)
}
