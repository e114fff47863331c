package server

import (
	"context"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/workspaces"
)

// bySnapshot finds a snapshot of a workspace's files, and the workspace.
func (h handlers) bySnapshot(ctx context.Context, c echo.Context, call *call) (accounts.Object, error) {
	id, err := pathID(c)
	if err != nil {
		return accounts.Object{}, err
	}
	if call.snapshot, err = h.cfg.Workspaces.SnapshotByID(ctx, id); err != nil {
		return accounts.Object{}, err
	}
	return h.within(ctx, call, call.snapshot.WorkspaceID)
}

func (h handlers) ListTimeline(ctx context.Context, req api.ListTimelineRequestObject) (api.ListTimelineResponseObject, error) {
	var kinds []string
	if k := val(req.Params.Kind); k != "" {
		kinds = strings.Split(k, ",")
	}
	items, next, err := h.cfg.Workspaces.Timeline(ctx, req.Id, kinds, pageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := memberNames(ctx, h.cfg.Accounts, callOf(ctx).team.ID)
	if err != nil {
		return nil, err
	}
	out := api.ListTimeline200JSONResponse{NextCursor: text(next), Items: list(items, func(m workspaces.Moment) api.TimelineItem {
		if m.Snap != nil {
			sn := snapshotOf(*m.Snap, names)
			return api.TimelineItem{Type: api.TimelineItemTypeSnapshot, At: m.Snap.At, Snapshot: &sn}
		}
		a := activityOf(*m.Activity, names)
		return api.TimelineItem{Type: api.TimelineItemTypeActivity, At: m.Activity.At, Activity: &a}
	})}
	keep := h.cfg.Workspaces.Retention()
	out.PollDays, out.KeepDays = int(keep.Polls/(24*time.Hour)), int(keep.Others/(24*time.Hour))
	if n, err := h.cfg.Workspaces.KeptBytes(ctx, req.Id); err != nil {
		h.cfg.Log.WarnContext(ctx, "what snapshots hold could not be counted", "workspace_id", req.Id, "error", err)
	} else if n >= 0 {
		out.KeptBytes = &n
	}
	return out, nil
}

func (h handlers) GetSnapshot(ctx context.Context, _ api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	names, err := memberNames(ctx, h.cfg.Accounts, callOf(ctx).team.ID)
	return api.GetSnapshot200JSONResponse(snapshotOf(callOf(ctx).snapshot, names)), err
}

func (h handlers) UpdateSnapshot(ctx context.Context, req api.UpdateSnapshotRequestObject) (api.UpdateSnapshotResponseObject, error) {
	sn := callOf(ctx).snapshot
	var err error
	if t := req.Body.Title; t != nil {
		if sn, err = h.cfg.Workspaces.NameSnapshot(ctx, sn, *t); err != nil {
			return nil, err
		}
	}
	if p := req.Body.Pinned; p != nil {
		if sn, err = h.cfg.Workspaces.PinSnapshot(ctx, sn, *p); err != nil {
			return nil, err
		}
	}
	names, err := memberNames(ctx, h.cfg.Accounts, callOf(ctx).team.ID)
	return api.UpdateSnapshot200JSONResponse(snapshotOf(sn, names)), err
}

func (h handlers) DeleteSnapshot(ctx context.Context, _ api.DeleteSnapshotRequestObject) (api.DeleteSnapshotResponseObject, error) {
	if err := h.cfg.Workspaces.DeleteSnapshot(ctx, callOf(ctx).snapshot); err != nil {
		return nil, err
	}
	return api.DeleteSnapshot204Response{}, nil
}

func (h handlers) RestoreSnapshot(ctx context.Context, req api.RestoreSnapshotRequestObject) (api.RestoreSnapshotResponseObject, error) {
	b, call := req.Body, callOf(ctx)
	r := workspaces.RestoreRequest{New: b.Into == api.SnapshotRestoreIntoNew, Name: val(b.Name), Paths: list(val(b.Paths), guest.DecodePath), DryRun: val(b.DryRun), EvenWhileWorking: val(b.EvenWhileWorking), Ignored: val(b.Ignored)}
	done, err := h.cfg.Workspaces.RestoreSnapshot(ctx, call.actor, call.snapshot, r)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "snapshot", call.snapshot.ID)
	audit.Note(ctx, "into", string(b.Into))
	if r.New && !r.DryRun {
		audit.Target(ctx, "workspace", done.Workspace.ID, shownName(done.Workspace))
		h.reread()
	}
	one, err := h.one(ctx, done.Workspace)
	if err != nil {
		return nil, err
	}
	out := api.RestoreSnapshot200JSONResponse{Workspace: one, Changed: list(done.Changed, guest.EncodePath), Conflicts: list(done.Conflicts, guest.EncodePath),
		Ignored: list(done.Ignored, guest.EncodePath), IgnoredLeft: list(done.IgnoredLeft, guest.EncodePath)}
	if done.Kept.ID != "" {
		names, err := memberNames(ctx, h.cfg.Accounts, call.team.ID)
		if err != nil {
			return nil, err
		}
		kept := snapshotOf(done.Kept, names)
		out.Snapshot = &kept
	}
	return out, nil
}
