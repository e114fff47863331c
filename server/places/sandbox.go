package places

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// sandbox describes the workspace's sandbox as it is now.
func (h Sandboxes) sandbox(ctx context.Context, workspaceID string) (api.Sandbox, error) {
	i, err := h.cfg.Places.Sandbox(ctx, workspaceID)
	if err != nil {
		return api.Sandbox{}, err
	}
	out := api.Sandbox{Id: i.ID, State: api.SandboxState(i.State), StateReason: i.Reason, Isolation: i.Isolation,
		Resources: map[string]any{}, Limits: rest.ResourceLimits(i.Limits), StartedAt: rest.Ptr(i.StartedAt), ExpiresAt: rest.Ptr(i.ExpiresAt),
		LastHealthAt: rest.Ptr(i.LastHealthAt), Ports: i.Ports, OwnDisk: i.OwnDisk, Steps: rest.List(i.Steps, sandboxStep), Purpose: string(i.Purpose),
		PausedFor: api.SandboxPausedFor(i.PausedFor), PausedAt: rest.Ptr(i.PausedAt), Size: api.SandboxSize{Cpus: i.CPUs, MemoryMb: i.MemoryMB},
		PriceNanoPerHour: i.PriceNano, RunEndsAt: rest.Ptr(i.RunEndsAt), LeaseUntil: rest.Ptr(i.LeaseUntil), IdleAt: rest.Ptr(i.IdleAt), Pooled: i.Pooled,
		UserId: i.UserID}
	out.Executor, out.RunnerId = PlaceOf(i.Executor)
	out.Machine = h.machines.sandboxMachine(ctx, i.Executor)
	if u := i.Usage; u != nil {
		out.Usage = api.Usage{CpuMs: u.CPUMs, CpuPercent: u.CPUPercent, MemoryBytes: u.RSSBytes, MemoryPeakBytes: u.MemoryPeak, Processes: u.Processes,
			DiskAtLeast: u.DiskAtLeast, OomKills: u.OOMKills, ThrottledMs: u.ThrottledMs}
		if u.DiskBytes >= 0 {
			out.Usage.DiskBytes = &u.DiskBytes
		}
	}
	w, err := h.cfg.Workspaces.Records.Workspace(ctx, workspaceID)
	if err != nil {
		return api.Sandbox{}, err
	}
	all, _, err := h.cfg.Choice.Options(ctx, w.TeamID)
	if err != nil {
		return api.Sandbox{}, err
	}
	look := Outlooks(all)(string(i.Executor), i.State == executors.Running)
	out.Boundary, out.BoundaryName, out.Warning = new(api.Boundary(look.Boundary)), new(BoundaryName(look.Boundary)), &look.Warning
	if out.Ports == nil {
		out.Ports = []int{}
	}
	home, err := h.cfg.Files.Home(ctx, workspaceID)
	if err != nil {
		return api.Sandbox{}, err
	}
	out.Sync = &api.SyncSummary{State: api.SyncState(home.State), SyncedAt: rest.Ptr(home.SyncedAt), Pending: home.Pending, Reason: home.Reason,
		NotSynced: len(home.NotSynced), Conflicts: len(home.Conflicts)}
	return out, nil
}

func sandboxStep(s executors.Step) api.SandboxStep {
	return api.SandboxStep{Name: s.Name, Title: s.Title, State: api.SandboxStepState(s.State), Detail: s.Detail, Done: s.Done, All: s.All,
		StartedAt: rest.Ptr(s.StartedAt), EndedAt: rest.Ptr(s.EndedAt)}
}

func (h Sandboxes) GetSandbox(ctx context.Context, req api.GetSandboxRequestObject) (api.GetSandboxResponseObject, error) {
	sb, err := h.sandbox(ctx, req.Id)
	return api.GetSandbox200JSONResponse(sb), err
}

func (h Sandboxes) PauseSandbox(ctx context.Context, req api.PauseSandboxRequestObject) (api.PauseSandboxResponseObject, error) {
	who := cmp.Or(rest.CallOf(ctx).Actor.User.Name, "a member")
	if err := h.cfg.Places.Pause(ctx, req.Id, "It was paused by "+who+"."); err != nil {
		return nil, err
	}
	sb, err := h.sandbox(ctx, req.Id)
	return api.PauseSandbox200JSONResponse(sb), err
}

func (h Sandboxes) WakeSandbox(ctx context.Context, req api.WakeSandboxRequestObject) (api.WakeSandboxResponseObject, error) {
	w := rest.CallOf(ctx).Workspace
	if w.DeletedAt != 0 || w.State == workspaces.Archived || w.State == workspaces.Failed {
		return nil, fault.New(fault.Conflict, "workspace_not_ready", "The workspace has no worktree now, so it cannot have a sandbox. Restore it first.")
	}
	if err := h.cfg.Places.Wake(ctx, req.Id); err != nil {
		return nil, err
	}
	if _, err := h.cfg.Places.EnsureFor(ctx, req.Id, "", rest.CallOf(ctx).Actor.User.ID); err != nil {
		return nil, err
	}
	sb, err := h.sandbox(ctx, req.Id)
	return api.WakeSandbox200JSONResponse(sb), err
}

func (h Sandboxes) DestroySandbox(ctx context.Context, req api.DestroySandboxRequestObject) (api.DestroySandboxResponseObject, error) {
	// A sandbox that never existed is an error; one that is already gone is the wanted state.
	if _, err := h.cfg.Places.Sandbox(ctx, req.Id); err != nil {
		return nil, err
	}
	if rest.Val(req.Params.Discard) {
		ctx = executors.Discard(ctx)
	}
	if err := h.cfg.Places.Destroy(ctx, req.Id); err != nil {
		return nil, err
	}
	sb, err := h.sandbox(ctx, req.Id)
	return api.DestroySandbox200JSONResponse(sb), err
}
