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

func (h MySignIn) GetMySignIn(ctx context.Context, _ api.GetMySignInRequestObject) (api.GetMySignInResponseObject, error) {
	w, err := h.cfg.SignIn.WaysIn(ctx, rest.CallOf(ctx).Actor)
	if err != nil {
		return nil, err
	}
	ids, err := h.identities(ctx, rest.CallOf(ctx).Actor.User.ID)
	if err != nil {
		return nil, err
	}
	return api.GetMySignIn200JSONResponse{HasPassword: w.HasPassword, RecoveryCodesLeft: w.RecoveryCodes,
		Totp: api.TotpState{Enabled: w.TOTP.ConfirmedAt != 0, ConfirmedAt: rest.Ptr(w.TOTP.ConfirmedAt)}, Passkeys: rest.List(w.Passkeys, passkeyOf), Identities: ids}, nil
}

func passkeyOf(k accounts.Passkey) api.Passkey {
	return api.Passkey{Id: k.ID, Name: k.Name, CreatedAt: k.CreatedAt, LastUsedAt: rest.Ptr(k.LastUsedAt)}
}

func (h MySignIn) BeginTotp(ctx context.Context, _ api.BeginTotpRequestObject) (api.BeginTotpResponseObject, error) {
	secret, uri, err := h.cfg.SignIn.BeginTOTP(ctx, rest.CallOf(ctx).Actor)
	if err != nil {
		return nil, err
	}
	return api.BeginTotp200JSONResponse{Secret: secret, Uri: uri}, nil
}

func (h MySignIn) ConfirmTotp(ctx context.Context, req api.ConfirmTotpRequestObject) (api.ConfirmTotpResponseObject, error) {
	codes, err := h.cfg.SignIn.ConfirmTOTP(ctx, rest.CallOf(ctx).Actor, req.Body.Code)
	if err != nil {
		return nil, err
	}
	return api.ConfirmTotp200JSONResponse{RecoveryCodes: codes}, nil
}

func (h MySignIn) RemoveTotp(ctx context.Context, _ api.RemoveTotpRequestObject) (api.RemoveTotpResponseObject, error) {
	if err := h.cfg.SignIn.RemoveTOTP(ctx, rest.CallOf(ctx).Actor); err != nil {
		return nil, err
	}
	return api.RemoveTotp204Response{}, nil
}

func (h MySignIn) RenewRecoveryCodes(ctx context.Context, _ api.RenewRecoveryCodesRequestObject) (api.RenewRecoveryCodesResponseObject, error) {
	codes, err := h.cfg.SignIn.RenewRecoveryCodes(ctx, rest.CallOf(ctx).Actor)
	if err != nil {
		return nil, err
	}
	return api.RenewRecoveryCodes200JSONResponse{RecoveryCodes: codes}, nil
}

func (h MySignIn) PasskeyOptions(ctx context.Context, _ api.PasskeyOptionsRequestObject) (api.PasskeyOptionsResponseObject, error) {
	call := rest.CallOf(ctx)
	options, err := h.cfg.SignIn.PasskeyOptions(ctx, call.Actor, h.Site(call.Request))
	if err != nil {
		return nil, err
	}
	return api.PasskeyOptions200JSONResponse{Options: options}, nil
}

func (h MySignIn) AddPasskey(ctx context.Context, req api.AddPasskeyRequestObject) (api.AddPasskeyResponseObject, error) {
	call := rest.CallOf(ctx)
	k, err := h.cfg.SignIn.AddPasskey(ctx, call.Actor, h.Site(call.Request), req.Body.Name, req.Body.Credential)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "passkey", k.ID, k.Name)
	return api.AddPasskey201JSONResponse(passkeyOf(k)), nil
}

func (h MySignIn) RenamePasskey(ctx context.Context, req api.RenamePasskeyRequestObject) (api.RenamePasskeyResponseObject, error) {
	if !rest.PlainID(req.Id) {
		return nil, rest.ErrNotFound
	}
	k, err := h.cfg.SignIn.RenamePasskey(ctx, rest.CallOf(ctx).Actor, req.Id, req.Body.Name)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "passkey", k.ID, k.Name)
	return api.RenamePasskey200JSONResponse(passkeyOf(k)), nil
}

func (h MySignIn) RemovePasskey(ctx context.Context, req api.RemovePasskeyRequestObject) (api.RemovePasskeyResponseObject, error) {
	if !rest.PlainID(req.Id) {
		return nil, rest.ErrNotFound
	}
	audit.Target(ctx, "passkey", req.Id, "")
	if err := h.cfg.SignIn.RemovePasskey(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	return api.RemovePasskey204Response{}, nil
}

func (h MySignIn) ListLoginSessions(ctx context.Context, _ api.ListLoginSessionsRequestObject) (api.ListLoginSessionsResponseObject, error) {
	actor := rest.CallOf(ctx).Actor
	all, err := h.cfg.SignIn.LoginSessions(ctx, actor)
	if err != nil {
		return nil, err
	}
	return api.ListLoginSessions200JSONResponse{Items: rest.List(all, func(l accounts.LoginSession) api.LoginSession {
		return api.LoginSession{Id: l.ID, Current: l.ID == actor.SessionID, Ip: l.IP, UserAgent: l.UserAgent, Browser: signin.BrowserOf(l.UserAgent),
			Factors: l.Factors, Provider: rest.Text(l.Provider), CreatedAt: l.CreatedAt, SeenAt: l.SeenAt, ExpiresAt: l.ExpiresAt}
	})}, nil
}

func (h MySignIn) EndLoginSession(ctx context.Context, req api.EndLoginSessionRequestObject) (api.EndLoginSessionResponseObject, error) {
	call := rest.CallOf(ctx)
	if !rest.PlainID(req.Id) {
		return nil, rest.ErrNotFound
	}
	audit.Target(ctx, "login_session", req.Id, "")
	if err := h.cfg.SignIn.EndSession(ctx, call.Actor, req.Id, rest.Val(req.Params.KeepTokens)); err != nil {
		return nil, err
	}
	if req.Id == call.Actor.SessionID {
		h.SignOut(call)
	}
	return api.EndLoginSession204Response{}, nil
}

func (h MySignIn) EndOtherLoginSessions(ctx context.Context, req api.EndOtherLoginSessionsRequestObject) (api.EndOtherLoginSessionsResponseObject, error) {
	call := rest.CallOf(ctx)
	if call.Actor.SessionHash == "" {
		return nil, fault.New(fault.Invalid, "no_session", "An API token has no login session that could be kept. End sessions one by one, or in the web app.")
	}
	if err := h.cfg.SignIn.EndOtherSessions(ctx, call.Actor, keepsTokens(req.Body)); err != nil {
		return nil, err
	}
	return api.EndOtherLoginSessions204Response{}, nil
}

// keepsTokens reports whether a request that ends sign-ins says that API tokens stay.
func keepsTokens(b *api.KeepTokens) bool { return b != nil && rest.Val(b.KeepTokens) }
