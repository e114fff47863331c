package server

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
)

func (h handlers) ListMyInvites(ctx context.Context, _ api.ListMyInvitesRequestObject) (api.ListMyInvitesResponseObject, error) {
	actor := callOf(ctx).actor
	all, err := h.cfg.Accounts.MyInvites(ctx, actor)
	if err != nil {
		return nil, err
	}
	return api.ListMyInvites200JSONResponse{EmailVerified: !actor.User.EmailUnverified, Items: list(all, func(i accounts.TeamInvite) api.MyInvite {
		out := api.MyInvite{Id: i.ID, Role: api.Role(i.Role), Inviter: i.CreatorName, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt}
		out.Team.Name, out.Team.Slug = i.Team.Name, i.Team.Slug
		return out
	})}, nil
}

func (h handlers) AcceptMyInvite(ctx context.Context, req api.AcceptMyInviteRequestObject) (api.AcceptMyInviteResponseObject, error) {
	if !plainID(req.Id) {
		return nil, errNotFound
	}
	actor := callOf(ctx).actor
	team, err := h.cfg.Accounts.AcceptInvite(ctx, actor, req.Id)
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, team.ID)
	audit.Target(ctx, "team", team.ID, team.Name)
	me, err := h.joined(ctx, actor)
	return api.AcceptMyInvite200JSONResponse(me), err
}

func (h handlers) DeclineMyInvite(ctx context.Context, req api.DeclineMyInviteRequestObject) (api.DeclineMyInviteResponseObject, error) {
	if !plainID(req.Id) {
		return nil, errNotFound
	}
	teamID, err := h.cfg.Accounts.DeclineInvite(ctx, callOf(ctx).actor, req.Id)
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, teamID)
	audit.Target(ctx, "invite", req.Id, "")
	return api.DeclineMyInvite204Response{}, nil
}
