package people

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// enterAs gives the browser what a sign-in has come to: its session, or what it goes on with.
func (h *group) enterAs(call *rest.Call, e signin.Entered) {
	if e.Cookie == "" {
		h.SetCookie(call, rest.LoginCookie, e.Pending, time.UnixMilli(e.ExpiresAt))
		return
	}
	h.SignIn(call, e.Cookie, e.ExpiresAt)
	h.DropCookie(call, rest.LoginCookie)
	if e.Device == "" {
		return
	}
	h.SetCookie(call, rest.DeviceCookie, e.Device, h.cfg.Now().Add(signin.DeviceCookieDays*24*time.Hour))
}

func (h SigningIn) GetSignIn(ctx context.Context, _ api.GetSignInRequestObject) (api.GetSignInResponseObject, error) {
	r := rest.CallOf(ctx).Request
	return api.GetSignIn200JSONResponse{
		Password:  h.cfg.SignIn.TakesPasswords(),
		Passkeys:  h.cfg.SignIn.TakesPasskeys() && h.Site(r).Host != "",
		Providers: h.providers(),
		Mail:      h.cfg.SignIn.MailsResets(),
		Insecure:  !h.Secure(r) && !rest.LoopbackHost(r.Host),
	}, nil
}

func (h SigningIn) Login(ctx context.Context, req api.LoginRequestObject) (api.LoginResponseObject, error) {
	call := rest.CallOf(ctx)
	e, err := h.cfg.SignIn.Login(ctx, req.Body.Email, req.Body.Password, h.Meta(call))
	if err != nil {
		// Whose account was tried. What was typed is not kept: people type passwords there. Of a flood that is turned away nothing is looked up.
		if fault.Is(err, fault.RateLimited) {
			return nil, err
		}
		if u, uerr := h.cfg.Directory.UserByEmail(ctx, req.Body.Email); uerr == nil {
			audit.Target(ctx, "user", u.ID, u.Email)
		}
		return nil, err
	}
	audit.Target(ctx, "user", e.UserID, "")
	if e.Cookie == "" {
		audit.Note(ctx, "second_factor", "asked")
		audit.Called(ctx, "user.sign_in_begun")
		h.enterAs(call, e)
		return api.Login202JSONResponse(waitingOf(e)), nil
	}
	me, err := h.entered(ctx, call, e)
	return api.Login200JSONResponse(me), err
}

// entered is the answer to who has just signed in.
func (h SigningIn) entered(ctx context.Context, call *rest.Call, e signin.Entered) (api.Me, error) {
	audit.Target(ctx, "user", e.UserID, "")
	me, err := h.me(ctx, e.Cookie)
	if err == nil {
		h.enterAs(call, e)
	}
	return me, err
}

func waitingOf(e signin.Entered) api.LoginWaiting {
	return api.LoginWaiting{ExpiresAt: e.ExpiresAt, Methods: rest.List(e.Methods, func(m string) api.SignInMethod { return api.SignInMethod(m) })}
}

// pending is what the browser goes on with in a sign-in under way.
func (h SigningIn) pending(call *rest.Call) string {
	return h.ReadCookie(call.Request, rest.LoginCookie)
}

func (h SigningIn) GetLoginWaiting(ctx context.Context, _ api.GetLoginWaitingRequestObject) (api.GetLoginWaitingResponseObject, error) {
	e, err := h.cfg.SignIn.LoginWaiting(ctx, h.pending(rest.CallOf(ctx)))
	if err != nil {
		return nil, err
	}
	return api.GetLoginWaiting200JSONResponse(waitingOf(e)), nil
}

func (h SigningIn) LoginFactor(ctx context.Context, req api.LoginFactorRequestObject) (api.LoginFactorResponseObject, error) {
	call := rest.CallOf(ctx)
	audit.Note(ctx, "method", string(req.Body.Method))
	e, err := h.cfg.SignIn.LoginByCode(ctx, h.pending(call), string(req.Body.Method), req.Body.Code, h.Meta(call))
	if e.UserID != "" {
		audit.Target(ctx, "user", e.UserID, "")
	}
	if err != nil {
		return nil, err
	}
	me, err := h.entered(ctx, call, e)
	return api.LoginFactor200JSONResponse(me), err
}

