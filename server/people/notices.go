package people

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// ListNotices returns what happened for the caller.
func (h Notifications) ListNotices(ctx context.Context, req api.ListNoticesRequestObject) (api.ListNoticesResponseObject, error) {
	user := rest.CallOf(ctx).Actor.User.ID
	items, unread, err := h.cfg.Notify.NoticesOf(ctx, user, max(0, rest.Val(req.Params.Limit)))
	if err != nil {
		return nil, err
	}
	mutes, err := h.cfg.Notify.MutesOf(ctx, user)
	if err != nil {
		return nil, err
	}
	return api.ListNotices200JSONResponse{Unread: unread, Items: rest.List(items, func(n notify.Notice) api.Notice {
		return api.Notice{Id: n.ID, Kind: api.NoticeKind(n.Kind), Team: n.TeamSlug, WorkspaceId: n.WorkspaceID, WorkspaceKey: n.WorkspaceKey, WorkspaceName: n.WorkspaceName,
			SessionId: n.SessionID, Text: n.Text, At: n.At, Read: n.ReadAt != 0}
	}), Mutes: rest.List(mutes, func(m notify.Mute) api.Mute {
		return api.Mute{WorkspaceId: m.WorkspaceID, Mode: api.MuteMode(m.Mode), Until: rest.Ptr(m.Until)}
	})}, nil
}

// ReadNotices marks notices of the caller.
func (h Notifications) ReadNotices(ctx context.Context, req api.ReadNoticesRequestObject) (api.ReadNoticesResponseObject, error) {
	ids, read := rest.Val(req.Body.Ids), req.Body.Read == nil || *req.Body.Read
	if req.Body.Ids != nil && len(ids) == 0 {
		return api.ReadNotices204Response{}, nil
	}
	if !read && len(ids) == 0 || len(ids) > notify.MaxNotices {
		return nil, fault.New(fault.Invalid, "invalid_parameter", "ids must name up to %d notices.", notify.MaxNotices).With("field", "ids")
	}
	return api.ReadNotices204Response{}, h.cfg.Notify.Read(ctx, rest.CallOf(ctx).Actor.User.ID, ids, read)
}

// MuteWorkspace mutes a workspace for the caller.
func (h Notifications) MuteWorkspace(ctx context.Context, req api.MuteWorkspaceRequestObject) (api.MuteWorkspaceResponseObject, error) {
	call := rest.CallOf(ctx)
	return api.MuteWorkspace204Response{}, h.cfg.Notify.SetMute(ctx, notify.Mute{UserID: call.Actor.User.ID, TeamID: call.Workspace.TeamID, WorkspaceID: call.Workspace.ID,
		Mode: string(req.Body.Mode), Until: rest.Val(req.Body.Until)})
}

// UnmuteWorkspace ends that.
func (h Notifications) UnmuteWorkspace(ctx context.Context, _ api.UnmuteWorkspaceRequestObject) (api.UnmuteWorkspaceResponseObject, error) {
	call := rest.CallOf(ctx)
	return api.UnmuteWorkspace204Response{}, h.cfg.Notify.Unmute(ctx, call.Actor.User.ID, call.Workspace.TeamID, call.Workspace.ID)
}
