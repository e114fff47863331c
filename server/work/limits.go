package work

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// limitsOf reads limits of a request.
func limitsOf(l *api.ResourceLimits) executors.Limits {
	if l == nil {
		return executors.Limits{}
	}
	return executors.Limits{CPUs: rest.Val(l.Cpus), MemoryMB: rest.Val(l.MemoryMb), Processes: rest.Val(l.Processes), DiskMB: rest.Val(l.DiskMb), WallMinutes: rest.Val(l.WallMinutes)}
}

func (h Limits) limitView(ctx context.Context, workspaceID, executor string) (api.WorkspaceLimits, error) {
	v, err := h.cfg.Meters.View(ctx, workspaceID, executors.Kind(executor))
	if err != nil {
		return api.WorkspaceLimits{}, err
	}
	return api.WorkspaceLimits{Limits: rest.ResourceLimits(v.Own), Project: rest.ResourceLimits(v.Project), Instance: rest.ResourceLimits(v.Instance),
		Maximum: rest.ResourceLimits(v.Maximum), Effective: rest.ResourceLimits(v.Effective), Applied: api.Now,
		Enforced: rest.List(v.Enforced, func(e meter.Enforced) api.EnforcedLimit {
			return api.EnforcedLimit{Name: api.EnforcedLimitName(e.Name), Enforced: e.OK, How: e.How}
		})}, nil
}

func (h Limits) GetLimits(ctx context.Context, req api.GetLimitsRequestObject) (api.GetLimitsResponseObject, error) {
	out, err := h.limitView(ctx, req.Id, rest.CallOf(ctx).Workspace.Executor)
	if err != nil {
		return nil, err
	}
	live, has := h.cfg.Meters.Live(req.Id)
	if has && live != limitsOf(&out.Effective) {
		out.Applied, out.Note = api.NextSandbox, "The sandbox that runs was made with other limits; these hold from its next one on."
	}
	return api.GetLimits200JSONResponse(out), nil
}

func (h Limits) SetLimits(ctx context.Context, req api.SetLimitsRequestObject) (api.SetLimitsResponseObject, error) {
	call := rest.CallOf(ctx)
	w, err := h.cfg.Workspaces.Lifecycle.SetLimits(ctx, call.Actor, req.Id, limitsOf(req.Body))
	if err != nil {
		return nil, err
	}
	now, why, err := h.cfg.Meters.Apply(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.limitView(ctx, req.Id, w.Executor)
	if err != nil {
		return nil, err
	}
	if !now && why != "" {
		out.Applied, out.Note = api.NextSandbox, why
	}
	return api.SetLimits200JSONResponse(out), nil
}

// applyLimits gives the sandboxes of a project's workspaces what the project says now. Where that cannot be done the limits of the
// workspace tell.
func (h *group) applyLimits(ctx context.Context, projectID string) {
	all, err := h.cfg.Workspaces.Records.WorkspacesOf(ctx, projectID)
	if err != nil {
		h.Log.Warn("limits of a project not applied", "project_id", projectID, "error", err)
		return
	}
	for _, w := range all {
		if _, _, err := h.cfg.Meters.Apply(ctx, w.ID); err != nil {
			h.Log.Warn("limits of a project not applied", "workspace_id", w.ID, "error", err)
		}
	}
}
