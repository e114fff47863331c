package signin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Request asks for a login session. The caller has authenticated the user with the named factors.
type Request struct {
	UserID   string
	Factors  []string // Proof..., at least one
	Provider string   // that vouched, "" = none
	Meta     accounts.Meta

	// shown is what shownPassword says of the user whose password was shown, "" = none was. A password that was changed meanwhile signs
	// nobody in.
	shown string
}

// SignIn begins a login session: every way of signing in ends here. It returns the cookie's value, of which only a hash is stored,
// and when the session ends at the latest (ms UTC). Errors: suspended.
func (s *Service) SignIn(ctx context.Context, req Request) (cookie string, expiresAt int64, err error) {
	if len(req.Factors) == 0 {
		return "", 0, fault.New(fault.Internal, "internal", "A login session needs a user who was authenticated.")
	}
	cookie, err = password.NewSecret(s.cfg.Rand, 32)
	if err != nil {
		return "", 0, err
	}
	now := s.cfg.Now()
	l := accounts.LoginSession{Hash: password.Digest(cookie), ID: id.New("lgs"), UserID: req.UserID, CreatedAt: now.UnixMilli(), SeenAt: now.UnixMilli(),
		ExpiresAt: now.Add(s.cfg.Absolute).UnixMilli(), UserAgent: accounts.Clip(req.Meta.UserAgent, 300), IP: accounts.Clip(req.Meta.IP, 64),
		Factors: req.Factors, Provider: req.Provider, ConfirmedAt: now.UnixMilli()}
	err = s.store.Tx(ctx, func(ctx context.Context) error { // so that a suspension that comes now finds the session and ends it
		u, err := s.store.UserByID(ctx, req.UserID)
		if err != nil {
			return err
		}
		if u.SuspendedAt != 0 {
			return accounts.ErrSuspended
		}
		if req.shown != "" && req.shown != shownPassword(u) {
			return errWrongCredentials
		}
		if err := s.store.DropSessions(ctx, now.UnixMilli(), now.Add(-s.cfg.Idle).UnixMilli()); err != nil {
			return err
		}
		return s.store.InsertSession(ctx, l)
	})
	if err != nil {
		return "", 0, fmt.Errorf("starting a login session: %w", err)
	}
	return cookie, l.ExpiresAt, nil
}

// shownPassword is what a sign-in remembers of the password it began with.
func shownPassword(u accounts.User) string { return password.Digest(u.PasswordHash) }

var errWrongCredentials = fault.New(fault.Unauthorized, "wrong_credentials", "The e-mail address or the password is wrong.")

// strong reports whether these proofs are more than a password: two of them, or one that holds two in itself.
func strong(factors []string) bool {
	for _, f := range []string{accounts.ProofTOTP, accounts.ProofRecovery, accounts.ProofPasskey, accounts.ProofSSOMFA} {
		if slices.Contains(factors, f) {
			return true
		}
	}
	return false
}

// LoginSessions returns the login sessions of the actor that have not ended, the latest used first.
func (s *Service) LoginSessions(ctx context.Context, actor accounts.Actor) ([]accounts.LoginSession, error) {
	now := s.cfg.Now()
	return s.store.Sessions(ctx, actor.User.ID, now.UnixMilli(), now.Add(-s.cfg.Idle).UnixMilli())
}

// EndSession ends one of the actor's login sessions, and the API tokens that were made in it unless they are to be kept; one that is not
// there, or not theirs, is a fault.NotFound.
func (s *Service) EndSession(ctx context.Context, actor accounts.Actor, sessionID string, keepTokens bool) error {
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.EndSession(ctx, actor.User.ID, sessionID); err != nil || keepTokens {
			return err
		}
		return s.store.DeleteTokens(ctx, actor.User.ID, sessionID)
	})
	if err != nil {
		return fmt.Errorf("ending a login session: %w", err)
	}
	s.changed(actor.User.ID)
	return nil
}

// EndOtherSessions ends all of the actor's login sessions but the one they ask with, and their API tokens unless they are to be kept.
func (s *Service) EndOtherSessions(ctx context.Context, actor accounts.Actor, keepTokens bool) error {
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		return s.endSessions(ctx, actor.User.ID, actor.SessionHash, keepTokens)
	})
	if err != nil {
		return fmt.Errorf("ending login sessions: %w", err)
	}
	s.changed(actor.User.ID)
	return nil
}

// BrowserOf names the browser and system of a User-Agent header, for people to tell their login sessions apart: "Firefox on Linux".
func BrowserOf(userAgent string) string {
	has := func(s string) bool { return strings.Contains(userAgent, s) }
	name := ""
	for _, b := range [][2]string{{"Edg", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"}, {"CriOS/", "Chrome"}, {"Chromium/", "Chromium"},
		{"HeadlessChrome/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"}} {
		if has(b[0]) {
			name = b[1]
			break
		}
	}
	system := ""
	for _, o := range [][2]string{{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"}} {
		if has(o[0]) {
			system = o[1]
			break
		}
	}
	switch {
	case name == "" && system == "":
		return "Unknown browser"
	case name == "":
		return "Browser on " + system
	case system == "":
		return name
	}
	return name + " on " + system
}
