package server

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h operations) ListPortLinks(ctx context.Context, req api.ListPortLinksRequestObject) (api.ListPortLinksResponseObject, error) {
	if h.preview == nil {
		return nil, errPreviewsOff
	}
	links, err := h.preview.Links(ctx, req.Id)
	return api.ListPortLinks200JSONResponse{Items: rest.List(links, portLinkOf)}, err
}

func portLinkOf(l preview.Link) api.PortLink {
	return api.PortLink{Id: l.ID, Port: l.Port, Name: l.Name, CreatedBy: l.CreatedBy, CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt}
}

func (h operations) CreatePortLink(ctx context.Context, req api.CreatePortLinkRequestObject) (api.CreatePortLinkResponseObject, error) {
	if h.preview == nil {
		return nil, errPreviewsOff
	}
	if err := checkPort(req.Body.Port); err != nil {
		return nil, err
	}
	call := rest.CallOf(ctx)
	w, err := h.cfg.Workspaces.Records.Workspace(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if w.Private {
		return nil, fault.New(fault.Conflict, "workspace_private", "This workspace is private, so its ports cannot be shared by a link. Show it to the team first.")
	}
	life := time.Hour
	if req.Body.Minutes != nil {
		life = time.Duration(*req.Body.Minutes) * time.Minute
	}
	if life < 5*time.Minute || life > preview.MaxLinkLife {
		return nil, fault.New(fault.Invalid, "invalid_minutes", "A link lasts from 5 minutes to 7 days.").With("field", "minutes")
	}
	name := strings.TrimSpace(rest.Val(req.Body.Name))
	if len(name) > 80 {
		return nil, fault.New(fault.Invalid, "invalid_name", "A link's name has at most 80 characters.").With("field", "name")
	}
	l, way, err := h.preview.Share(ctx, preview.Link{TeamID: w.TeamID, WorkspaceID: w.ID, Port: req.Body.Port, Name: name, CreatedBy: call.Actor.User.ID, ExpiresAt: h.cfg.Now().Add(life).UnixMilli()})
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "port_link", l.ID, l.Name)
	audit.Note(ctx, "port", strconv.Itoa(l.Port))
	audit.Note(ctx, "expires_at", time.UnixMilli(l.ExpiresAt).UTC().Format(time.RFC3339))
	v := portLinkOf(l)
	return api.CreatePortLink201JSONResponse{Id: v.Id, Port: v.Port, Name: v.Name, CreatedBy: v.CreatedBy, CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, Url: h.address(call.Request, req.Id, l.Port) + way}, nil
}

// RevokePortLink ends a link: one's own, or another's with the right to manage the team. One that has ended is no error.
func (h operations) RevokePortLink(ctx context.Context, req api.RevokePortLinkRequestObject) (api.RevokePortLinkResponseObject, error) {
	if h.preview == nil {
		return nil, errPreviewsOff
	}
	call := rest.CallOf(ctx)
	links, err := h.preview.Links(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.ID != req.Link {
			continue
		}
		if l.CreatedBy != call.Actor.User.ID {
			if err := accounts.Can(call.Actor, accounts.ManageTeam, accounts.InTeam(call.Team.ID)); err != nil {
				return nil, err
			}
		}
		audit.Target(ctx, "port_link", l.ID, l.Name)
		if err := h.preview.Unshare(ctx, l.ID); err != nil {
			return nil, err
		}
	}
	return api.RevokePortLink204Response{}, nil
}
