package signin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// maxPasskeys bounds the passkeys of one user.
const maxPasskeys = 20

// passkeyFor is how long a challenge can be answered.
const passkeyFor = 5 * time.Minute

// Site is where passkeys are bound to: the name of a host, and the origin of the page that asks. The zero Site has none: passkeys need
// a name (no IP address), and https or the machine itself.
type Site struct{ Host, Origin string }

func (s *Service) relyingParty(site Site) (*webauthn.WebAuthn, error) {
	if s.cfg.NoPasskeys {
		return nil, fault.New(fault.Forbidden, "passkeys_off", "This server takes no passkeys. Sign in in another way that its sign-in page offers.")
	}
	if site.Host == "" {
		return nil, fault.New(fault.Conflict, "passkeys_unavailable",
			"Passkeys need an address with a name, over https or as http://localhost. An operator sets server.publicUrl to the address people use.")
	}
	w, err := webauthn.New(&webauthn.Config{RPID: site.Host, RPDisplayName: "Parawork", RPOrigins: []string{site.Origin},
		AttestationPreference: protocol.PreferNoAttestation, // which make of device it is, is nobody's business
		Timeouts: webauthn.TimeoutsConfig{Login: webauthn.TimeoutConfig{Timeout: passkeyFor, TimeoutUVD: passkeyFor},
			Registration: webauthn.TimeoutConfig{Timeout: passkeyFor, TimeoutUVD: passkeyFor}}})
	if err != nil {
		return nil, fmt.Errorf("preparing passkeys: %w", err)
	}
	return w, nil
}

// keyOwner is a user as the library wants one.
type keyOwner struct {
	user accounts.User
	keys []webauthn.Credential
}

func (o keyOwner) WebAuthnID() []byte                         { return []byte(o.user.ID) }
func (o keyOwner) WebAuthnName() string                       { return o.user.Email }
func (o keyOwner) WebAuthnDisplayName() string                { return o.user.Name }
func (o keyOwner) WebAuthnCredentials() []webauthn.Credential { return o.keys }

// keysOf returns a user with their passkeys.
func (s *Service) keysOf(ctx context.Context, userID string) (keyOwner, []accounts.Passkey, error) {
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return keyOwner{}, nil, fmt.Errorf("reading a user: %w", err)
	}
	all, err := s.store.Passkeys(ctx, userID)
	if err != nil {
		return keyOwner{}, nil, fmt.Errorf("reading passkeys: %w", err)
	}
	o := keyOwner{user: u}
	for _, k := range all {
		var c webauthn.Credential
		if err := json.Unmarshal([]byte(k.Credential), &c); err != nil {
			return keyOwner{}, nil, fmt.Errorf("reading a passkey: %w", err)
		}
		o.keys = append(o.keys, c)
	}
	return o, all, nil
}

// ownCeremony is the value of a ceremony that belongs to a login session, which one browser holds: there is one of a kind at a time.
func ownCeremony(kind string, actor accounts.Actor) accounts.Ceremony {
	return accounts.Ceremony{Hash: password.Digest(kind + "\x00" + actor.SessionHash), Kind: kind, UserID: actor.User.ID}
}

// Kinds of ceremonies that belong to a login session.
const (
	ceremonyRegister = "passkey_register"
	ceremonyConfirm  = "passkey_confirm"
)

// beginOwn keeps a challenge for the actor's login session.
func (s *Service) beginOwn(ctx context.Context, kind string, actor accounts.Actor, challenge *webauthn.SessionData) error {
	c := ownCeremony(kind, actor)
	raw, err := json.Marshal(challenge)
	if err != nil {
		return fmt.Errorf("keeping a challenge: %w", err)
	}
	if c.Sealed, err = s.vault.Seal(sealName(c), string(raw)); err != nil {
		return err
	}
	now := s.cfg.Now()
	c.CreatedAt, c.ExpiresAt = now.UnixMilli(), now.Add(passkeyFor).UnixMilli()
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.DropCeremonies(ctx, now.UnixMilli()); err != nil {
			return err
		}
		if err := s.store.DeleteCeremony(ctx, c.Hash); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		return s.store.InsertCeremony(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("keeping a challenge: %w", err)
	}
	return nil
}

// takeOwn takes the challenge that beginOwn kept.
func (s *Service) takeOwn(ctx context.Context, kind string, actor accounts.Actor) (webauthn.SessionData, error) {
	var challenge webauthn.SessionData
	ended := fault.New(fault.Conflict, "passkey_ended", "This took too long. Try again.")
	c, err := s.store.Ceremony(ctx, ownCeremony(kind, actor).Hash)
	if fault.Is(err, fault.NotFound) {
		return challenge, ended
	}
	if err != nil {
		return challenge, fmt.Errorf("reading a challenge: %w", err)
	}
	if err := s.store.DeleteCeremony(ctx, c.Hash); fault.Is(err, fault.NotFound) {
		return challenge, ended
	} else if err != nil {
		return challenge, fmt.Errorf("taking a challenge: %w", err)
	}
	raw, err := s.vault.Unseal(sealName(c), c.Sealed)
	if err != nil || s.now() >= c.ExpiresAt {
		return challenge, ended
	}
	if err := json.Unmarshal([]byte(raw), &challenge); err != nil {
		return challenge, fmt.Errorf("reading a challenge: %w", err)
	}
	return challenge, nil
}