func (h SigningIn) LoginPasskeyOptions(ctx context.Context, _ api.LoginPasskeyOptionsRequestObject) (api.LoginPasskeyOptionsResponseObject, error) {
	call := rest.CallOf(ctx)
	options, e, err := h.cfg.SignIn.LoginPasskeyOptions(ctx, h.pending(call), h.Site(call.Request), h.Meta(call))
	if err != nil {
		return nil, err
	}
	h.enterAs(call, e)
	return api.LoginPasskeyOptions200JSONResponse{Options: options}, nil
}

func (h SigningIn) LoginPasskey(ctx context.Context, req api.LoginPasskeyRequestObject) (api.LoginPasskeyResponseObject, error) {
	call := rest.CallOf(ctx)
	audit.Note(ctx, "method", accounts.ProofPasskey)
	e, err := h.cfg.SignIn.LoginByPasskey(ctx, h.pending(call), h.Site(call.Request), req.Body.Credential, h.Meta(call))
	if err != nil {
		return nil, err
	}
	me, err := h.entered(ctx, call, e)
	return api.LoginPasskey200JSONResponse(me), err
}

// ForgotPassword answers all alike, in words and as far as can be in time.
func (h SigningIn) ForgotPassword(ctx context.Context, req api.ForgotPasswordRequestObject) (api.ForgotPasswordResponseObject, error) {
	call := rest.CallOf(ctx)
	userID, err := h.cfg.SignIn.ForgotPassword(ctx, req.Body.Email, h.Meta(call))
	if err != nil {
		return nil, err
	}
	if userID != "" {
		audit.Target(ctx, "user", userID, "")
	}
	return api.ForgotPassword202Response{}, nil
}

func (h SigningIn) ResetPassword(ctx context.Context, req api.ResetPasswordRequestObject) (api.ResetPasswordResponseObject, error) {
	call := rest.CallOf(ctx)
	userID, err := h.cfg.SignIn.ResetByLink(ctx, req.Body.Token, req.Body.Password, rest.Val(req.Body.KeepTokens), h.Meta(call))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", userID, "")
	return api.ResetPassword204Response{}, nil
}

func (h SigningIn) ChangeMyEmail(ctx context.Context, req api.ChangeMyEmailRequestObject) (api.ChangeMyEmailResponseObject, error) {
	u, mailed, err := h.cfg.SignIn.ChangeEmail(ctx, rest.CallOf(ctx).Actor, req.Body.Email)
	if err != nil {
		return nil, err
	}
	return api.ChangeMyEmail200JSONResponse{Email: u.Email, Mailed: mailed}, nil
}

func (h SigningIn) ConfirmEmail(ctx context.Context, req api.ConfirmEmailRequestObject) (api.ConfirmEmailResponseObject, error) {
	userID, err := h.cfg.SignIn.ConfirmEmail(ctx, req.Body.Token, h.Meta(rest.CallOf(ctx)))
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "user", userID, "")
	return api.ConfirmEmail204Response{}, nil
}

func (h SigningIn) Confirm(ctx context.Context, req api.ConfirmRequestObject) (api.ConfirmResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	var err error
	switch {
	case (req.Body.Password == nil) == (req.Body.Code == nil):
		err = fault.New(fault.Invalid, "invalid_body", "Send either password or code.")
	case req.Body.Code != nil:
		err = h.cfg.SignIn.ConfirmByCode(ctx, actor, *req.Body.Code)
	default:
		err = h.cfg.SignIn.ConfirmByPassword(ctx, actor, *req.Body.Password)
	}
	if err != nil {
		return nil, err
	}
	return api.Confirm204Response{}, nil
}

func (h SigningIn) ConfirmPasskeyOptions(ctx context.Context, _ api.ConfirmPasskeyOptionsRequestObject) (api.ConfirmPasskeyOptionsResponseObject, error) {
	call := rest.CallOf(ctx)
	options, err := h.cfg.SignIn.ConfirmPasskeyOptions(ctx, call.Actor, h.Site(call.Request))
	if err != nil {
		return nil, err
	}
	return api.ConfirmPasskeyOptions200JSONResponse{Options: options}, nil
}

func (h SigningIn) ConfirmPasskey(ctx context.Context, req api.ConfirmPasskeyRequestObject) (api.ConfirmPasskeyResponseObject, error) {
	call := rest.CallOf(ctx)
	if err := h.cfg.SignIn.ConfirmByPasskey(ctx, call.Actor, h.Site(call.Request), req.Body.Credential); err != nil {
		return nil, err
	}
	return api.ConfirmPasskey204Response{}, nil
}
