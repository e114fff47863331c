package work

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func (h Timeline) ListTimeline(ctx context.Context, req api.ListTimelineRequestObject) (api.ListTimelineResponseObject, error) {
	var kinds []string
	if k := rest.Val(req.Params.Kind); k != "" {
		kinds = strings.Split(k, ",")
	}
	items, next, err := h.cfg.Workspaces.Snapshots.Timeline(ctx, req.Id, kinds, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	out := api.ListTimeline200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(items, func(m snapshot.Moment) api.TimelineItem {
		if m.Snap != nil {
			sn := snapshotOf(*m.Snap, names)
			return api.TimelineItem{Type: api.TimelineItemTypeSnapshot, At: m.Snap.At, Snapshot: &sn}
		}
		a := activityOf(*m.Activity, names)
		return api.TimelineItem{Type: api.TimelineItemTypeActivity, At: m.Activity.At, Activity: &a}
	})}
	keep := h.cfg.Workspaces.Snapshots.Retention()
	out.PollDays, out.KeepDays = int(keep.Polls/(24*time.Hour)), int(keep.Others/(24*time.Hour))
	if n, err := h.cfg.Workspaces.Snapshots.KeptBytes(ctx, req.Id); err != nil {
		h.Log.WarnContext(ctx, "the disk usage of snapshots could not be counted", "workspace_id", req.Id, "error", err)
	} else if n >= 0 {
		out.StoredBytes = &n
	}
	return out, nil
}

func (h Timeline) GetSnapshot(ctx context.Context, _ api.GetSnapshotRequestObject) (api.GetSnapshotResponseObject, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	return api.GetSnapshot200JSONResponse(snapshotOf(rest.CallOf(ctx).Snapshot, names)), err
}

func (h Timeline) UpdateSnapshot(ctx context.Context, req api.UpdateSnapshotRequestObject) (api.UpdateSnapshotResponseObject, error) {
	sn := rest.CallOf(ctx).Snapshot
	var err error
	if t := req.Body.Title; t != nil {
		if sn, err = h.cfg.Workspaces.Snapshots.NameSnapshot(ctx, sn, *t); err != nil {
			return nil, err
		}
	}
	if p := req.Body.Pinned; p != nil {
		if sn, err = h.cfg.Workspaces.Snapshots.PinSnapshot(ctx, sn, *p); err != nil {
			return nil, err
		}
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	return api.UpdateSnapshot200JSONResponse(snapshotOf(sn, names)), err
}

func (h Timeline) DeleteSnapshot(ctx context.Context, _ api.DeleteSnapshotRequestObject) (api.DeleteSnapshotResponseObject, error) {
	if err := h.cfg.Workspaces.Snapshots.DeleteSnapshot(ctx, rest.CallOf(ctx).Snapshot); err != nil {
		return nil, err
	}
	return api.DeleteSnapshot204Response{}, nil
}

func (h Timeline) RestoreSnapshot(ctx context.Context, req api.RestoreSnapshotRequestObject) (api.RestoreSnapshotResponseObject, error) {
	b, call := req.Body, rest.CallOf(ctx)
	r := snapshot.RestoreRequest{New: b.Into == api.SnapshotRestoreIntoNew, Name: rest.Val(b.Name), Paths: rest.List(rest.Val(b.Paths), guest.DecodePath), DryRun: rest.Val(b.DryRun), EvenWhileWorking: rest.Val(b.EvenWhileWorking), Ignored: rest.Val(b.Ignored)}
	done, err := h.cfg.Workspaces.Lifecycle.RestoreSnapshot(ctx, call.Actor, call.Snapshot, r)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "snapshot", call.Snapshot.ID)
	audit.Note(ctx, "into", string(b.Into))
	if r.New && !r.DryRun {
		audit.Target(ctx, "workspace", done.Workspace.ID, rest.ShownName(done.Workspace))
		h.Reread()
	}
	one, err := h.one(ctx, done.Workspace)
	if err != nil {
		return nil, err
	}
	out := api.RestoreSnapshot200JSONResponse{Workspace: one, Changed: rest.List(done.Changed, guest.EncodePath), Conflicts: rest.List(done.Conflicts, guest.EncodePath),
		Ignored: rest.List(done.Ignored, guest.EncodePath), IgnoredLeft: rest.List(done.IgnoredLeft, guest.EncodePath)}
	if done.Kept.ID != "" {
		names, err := rest.MemberNames(ctx, h.cfg.Directory, call.Team.ID)
		if err != nil {
			return nil, err
		}
		kept := snapshotOf(done.Kept, names)
		out.Snapshot = &kept
	}
	return out, nil
}
