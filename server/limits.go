package server

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
)

// limitsOf reads limits of a request.
func limitsOf(l *api.ResourceLimits) executors.Limits {
	if l == nil {
		return executors.Limits{}
	}
	return executors.Limits{CPUs: val(l.Cpus), MemoryMB: val(l.MemoryMb), Processes: val(l.Processes), DiskMB: val(l.DiskMb), WallMinutes: val(l.WallMinutes)}
}

func (h handlers) limitView(ctx context.Context, workspaceID, executor string) (api.WorkspaceLimits, error) {
	v, err := h.cfg.Meters.View(ctx, workspaceID, executors.Kind(executor))
	if err != nil {
		return api.WorkspaceLimits{}, err
	}
	return api.WorkspaceLimits{Limits: resourceLimits(v.Own), Project: resourceLimits(v.Project), Instance: resourceLimits(v.Instance),
		Maximum: resourceLimits(v.Maximum), Effective: resourceLimits(v.Effective), Applied: api.Now,
		Enforced: list(v.Enforced, func(e executors.Enforced) api.EnforcedLimit {
			return api.EnforcedLimit{Name: api.EnforcedLimitName(e.Name), Enforced: e.OK, How: e.How}
		})}, nil
}

func (h handlers) GetLimits(ctx context.Context, req api.GetLimitsRequestObject) (api.GetLimitsResponseObject, error) {
	out, err := h.limitView(ctx, req.Id, callOf(ctx).workspace.Executor)
	if err != nil {
		return nil, err
	}
	live, has := h.cfg.Meters.Live(req.Id)
	if has && live != limitsOf(&out.Effective) {
		out.Applied, out.Note = api.NextSandbox, "The sandbox that runs was made with other limits; these hold from its next one on."
	}
	return api.GetLimits200JSONResponse(out), nil
}

func (h handlers) SetLimits(ctx context.Context, req api.SetLimitsRequestObject) (api.SetLimitsResponseObject, error) {
	call := callOf(ctx)
	w, err := h.cfg.Workspaces.SetLimits(ctx, call.actor, req.Id, limitsOf(req.Body))
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
func (h handlers) applyLimits(ctx context.Context, projectID string) {
	all, err := h.cfg.Workspaces.WorkspacesOf(ctx, projectID)
	if err != nil {
		h.log.Warn("limits of a project not applied", "project_id", projectID, "error", err)
		return
	}
	for _, w := range all {
		if _, _, err := h.cfg.Meters.Apply(ctx, w.ID); err != nil {
			h.log.Warn("limits of a project not applied", "workspace_id", w.ID, "error", err)
		}
	}
}
