package signin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// LoginPasskeyOptions asks for a passkey: the second factor of the sign-in that waits, or, where none does, one that says by itself who
// signs in. What it returns is JSON for navigator.credentials.get, and what the sign-in goes on with.
func (s *Service) LoginPasskeyOptions(ctx context.Context, pending string, site Site, meta accounts.Meta) (options json.RawMessage, e Entered, err error) {
	rp, err := s.relyingParty(site)
	if err != nil {
		return nil, Entered{}, err
	}
	if err := s.limits.Ask(meta.IP); err != nil {
		return nil, Entered{}, err
	}
	var w underWay
	c, err := s.ReadCeremony(ctx, CeremonyLogin, pending, &w)
	if err != nil && fault.CodeOf(err) != "login_ended" {
		return nil, Entered{}, err
	}
	if err != nil || c.UserID == "" {
		return s.anybodysPasskey(ctx, rp)
	}
	o, _, err := s.keysOf(ctx, c.UserID)
	if err != nil {
		return nil, Entered{}, err
	}
	if len(o.keys) == 0 {
		return nil, Entered{}, fault.New(fault.Conflict, "no_passkey", "This user has no passkey. Use another way.")
	}
	// The password was shown: that somebody touches the device is the second thing, and its own check of them a third.
	asked, challenge, err := rp.BeginLogin(o, webauthn.WithUserVerification(protocol.VerificationPreferred))
	if err != nil {
		return nil, Entered{}, fmt.Errorf("asking for a passkey: %w", err)
	}
	w.Passkey = challenge
	if err := s.updateCeremony(ctx, c, w); err != nil {
		return nil, Entered{}, err
	}
	options, err = optionsOf(asked.Response)
	return options, Entered{UserID: c.UserID, Pending: pending, ExpiresAt: c.ExpiresAt}, err
}

// anybodysPasskey asks for a passkey of whoever signs in.
func (s *Service) anybodysPasskey(ctx context.Context, rp *webauthn.WebAuthn) (json.RawMessage, Entered, error) {
	asked, challenge, err := rp.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, Entered{}, fmt.Errorf("asking for a passkey: %w", err)
	}
	var e Entered
	e.Pending, e.ExpiresAt, err = s.BeginCeremony(ctx, CeremonyRequest{Kind: CeremonyLogin, Data: underWay{Passkey: challenge}, Life: passkeyFor})
	if err != nil {
		return nil, Entered{}, err
	}
	options, err := optionsOf(asked.Response)
	return options, e, err
}

// LoginByPasskey goes on with a sign-in with the passkey that LoginPasskeyOptions asked for. Errors: login_ended, passkey_invalid,
// passkey_unknown, suspended.
func (s *Service) LoginByPasskey(ctx context.Context, pending string, site Site, credential []byte, meta accounts.Meta) (Entered, error) {
	rp, err := s.relyingParty(site)
	if err != nil {
		return Entered{}, err
	}
	var w underWay
	c, err := s.ReadCeremony(ctx, CeremonyLogin, pending, &w)
	if err != nil {
		return Entered{}, err
	}
	if w.Passkey == nil {
		return Entered{}, errLoginEnded
	}
	challenge := *w.Passkey
	if w.Passkey = nil; c.UserID == "" {
		err = s.EndCeremony(ctx, c) // each challenge is answered once
	} else {
		err = s.updateCeremony(ctx, c, w)
	}
	if err != nil {
		return Entered{}, err
	}
	userID, err := s.checkPasskey(ctx, rp, challenge, c.UserID, credential)
	if err != nil {
		if c.UserID != "" && fault.KindOf(err) == fault.Invalid {
			return Entered{}, s.failLogin(ctx, c, err)
		}
		return Entered{}, err
	}
	if c.UserID != "" {
		return s.goOn(ctx, c, w, accounts.ProofPasskey, meta)
	}
	return s.Enter(ctx, Request{UserID: userID, Factors: []string{accounts.ProofPasskey}, Meta: meta})
}

