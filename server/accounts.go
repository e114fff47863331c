package server

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
)

func (h handlers) GetSetup(ctx context.Context, _ api.GetSetupRequestObject) (api.GetSetupResponseObject, error) {
	needed, err := h.cfg.Accounts.SetupNeeded(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetSetup200JSONResponse{Needed: needed}, nil
}

func (h handlers) Setup(ctx context.Context, req api.SetupRequestObject) (api.SetupResponseObject, error) {
	call := callOf(ctx)
	user, _, err := h.cfg.Accounts.Setup(ctx, accounts.SetupRequest{Token: req.Body.Token, Name: req.Body.Name, Email: req.Body.Email,
		Password: req.Body.Password, Team: req.Body.Team})
	if err != nil {
		return nil, err
	}
	cookie, expires, err := h.cfg.Accounts.SignIn(ctx, accounts.SignInRequest{UserID: user.ID, Factors: []string{accounts.ProofLink}, Meta: h.meta(call)})
	if err != nil {
		return nil, err
	}
	me, err := h.me(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	h.signIn(call, cookie, expires)
	return api.Setup201JSONResponse{Body: me}, nil
}

func (h handlers) Login(ctx context.Context, req api.LoginRequestObject) (api.LoginResponseObject, error) {
	call := callOf(ctx)
	user, cookie, expires, err := h.cfg.Accounts.Login(ctx, req.Body.Email, req.Body.Password, h.meta(call))
	if err != nil {
		return nil, err
	}
	me, err := h.me(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	h.signIn(call, cookie, expires)
	return api.Login200JSONResponse{Body: me}, nil
}

func (h handlers) Logout(ctx context.Context, _ api.LogoutRequestObject) (api.LogoutResponseObject, error) {
	call := callOf(ctx)
	if call.actor.SessionHash == "" {
		return nil, fault.New(fault.Invalid, "no_session", "An API token is not signed in and cannot sign out. Delete the token to end it.")
	}
	if err := h.cfg.Accounts.Logout(ctx, call.actor.SessionHash); err != nil {
		return nil, err
	}
	h.signOut(call)
	return api.Logout204Response{}, nil
}

func (h handlers) GetMe(ctx context.Context, _ api.GetMeRequestObject) (api.GetMeResponseObject, error) {
	return api.GetMe200JSONResponse(meOf(callOf(ctx).actor)), nil
}

// me is what /me tells a user who has just signed in.
func (h handlers) me(ctx context.Context, userID string) (api.Me, error) {
	actor, err := h.cfg.Accounts.Actor(ctx, userID)
	return meOf(actor), err
}

func meOf(a accounts.Actor) api.Me {
	return api.Me{User: userOf(a.User), Teams: list(a.Memberships, teamOf),
		Limits: api.Limits{MaxInputBytes: maxInput, MaxFileBytes: maxFile, ExistingLogin: a.User.Operator}}
}

func userOf(u accounts.User) api.User {
	return api.User{Id: u.ID, Email: u.Email, Name: u.Name, Operator: u.Operator}
}

func (h handlers) ChangePassword(ctx context.Context, req api.ChangePasswordRequestObject) (api.ChangePasswordResponseObject, error) {
	if err := h.cfg.Accounts.ChangePassword(ctx, callOf(ctx).actor, req.Body.CurrentPassword, req.Body.NewPassword); err != nil {
		return nil, err
	}
	return api.ChangePassword204Response{}, nil
}

func (h handlers) ListTokens(ctx context.Context, _ api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	tokens, err := h.cfg.Accounts.Tokens(ctx, callOf(ctx).actor.User.ID)
	if err != nil {
		return nil, err
	}
	return api.ListTokens200JSONResponse{Items: list(tokens, tokenOf)}, nil
}

func (h handlers) CreateToken(ctx context.Context, req api.CreateTokenRequestObject) (api.CreateTokenResponseObject, error) {
	t, value, err := h.cfg.Accounts.CreateToken(ctx, callOf(ctx).actor.User.ID, req.Body.Name, val(req.Body.ExpiresAt))
	if err != nil {
		return nil, err
	}
	return api.CreateToken201JSONResponse{Token: tokenOf(t), Value: value}, nil
}

func (h handlers) DeleteToken(ctx context.Context, req api.DeleteTokenRequestObject) (api.DeleteTokenResponseObject, error) {
	if err := h.cfg.Accounts.DeleteToken(ctx, callOf(ctx).actor.User.ID, req.Id); err != nil {
		return nil, err
	}
	return api.DeleteToken204Response{}, nil
}

func tokenOf(t accounts.Token) api.Token {
	return api.Token{Id: t.ID, Name: t.Name, CreatedAt: t.CreatedAt, LastUsedAt: ptr(t.LastUsedAt), ExpiresAt: ptr(t.ExpiresAt)}
}
