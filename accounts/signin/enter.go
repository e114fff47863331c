package signin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
)

// loginFor is how long somebody has to show a second factor, and how many wrong ones they may show in that time.
const (
	loginFor      = 10 * time.Minute
	loginFailures = 5
)

var errLoginEnded = fault.New(fault.Unauthorized, "login_ended", "This sign-in took too long or was finished already. Begin again.")

// CeremonyLogin is the kind of a sign-in that waits for a second factor or a passkey.
const CeremonyLogin = "login"

// underWay is what a sign-in that waits has shown so far.
type underWay struct {
	Factors  []string              `json:"factors,omitempty"`
	Provider string                `json:"provider,omitempty"`
	Shown    string                `json:"shown,omitempty"`   // see Request
	Passkey  *webauthn.SessionData `json:"passkey,omitempty"` // the challenge of one, when it was asked for
}

// Entered is where a sign-in stands: done, or waiting for a second factor.
type Entered struct {
	UserID    string
	Cookie    string // of the login session; "" = it waits
	ExpiresAt int64  // of the login session, or until when it waits
	Device    string // for the browser to show at its next sign-in: see Meta.Device
	Pending   string // what it goes on with
	Methods   []string
}

// Enter signs in a user who was authenticated. If the user has a second factor that was not used, Enter asks for it first.
func (s *Service) Enter(ctx context.Context, req Request) (Entered, error) {
	if !strong(req.Factors) {
		methods, err := s.methods(ctx, req.UserID)
		if err != nil {
			return Entered{}, err
		}
		if len(methods) > 0 {
			u, err := s.store.UserByID(ctx, req.UserID)
			if err != nil {
				return Entered{}, fmt.Errorf("reading a user: %w", err)
			}
			if u.SuspendedAt != 0 {
				return Entered{}, accounts.ErrSuspended
			}
			e := Entered{UserID: req.UserID, Methods: methods}
			e.Pending, e.ExpiresAt, err = s.BeginCeremony(ctx, CeremonyRequest{Kind: CeremonyLogin, UserID: req.UserID,
				Data: underWay{Factors: req.Factors, Provider: req.Provider, Shown: req.shown}, Life: loginFor})
			return e, err
		}
	}
	e := Entered{UserID: req.UserID}
	var err error
	if e.Cookie, e.ExpiresAt, err = s.SignIn(ctx, req); err != nil {
		return Entered{}, err
	}
	u, err := s.store.UserByID(ctx, req.UserID)
	if err != nil {
		return Entered{}, fmt.Errorf("reading a user: %w", err)
	}
	if e.Device, err = s.devices.cookie(u.Email); errors.Is(err, vault.ErrNoKey) {
		err = nil // only servers have the key, and only browsers need this
	}
	return e, err
}

// methods are the ways by which a user can show a second factor; none where they have none.
func (s *Service) methods(ctx context.Context, userID string) ([]string, error) {
	f, err := s.store.Factors(ctx, userID)
	if err != nil {
		return nil, fmt.Errorf("reading a user's factors: %w", err)
	}
	var out []string
	if f.TOTP {
		out = append(out, accounts.ProofTOTP)
	}
	if f.Passkeys > 0 {
		out = append(out, accounts.ProofPasskey)
	}
	if len(out) > 0 && f.RecoveryCodes > 0 {
		out = append(out, accounts.ProofRecovery)
	}
	return out, nil
}

// LoginWaiting tells what a sign-in waits for. Errors: login_ended.
func (s *Service) LoginWaiting(ctx context.Context, pending string) (Entered, error) {
	c, err := s.ReadCeremony(ctx, CeremonyLogin, pending, nil)
	if err != nil {
		return Entered{}, err
	}
	if c.UserID == "" {
		return Entered{}, errLoginEnded
	}
	e := Entered{UserID: c.UserID, Pending: pending, ExpiresAt: c.ExpiresAt}
	e.Methods, err = s.methods(ctx, c.UserID)
	return e, err
}

// LoginByCode goes on with a sign-in that waits, with a code of the authenticator app or a recovery code: method is ProofTOTP or
// ProofRecovery. Errors: login_ended, wrong_code, too_many_attempts, suspended.
func (s *Service) LoginByCode(ctx context.Context, pending, method, code string, meta accounts.Meta) (Entered, error) {
	var w underWay
	c, err := s.ReadCeremony(ctx, CeremonyLogin, pending, &w)
	if err != nil {
		return Entered{}, err
	}
	if c.UserID == "" {
		return Entered{}, errLoginEnded
	}
	u, err := s.store.UserByID(ctx, c.UserID)
	if err != nil {
		return Entered{}, fmt.Errorf("reading a user: %w", err)
	}
	take := s.takeCode
	switch method {
	case accounts.ProofTOTP:
	case accounts.ProofRecovery:
		take = s.takeRecovery
	default:
		return Entered{}, fault.New(fault.Invalid, "invalid_method", "The method is totp or recovery_code.").With("field", "method")
	}
	if err := take(ctx, c.UserID, code, password.From{IP: meta.IP, Device: s.devices.of(u.Email, meta.Device)}); err != nil {
		if fault.CodeOf(err) == "wrong_code" {
			return Entered{}, s.failLogin(ctx, c, err)
		}
		return Entered{}, err
	}
	return s.goOn(ctx, c, w, method, meta)
}

// failLogin counts a wrong factor; too many end the sign-in, and the password has to be shown again.
func (s *Service) failLogin(ctx context.Context, c accounts.Ceremony, cause error) error {
	n, err := s.store.FailCeremony(ctx, c.Hash)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("counting a wrong code: %w", err)
	}
	if n >= loginFailures {
		if err := s.EndCeremony(ctx, c); err != nil {
			return err
		}
		return errLoginEnded
	}
	return cause
}

// goOn ends a sign-in that waited and signs in.
func (s *Service) goOn(ctx context.Context, c accounts.Ceremony, w underWay, proof string, meta accounts.Meta) (Entered, error) {
	if err := s.EndCeremony(ctx, c); err != nil { // once only, whoever else shows a right code now
		return Entered{}, err
	}
	return s.Enter(ctx, Request{UserID: c.UserID, Factors: append(w.Factors, proof), Provider: w.Provider, Meta: meta, shown: w.Shown})
}
