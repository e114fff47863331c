package people

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Invites) ListMyInvites(ctx context.Context, _ api.ListMyInvitesRequestObject) (api.ListMyInvitesResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	all, err := h.cfg.Directory.MyInvites(ctx, actor)
	if err != nil {
		return nil, err
	}
	return api.ListMyInvites200JSONResponse{EmailVerified: !actor.User.EmailUnverified, Items: rest.List(all, func(i accounts.TeamInvite) api.MyInvite {
		out := api.MyInvite{Id: i.ID, Role: api.Role(i.Role), Inviter: i.CreatorName, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt}
		out.Team.Name, out.Team.Slug = i.Team.Name, i.Team.Slug
		return out
	})}, nil
}

func (h Invites) AcceptMyInvite(ctx context.Context, req api.AcceptMyInviteRequestObject) (api.AcceptMyInviteResponseObject, error) {
	if !rest.PlainID(req.Id) {
		return nil, rest.ErrNotFound
	}
	actor := rest.CallOf(ctx).Actor
	team, err := h.cfg.Directory.AcceptInvite(ctx, actor, req.Id)
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, team.ID)
	audit.Target(ctx, "team", team.ID, team.Name)
	me, err := h.joined(ctx, actor)
	return api.AcceptMyInvite200JSONResponse(me), err
}

func (h Invites) DeclineMyInvite(ctx context.Context, req api.DeclineMyInviteRequestObject) (api.DeclineMyInviteResponseObject, error) {
	if !rest.PlainID(req.Id) {
		return nil, rest.ErrNotFound
	}
	teamID, err := h.cfg.Directory.DeclineInvite(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, teamID)
	audit.Target(ctx, "invite", req.Id, "")
	return api.DeclineMyInvite204Response{}, nil
}
