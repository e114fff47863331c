package server

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

// sandbox tells of the workspace's sandbox as it is now.
func (h handlers) sandbox(ctx context.Context, workspaceID string) (api.Sandbox, error) {
	i, err := h.cfg.Places.Sandbox(ctx, workspaceID)
	if err != nil {
		return api.Sandbox{}, err
	}
	out := api.Sandbox{Id: i.ID, Executor: string(i.Executor), State: api.SandboxState(i.State), StateReason: i.Reason, Isolation: i.Isolation,
		Resources: map[string]any{}, StartedAt: ptr(i.StartedAt), LastHealthAt: ptr(i.LastHealthAt), Ports: i.Ports}
	if i.Usage != nil {
		out.Usage = api.Usage{CpuMs: i.Usage.CPUMs, MemoryBytes: i.Usage.RSSBytes, Processes: i.Usage.Processes}
	}
	w, err := h.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return api.Sandbox{}, err
	}
	all, _, err := h.cfg.Places.Standings(ctx, w.TeamID)
	if err != nil {
		return api.Sandbox{}, err
	}
	look := outlooks(all)(string(i.Executor), i.State == executors.Running)
	out.Boundary, out.BoundaryName, out.Warning = new(api.Boundary(look.boundary)), new(boundaryName(look.boundary)), &look.warning
	if out.Ports == nil {
		out.Ports = []int{}
	}
	return out, nil
}

func (h handlers) GetSandbox(ctx context.Context, req api.GetSandboxRequestObject) (api.GetSandboxResponseObject, error) {
	sb, err := h.sandbox(ctx, req.Id)
	return api.GetSandbox200JSONResponse(sb), err
}

func (h handlers) PauseSandbox(ctx context.Context, req api.PauseSandboxRequestObject) (api.PauseSandboxResponseObject, error) {
	i, err := h.cfg.Places.Sandbox(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	for _, c := range h.cfg.Places.Capabilities(ctx) {
		if c.Kind == i.Executor {
			return nil, fault.New(fault.Unsupported, "pause_unsupported", "%s cannot pause a sandbox. Destroy it instead: the worktree stays.", c.Name)
		}
	}
	return nil, fault.New(fault.Unsupported, "pause_unsupported", "This place cannot pause a sandbox. Destroy it instead: the worktree stays.")
}

func (h handlers) WakeSandbox(ctx context.Context, req api.WakeSandboxRequestObject) (api.WakeSandboxResponseObject, error) {
	w := callOf(ctx).workspace
	if w.DeletedAt != 0 || w.State == workspaces.Archived || w.State == workspaces.Failed {
		return nil, fault.New(fault.Conflict, "workspace_not_ready", "The workspace has no worktree now, so that it can have no sandbox. Restore it first.")
	}
	if _, err := h.cfg.Places.Ensure(ctx, req.Id); err != nil {
		return nil, err
	}
	sb, err := h.sandbox(ctx, req.Id)
	return api.WakeSandbox200JSONResponse(sb), err
}

func (h handlers) DestroySandbox(ctx context.Context, req api.DestroySandboxRequestObject) (api.DestroySandboxResponseObject, error) {
	// One that never was is told as such; one that is gone already is as it should be.
	if _, err := h.cfg.Places.Sandbox(ctx, req.Id); err != nil {
		return nil, err
	}
	if err := h.cfg.Places.Destroy(ctx, req.Id); err != nil {
		return nil, err
	}
	sb, err := h.sandbox(ctx, req.Id)
	return api.DestroySandbox200JSONResponse(sb), err
}
