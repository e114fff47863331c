package people

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func instanceUserOf(i accounts.UserInfo) api.InstanceUser {
	out := api.InstanceUser{Id: i.User.ID, Email: i.User.Email, EmailVerified: !i.User.EmailUnverified, Name: i.User.Name, Operator: i.User.Operator, SuspendedAt: rest.Ptr(i.User.SuspendedAt), CreatedAt: i.User.CreatedAt,
		LastSeenAt: rest.Ptr(i.LastSeenAt), SecondFactor: i.SecondFactor, HasPassword: i.HasPassword}
	out.Teams = make([]struct {
		Id   string   `json:"id"`
		Name string   `json:"name"`
		Role api.Role `json:"role"`
		Slug string   `json:"slug"`
	}, len(i.Memberships))
	for n, m := range i.Memberships {
		t := &out.Teams[n]
		t.Id, t.Name, t.Role, t.Slug = m.Team.ID, m.Team.Name, api.Role(m.Role), m.Team.Slug
	}
	return out
}

func instanceTeamOf(i accounts.TeamInfo) api.InstanceTeam {
	t := i.Team
	return api.InstanceTeam{Id: t.ID, Slug: t.Slug, Name: t.Name, CreatedAt: t.CreatedAt, SuspendedAt: rest.Ptr(t.SuspendedAt), SecondFactor: t.SecondFactor, Members: i.Members,
		Owners: rest.List(i.Owners, func(u accounts.User) api.Person { return api.Person{Id: u.ID, Name: u.Name} }), Workspaces: i.Workspaces, Sandboxes: i.Sandboxes}
}

// userInfo reads a user anew, as operators see them.
func (h Operators) userInfo(ctx context.Context, userID string) (api.InstanceUser, error) {
	i, err := h.cfg.Directory.UserInfo(ctx, userID)
	if err != nil {
		return api.InstanceUser{}, err
	}
	return instanceUserOf(i), nil
}

func (h Operators) teamInfo(ctx context.Context, teamID string) (api.InstanceTeam, error) {
	i, err := h.cfg.Directory.TeamInfo(ctx, teamID)
	if err != nil {
		return api.InstanceTeam{}, err
	}
	return instanceTeamOf(i), nil
}