// checkPasskey checks the answer to a challenge and returns whose passkey it is: the user's, or, where userID is "", anybody's.
func (s *Service) checkPasskey(ctx context.Context, rp *webauthn.WebAuthn, challenge webauthn.SessionData, userID string, credential []byte) (string, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil {
		return "", passkeyInvalid(err)
	}
	var keys []accounts.Passkey
	var used *webauthn.Credential
	if userID != "" {
		var o keyOwner
		if o, keys, err = s.keysOf(ctx, userID); err != nil {
			return "", err
		}
		used, err = rp.ValidateLogin(o, challenge, parsed)
	} else {
		var broken error
		used, err = rp.ValidateDiscoverableLogin(func(_, handle []byte) (webauthn.User, error) {
			o, own, err := s.keysOf(ctx, string(handle))
			if err != nil {
				if !fault.Is(err, fault.NotFound) {
					broken = err
				}
				return nil, err
			}
			userID, keys = o.user.ID, own
			return o, nil
		}, challenge, parsed)
		if broken != nil {
			return "", broken
		}
	}
	name := base64.RawURLEncoding.EncodeToString(parsed.RawID)
	at := slices.IndexFunc(keys, func(k accounts.Passkey) bool { return k.CredentialID == name })
	if at < 0 {
		return "", fault.New(fault.Invalid, "passkey_unknown", "This passkey is not known here: it was removed, or belongs to somebody else. Use another one, or sign in in another way.")
	}
	if err != nil {
		return "", passkeyInvalid(err)
	}
	if used.Authenticator.CloneWarning {
		return "", fault.New(fault.Invalid, "passkey_cloned", "This passkey was used from a copy of it. Sign in in another way and remove it.")
	}
	raw, err := json.Marshal(used)
	if err != nil {
		return "", fmt.Errorf("keeping a passkey: %w", err)
	}
	if err := s.store.UsePasskey(ctx, keys[at].ID, string(raw), s.now()); err != nil {
		return "", fmt.Errorf("noting the use of a passkey: %w", err)
	}
	return userID, nil
}

// ConfirmPasskeyOptions asks the actor for one of their passkeys, to prove who they are again.
func (s *Service) ConfirmPasskeyOptions(ctx context.Context, actor accounts.Actor, site Site) (json.RawMessage, error) {
	rp, err := s.relyingParty(site)
	if err != nil {
		return nil, err
	}
	if actor.SessionHash == "" {
		return nil, s.NoToken(actor)
	}
	o, _, err := s.keysOf(ctx, actor.User.ID)
	if err != nil {
		return nil, err
	}
	if len(o.keys) == 0 {
		return nil, fault.New(fault.Conflict, "no_passkey", "You have no passkey. Use another way.")
	}
	asked, challenge, err := rp.BeginLogin(o, webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, fmt.Errorf("asking for a passkey: %w", err)
	}
	if err := s.beginOwn(ctx, ceremonyConfirm, actor, challenge); err != nil {
		return nil, err
	}
	return optionsOf(asked.Response)
}

// ConfirmByPasskey notes that who the actor is was proven again, with the passkey that ConfirmPasskeyOptions asked for. Errors:
// passkey_ended, passkey_invalid.
func (s *Service) ConfirmByPasskey(ctx context.Context, actor accounts.Actor, site Site, credential []byte) error {
	rp, err := s.relyingParty(site)
	if err != nil {
		return err
	}
	if actor.SessionHash == "" {
		return s.NoToken(actor)
	}
	challenge, err := s.takeOwn(ctx, ceremonyConfirm, actor)
	if err != nil {
		return err
	}
	if _, err := s.checkPasskey(ctx, rp, challenge, actor.User.ID, credential); err != nil {
		return err
	}
	return s.addProof(ctx, actor, accounts.ProofPasskey)
}