// PasskeyOptions begins the making of a passkey: what it returns is JSON for navigator.credentials.create. Errors: confirm_needed,
// too_many_passkeys, passkeys_off, passkeys_unavailable.
func (s *Service) PasskeyOptions(ctx context.Context, actor accounts.Actor, site Site) (json.RawMessage, error) {
	w, err := s.relyingParty(site)
	if err != nil {
		return nil, err
	}
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return nil, err
	}
	o, _, err := s.keysOf(ctx, actor.User.ID)
	if err != nil {
		return nil, err
	}
	if len(o.keys) >= maxPasskeys {
		return nil, fault.New(fault.Conflict, "too_many_passkeys", "You have %d passkeys. Remove some that you no longer use.", len(o.keys))
	}
	options, challenge, err := w.BeginRegistration(o, webauthn.WithExclusions(webauthn.Credentials(o.keys).CredentialDescriptors()),
		webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationPreferred}))
	if err != nil {
		return nil, fmt.Errorf("beginning a passkey: %w", err)
	}
	if err := s.beginOwn(ctx, ceremonyRegister, actor, challenge); err != nil {
		return nil, err
	}
	return optionsOf(options.Response)
}

func optionsOf(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("describing a challenge: %w", err)
	}
	return raw, nil
}

// AddPasskey keeps the passkey that a browser made after PasskeyOptions. Errors: passkey_ended, passkey_invalid, passkey_known.
func (s *Service) AddPasskey(ctx context.Context, actor accounts.Actor, site Site, name string, credential []byte) (accounts.Passkey, error) {
	w, err := s.relyingParty(site)
	if err != nil {
		return accounts.Passkey{}, err
	}
	if name, err = accounts.CleanName("name", name); err != nil {
		return accounts.Passkey{}, err
	}
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return accounts.Passkey{}, err
	}
	challenge, err := s.takeOwn(ctx, ceremonyRegister, actor)
	if err != nil {
		return accounts.Passkey{}, err
	}
	o, _, err := s.keysOf(ctx, actor.User.ID)
	if err != nil {
		return accounts.Passkey{}, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(credential)
	if err != nil {
		return accounts.Passkey{}, passkeyInvalid(err)
	}
	c, err := w.CreateCredential(o, challenge, parsed)
	if err != nil {
		return accounts.Passkey{}, passkeyInvalid(err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return accounts.Passkey{}, fmt.Errorf("keeping a passkey: %w", err)
	}
	k := accounts.Passkey{ID: id.New("psk"), UserID: actor.User.ID, Name: name, CredentialID: base64.RawURLEncoding.EncodeToString(c.ID), Credential: string(raw), CreatedAt: s.now()}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if ok, err := s.store.InsertPasskey(ctx, k); err != nil {
			return err
		} else if !ok {
			return fault.New(fault.Conflict, "passkey_known", "This passkey is registered already.")
		}
		if !c.Flags.UserVerified {
			return nil
		}
		return s.addProof(ctx, actor, accounts.ProofPasskey)
	})
	if err != nil {
		return accounts.Passkey{}, fmt.Errorf("keeping a passkey: %w", err)
	}
	return k, nil
}

// passkeyInvalid returns the error for the browser; the library's message goes to the log.
func passkeyInvalid(err error) error {
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.DevInfo != "" {
		err = fmt.Errorf("%w: %s", err, e.DevInfo)
	}
	return fault.Wrap(err, fault.Invalid, "passkey_invalid", "This passkey was not accepted. Try again, or sign in in another way.")
}

// RenamePasskey changes what one of the actor's passkeys is called.
func (s *Service) RenamePasskey(ctx context.Context, actor accounts.Actor, passkeyID, name string) (accounts.Passkey, error) {
	name, err := accounts.CleanName("name", name)
	if err != nil {
		return accounts.Passkey{}, err
	}
	if err := s.NoToken(actor); err != nil {
		return accounts.Passkey{}, err
	}
	if err := s.store.RenamePasskey(ctx, actor.User.ID, passkeyID, name); err != nil {
		return accounts.Passkey{}, fmt.Errorf("renaming a passkey: %w", err)
	}
	all, err := s.store.Passkeys(ctx, actor.User.ID)
	if err != nil {
		return accounts.Passkey{}, fmt.Errorf("reading passkeys: %w", err)
	}
	for _, k := range all {
		if k.ID == passkeyID {
			return k, nil
		}
	}
	return accounts.Passkey{}, fault.New(fault.NotFound, "not_found", "You have no such passkey.")
}

// RemovePasskey forgets one of the actor's passkeys. Errors: confirm_needed, last_sign_in_method.
func (s *Service) RemovePasskey(ctx context.Context, actor accounts.Actor, passkeyID string) error {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return err
	}
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.DeletePasskey(ctx, actor.User.ID, passkeyID); err != nil {
			return err
		}
		return s.lessFactors(ctx, actor)
	})
	if err != nil {
		return fmt.Errorf("removing a passkey: %w", err)
	}
	s.changed(actor.User.ID)
	return nil
}