func (h Operators) ListUsers(ctx context.Context, req api.ListUsersRequestObject) (api.ListUsersResponseObject, error) {
	all, next, err := h.cfg.Directory.Users(ctx, rest.Val(req.Params.Q), rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	return api.ListUsers200JSONResponse{Items: rest.List(all, instanceUserOf), NextCursor: rest.Text(next)}, nil
}

func (h Operators) GetUser(ctx context.Context, req api.GetUserRequestObject) (api.GetUserResponseObject, error) {
	u, err := h.userInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetUser200JSONResponse(u), nil
}

func (h Operators) CreateUser(ctx context.Context, req api.CreateUserRequestObject) (api.CreateUserResponseObject, error) {
	if rest.Val(req.Body.Operator) {
		if err := h.cfg.SignIn.NeedConfirmed(rest.CallOf(ctx).Actor); err != nil {
			return nil, err
		}
	}
	role := accounts.Role("")
	if req.Body.Role != nil {
		role = accounts.Role(*req.Body.Role)
	}
	u, err := h.cfg.Directory.InviteUser(ctx, accounts.NewUser{Email: req.Body.Email, Name: req.Body.Name, Operator: rest.Val(req.Body.Operator)}, rest.Val(req.Body.Team), role)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", u.ID, u.Email)
	audit.Note(ctx, "operator", strconv.FormatBool(u.Operator))
	audit.Note(ctx, "team", rest.Val(req.Body.Team))
	audit.Note(ctx, "role", string(role))
	link, err := h.resetLink(ctx, u.ID, true)
	if err != nil {
		return nil, err
	}
	info, err := h.userInfo(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	return api.CreateUser201JSONResponse{User: info, Link: link}, nil
}

// resetLink makes a link by which a user chooses a password.
func (h Operators) resetLink(ctx context.Context, userID string, fresh bool) (api.ResetLink, error) {
	call := rest.CallOf(ctx)
	token, expires, mailed, err := h.cfg.SignIn.ResetLink(ctx, call.Actor.User.ID, userID, fresh)
	if err != nil {
		return api.ResetLink{}, err
	}
	return api.ResetLink{Url: accounts.Link(h.Here(call.Request), "reset", token), ExpiresAt: expires, Mailed: mailed}, nil
}

func (h Operators) UpdateUser(ctx context.Context, req api.UpdateUserRequestObject) (api.UpdateUserResponseObject, error) {
	if req.Body.Email != nil || req.Body.Operator != nil { // links to set a password go to the address
		if err := h.cfg.SignIn.MayChangeSignInOf(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
			return nil, err
		}
	}
	_, err := h.cfg.Directory.UpdateUser(ctx, req.Id, directory.UserChange{Name: req.Body.Name, Email: req.Body.Email, Operator: req.Body.Operator})
	if err != nil {
		return nil, err
	}
	u, err := h.userInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", u.Id, u.Email)
	if req.Body.Operator != nil {
		audit.Note(ctx, "operator", strconv.FormatBool(*req.Body.Operator))
	}
	audit.Note(ctx, "email", rest.Val(req.Body.Email))
	return api.UpdateUser200JSONResponse(u), nil
}

func (h Operators) SuspendUser(ctx context.Context, req api.SuspendUserRequestObject) (api.SuspendUserResponseObject, error) {
	if _, err := h.cfg.Directory.SuspendUser(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	u, err := h.userInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", u.Id, u.Email)
	return api.SuspendUser200JSONResponse(u), nil
}

func (h Operators) RestoreUser(ctx context.Context, req api.RestoreUserRequestObject) (api.RestoreUserResponseObject, error) {
	if _, err := h.cfg.Directory.RestoreUser(ctx, req.Id); err != nil {
		return nil, err
	}
	u, err := h.userInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", u.Id, u.Email)
	return api.RestoreUser200JSONResponse(u), nil
}

func (h Operators) CreateResetLink(ctx context.Context, req api.CreateResetLinkRequestObject) (api.CreateResetLinkResponseObject, error) {
	if err := h.cfg.SignIn.MayChangeSignInOf(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	link, err := h.resetLink(ctx, req.Id, false)
	if err != nil {
		return nil, err
	}
	return api.CreateResetLink200JSONResponse(link), nil
}

func (h Operators) ResetFactors(ctx context.Context, req api.ResetFactorsRequestObject) (api.ResetFactorsResponseObject, error) {
	if err := h.cfg.SignIn.MayChangeSignInOf(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	if _, err := h.cfg.SignIn.ResetFactors(ctx, req.Id, keepsTokens(req.Body)); err != nil {
		return nil, err
	}
	u, err := h.userInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", u.Id, u.Email)
	return api.ResetFactors200JSONResponse(u), nil
}

func (h Operators) ListInstanceTeams(ctx context.Context, req api.ListInstanceTeamsRequestObject) (api.ListInstanceTeamsResponseObject, error) {
	all, next, err := h.cfg.Directory.Teams(ctx, rest.Val(req.Params.Q), rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	return api.ListInstanceTeams200JSONResponse{Items: rest.List(all, instanceTeamOf), NextCursor: rest.Text(next)}, nil
}

func (h Operators) CreateInstanceTeam(ctx context.Context, req api.CreateInstanceTeamRequestObject) (api.CreateInstanceTeamResponseObject, error) {
	owner := rest.Val(req.Body.Owner)
	if owner == "" {
		owner = rest.CallOf(ctx).Actor.User.Email
	}
	t, err := h.cfg.Directory.CreateTeamFor(ctx, owner, req.Body.Name, rest.Val(req.Body.Slug))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.ID, t.Name)
	audit.Note(ctx, "owner", owner)
	info, err := h.teamInfo(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	return api.CreateInstanceTeam201JSONResponse(info), nil
}

func (h Operators) SuspendTeam(ctx context.Context, req api.SuspendTeamRequestObject) (api.SuspendTeamResponseObject, error) {
	if _, err := h.cfg.Directory.SuspendTeam(ctx, req.Id); err != nil {
		return nil, err
	}
	t, err := h.teamInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.Id, t.Name)
	return api.SuspendTeam200JSONResponse(t), nil
}

func (h Operators) RestoreTeam(ctx context.Context, req api.RestoreTeamRequestObject) (api.RestoreTeamResponseObject, error) {
	if _, err := h.cfg.Directory.RestoreTeam(ctx, req.Id); err != nil {
		return nil, err
	}
	t, err := h.teamInfo(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "team", t.Id, t.Name)
	return api.RestoreTeam200JSONResponse(t), nil
}
