package people

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Accounts) GetSetup(ctx context.Context, _ api.GetSetupRequestObject) (api.GetSetupResponseObject, error) {
	needed, err := h.cfg.Directory.SetupNeeded(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetSetup200JSONResponse{Needed: needed}, nil
}

func (h Accounts) Setup(ctx context.Context, req api.SetupRequestObject) (api.SetupResponseObject, error) {
	call := rest.CallOf(ctx)
	user, _, err := h.cfg.Directory.Setup(ctx, accounts.SetupRequest{Token: req.Body.Token, Name: req.Body.Name, Email: req.Body.Email,
		Password: req.Body.Password, Team: req.Body.Team})
	if err != nil {
		return nil, err
	}
	cookie, expires, err := h.cfg.SignIn.SignIn(ctx, signin.Request{UserID: user.ID, Factors: []string{accounts.ProofLink}, Meta: h.Meta(call)})
	if err != nil {
		return nil, err
	}
	me, err := h.me(ctx, cookie)
	if err != nil {
		return nil, err
	}
	h.SignIn(call, cookie, expires)
	return api.Setup201JSONResponse{Body: me}, nil
}

func (h Accounts) Logout(ctx context.Context, _ api.LogoutRequestObject) (api.LogoutResponseObject, error) {
	call := rest.CallOf(ctx)
	if call.Actor.SessionHash == "" {
		return nil, fault.New(fault.Invalid, "no_session", "An API token has no login session to sign out of. Delete the token to end it.")
	}
	if err := h.cfg.SignIn.Logout(ctx, call.Actor.SessionHash); err != nil {
		return nil, err
	}
	h.SignOut(call)
	return api.Logout204Response{}, nil
}

func (h Accounts) GetMe(ctx context.Context, _ api.GetMeRequestObject) (api.GetMeResponseObject, error) {
	return api.GetMe200JSONResponse(meOf(rest.CallOf(ctx).Actor)), nil
}

func (h Accounts) UpdateMe(ctx context.Context, req api.UpdateMeRequestObject) (api.UpdateMeResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	change := directory.UserChange{Name: req.Body.Name}
	if theme := req.Body.TerminalTheme; theme != nil {
		if !theme.Valid() {
			return nil, fault.New(fault.Invalid, "invalid_parameter", "terminal_theme must be dark or light.").With("field", "terminal_theme")
		}
		change.LightTerminal = new(*theme == api.Light)
	}
	u, err := h.cfg.Directory.UpdateUser(ctx, actor.User.ID, change)
	if err != nil {
		return nil, err
	}
	actor.User = u
	return api.UpdateMe200JSONResponse(meOf(actor)), nil
}

// me is the /me of a user who has just signed in and received this cookie.
func (h *group) me(ctx context.Context, cookie string) (api.Me, error) {
	actor, err := h.cfg.SignIn.Authenticate(ctx, cookie)
	return meOf(actor), err
}

func meOf(a accounts.Actor) api.Me {
	theme := api.Dark
	if a.User.LightTerminal {
		theme = api.Light
	}
	return api.Me{User: userOf(a.User), TerminalTheme: theme, Teams: rest.List(a.Memberships, teamOf), SecondFactor: a.SecondFactor, ConfirmedAt: rest.Ptr(a.ConfirmedAt),
		Limits: api.Limits{MaxInputBytes: rest.MaxInput, MaxFileBytes: rest.MaxFile, ExistingLogin: a.User.Operator}}
}

func userOf(u accounts.User) api.User {
	return api.User{Id: u.ID, Email: u.Email, Name: u.Name, Avatar: u.Avatar, Operator: u.Operator}
}

func (h Accounts) ChangePassword(ctx context.Context, req api.ChangePasswordRequestObject) (api.ChangePasswordResponseObject, error) {
	if err := h.cfg.SignIn.ChangePassword(ctx, rest.CallOf(ctx).Actor, rest.Val(req.Body.CurrentPassword), req.Body.NewPassword, rest.Val(req.Body.KeepTokens)); err != nil {
		return nil, err
	}
	return api.ChangePassword204Response{}, nil
}

func (h Accounts) ListTokens(ctx context.Context, _ api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	tokens, err := h.cfg.SignIn.Tokens(ctx, actor.User.ID)
	if err != nil {
		return nil, err
	}
	return api.ListTokens200JSONResponse{Items: rest.List(tokens, func(t accounts.Token) api.Token { return tokenOf(t, actor) })}, nil
}

func (h Accounts) CreateToken(ctx context.Context, req api.CreateTokenRequestObject) (api.CreateTokenResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	want := signin.TokenRequest{Name: req.Body.Name, Team: rest.Val(req.Body.Team), ExpiresAt: rest.Val(req.Body.ExpiresAt)}
	for _, sc := range rest.Val(req.Body.Scopes) {
		want.Scopes = append(want.Scopes, accounts.Scope(sc))
	}
	t, value, err := h.cfg.SignIn.IssueToken(ctx, actor, want)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "token", t.ID, t.Name)
	return api.CreateToken201JSONResponse{Token: tokenOf(t, actor), Value: value}, nil
}

func (h Accounts) DeleteToken(ctx context.Context, req api.DeleteTokenRequestObject) (api.DeleteTokenResponseObject, error) {
	if err := h.cfg.SignIn.DeleteToken(ctx, rest.CallOf(ctx).Actor.User.ID, req.Id); err != nil {
		return nil, err
	}
	return api.DeleteToken204Response{}, nil
}

func tokenOf(t accounts.Token, actor accounts.Actor) api.Token {
	out := api.Token{Id: t.ID, Name: t.Name, CreatedAt: t.CreatedAt, LastUsedAt: rest.Ptr(t.LastUsedAt), ExpiresAt: rest.Ptr(t.ExpiresAt), LastUsedIp: rest.Text(t.LastUsedIP), ClientId: rest.Text(t.ClientID)}
	if t.Scopes != nil {
		scopes := rest.List(t.Scopes, func(sc accounts.Scope) api.Scope { return api.Scope(sc) })
		out.Scopes = &scopes
	}
	switch {
	case t.ParentID != "":
		out.Parent = &api.TokenParent{Kind: api.TokenParentKindToken, Id: t.ParentID, Name: t.ParentName}
	case t.SessionID != "":
		out.Parent = &api.TokenParent{Kind: api.TokenParentKindSession, Id: t.SessionID, Name: t.SessionName}
	}
	if t.TeamID != "" {
		slug := "" // of a team the user has left: the token reaches nothing
		for _, m := range actor.Memberships {
			if m.Team.ID == t.TeamID {
				slug = m.Team.Slug
			}
		}
		out.Team = &slug
	}
	return out
}
