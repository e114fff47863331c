package people

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func inviteOf(i accounts.Invite) api.Invite {
	return api.Invite{Id: i.ID, Role: api.Role(i.Role), Email: i.Email, CreatedBy: api.Person{Id: i.CreatedBy, Name: i.CreatorName}, CreatedAt: i.CreatedAt,
		ExpiresAt: i.ExpiresAt, Mailed: i.MailedAt != 0}
}

func (h Invites) ListInvites(ctx context.Context, _ api.ListInvitesRequestObject) (api.ListInvitesResponseObject, error) {
	call := rest.CallOf(ctx)
	all, err := h.cfg.Directory.Invites(ctx, call.Actor, call.Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListInvites200JSONResponse{Items: rest.List(all, inviteOf)}, nil
}

func (h Invites) CreateInvite(ctx context.Context, req api.CreateInviteRequestObject) (api.CreateInviteResponseObject, error) {
	made, err := h.invite(ctx, accounts.NewInvite{Role: accounts.Role(req.Body.Role), Email: rest.Val(req.Body.Email)})
	return api.CreateInvite201JSONResponse(made), err
}

// invite invites somebody to the team of the call. Who lets somebody in who may let others in has proven lately who they are.
func (h *group) invite(ctx context.Context, req accounts.NewInvite) (api.CreatedInvite, error) {
	call := rest.CallOf(ctx)
	if req.Role.AtLeast(accounts.Admin) {
		if err := h.cfg.SignIn.NeedConfirmed(call.Actor); err != nil {
			return api.CreatedInvite{}, err
		}
	}
	i, token, err := h.cfg.Directory.CreateInvite(ctx, call.Actor, call.Team.ID, req)
	if err != nil {
		return api.CreatedInvite{}, err
	}
	audit.Target(ctx, "invite", i.ID, i.Email)
	audit.Note(ctx, "role", string(i.Role))
	v := inviteOf(i)
	return api.CreatedInvite{Id: v.Id, Role: v.Role, Email: v.Email, CreatedBy: v.CreatedBy, CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, Mailed: v.Mailed,
		Url: accounts.Link(h.Here(call.Request), "join", token)}, nil
}

func (h Invites) RevokeInvite(ctx context.Context, req api.RevokeInviteRequestObject) (api.RevokeInviteResponseObject, error) {
	if err := h.cfg.Directory.RevokeInvite(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	return api.RevokeInvite204Response{}, nil
}

func (h Invites) PreviewInvite(ctx context.Context, req api.PreviewInviteRequestObject) (api.PreviewInviteResponseObject, error) {
	i, t, err := h.cfg.Directory.LookInvite(ctx, req.Body.Token)
	if err != nil {
		return nil, err
	}
	out := api.PreviewInvite200JSONResponse{Role: api.Role(i.Role), Email: i.Email, Inviter: i.CreatorName, ExpiresAt: i.ExpiresAt}
	out.Team.Name, out.Team.Slug = t.Name, t.Slug
	return out, nil
}

// AcceptInvite is open to who is not signed in: the invite itself is the right to join.
func (h Invites) AcceptInvite(ctx context.Context, req api.AcceptInviteRequestObject) (api.AcceptInviteResponseObject, error) {
	call := rest.CallOf(ctx)
	if !call.Cred.None() {
		actor, err := rest.Authenticate(ctx, h.cfg.SignIn, call.Cred)
		if err == nil {
			call.Actor = actor
			team, err := h.cfg.Directory.Join(ctx, actor, req.Body.Token)
			if err != nil {
				return nil, err
			}
			audit.InTeam(ctx, team.ID)
			audit.Target(ctx, "team", team.ID, team.Name)
			me, err := h.joined(ctx, actor)
			return api.AcceptInvite200JSONResponse{Body: me}, err
		}
		if !fault.Is(err, fault.Unauthorized) || call.Cred.Bearer != "" {
			return nil, err
		} // a cookie whose session has ended is nobody's: the browser still sends it
	}
	if req.Body.Name == nil && req.Body.Password == nil {
		return nil, rest.ErrSignedOut
	}
	user, team, err := h.cfg.Directory.SignUp(ctx, req.Body.Token, accounts.NewUser{Email: rest.Val(req.Body.Email), Name: rest.Val(req.Body.Name), Password: rest.Val(req.Body.Password)}, h.Meta(call))
	if err != nil {
		return nil, err
	}
	audit.InTeam(ctx, team.ID)
	audit.Target(ctx, "team", team.ID, team.Name)
	audit.Note(ctx, "new_user", "true")
	cookie, expires, err := h.cfg.SignIn.SignIn(ctx, signin.Request{UserID: user.ID, Factors: []string{accounts.ProofPassword}, Meta: h.Meta(call)})
	if err != nil {
		return nil, err
	}
	me, err := h.me(ctx, cookie)
	if err != nil {
		return nil, err
	}
	h.SignIn(call, cookie, expires)
	return api.AcceptInvite200JSONResponse{Body: me}, nil
}

// joined is who the actor is, now that they belong to one more team.
func (h *group) joined(ctx context.Context, was accounts.Actor) (api.Me, error) {
	now, err := h.cfg.Directory.Actor(ctx, was.User.ID)
	if err != nil {
		return api.Me{}, err
	}
	was.User, was.Memberships = now.User, now.Memberships
	return meOf(was), nil
}
