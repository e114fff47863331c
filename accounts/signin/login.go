package signin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// touchEvery bounds how often using a session or a token is written down.
const touchEvery = time.Minute

// TakesPasswords and TakesPasskeys say which ways to sign in are not switched off.
func (s *Service) TakesPasswords() bool { return !s.cfg.NoPassword }

// TakesPasskeys: see TakesPasswords.
func (s *Service) TakesPasskeys() bool { return !s.cfg.NoPasskeys }

// Login checks an e-mail address and a password. Without a second factor it signs in; else it returns which factors are needed, and the
// sign-in continues with LoginByCode or LoginByPasskey. Neither the error nor the time it takes reveals whether the address or the password was wrong.
// Errors: wrong_credentials, too_many_attempts, suspended, password_off.
func (s *Service) Login(ctx context.Context, email, pass string, meta accounts.Meta) (Entered, error) {
	if s.cfg.NoPassword {
		return Entered{}, password.ErrOff
	}
	account := strings.ToLower(strings.TrimSpace(email))
	if len(account) > 254 {
		account = account[:254]
	}
	from := password.From{IP: meta.IP, Device: s.devices.of(account, meta.Device)}
	if err := s.limits.BeginFrom(account, from); err != nil {
		return Entered{}, err
	}
	u, err := s.verify(ctx, account, pass)
	if err != nil {
		return Entered{}, err
	}
	s.limits.SucceededFrom(account, from)
	return s.Enter(ctx, Request{UserID: u.ID, Factors: []string{accounts.ProofPassword}, Meta: meta, shown: shownPassword(u)})
}

// verify returns the user whose address and password these are.
func (s *Service) verify(ctx context.Context, email, pass string) (accounts.User, error) {
	u, err := accounts.User{}, error(nil)
	if clean, bad := accounts.CleanEmail(email); bad == nil {
		u, err = s.store.UserByEmail(ctx, clean)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return accounts.User{}, fmt.Errorf("reading a user: %w", err)
	}
	ok, stale, err := s.hasher.Check(ctx, u.PasswordHash, pass)
	if err != nil {
		return accounts.User{}, fmt.Errorf("checking a password: %w", err)
	}
	if !ok || u.ID == "" {
		return accounts.User{}, errWrongCredentials
	}
	if stale {
		if hash, err := s.hasher.Hash(ctx, pass); err == nil {
			if u, err = s.renewHash(ctx, u, hash); err != nil {
				return accounts.User{}, fmt.Errorf("storing a newer password hash: %w", err)
			}
		}
	}
	return u, nil
}

// renewHash gives u another hash of the same password, unless it was changed meanwhile: the old one must not come back.
func (s *Service) renewHash(ctx context.Context, u accounts.User, hash string) (accounts.User, error) {
	after := u
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		now, err := s.store.UserByID(ctx, u.ID)
		if err != nil || now.PasswordHash != u.PasswordHash {
			after = u
			return err
		}
		after.PasswordHash = hash
		return s.store.SetPasswordHash(ctx, u.ID, hash)
	})
	return after, err
}

// Logout ends the login session with this hash (Actor.SessionHash). One that has ended is no error.
func (s *Service) Logout(ctx context.Context, sessionHash string) error {
	l, err := s.store.Session(ctx, sessionHash)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a login session: %w", err)
	}
	if err := s.store.DeleteSession(ctx, sessionHash); err != nil {
		return fmt.Errorf("ending a login session: %w", err)
	}
	s.changed(l.UserID)
	return nil
}

var errSignedOut = fault.New(fault.Unauthorized, "signed_out", "You are not signed in, or your session has ended. Sign in again.")

// Authenticate returns whose cookie this is; fault.Unauthorized when it is nobody's or has run out.
func (s *Service) Authenticate(ctx context.Context, cookie string) (accounts.Actor, error) {
	if len(cookie) == 0 || len(cookie) > 256 {
		return accounts.Actor{}, errSignedOut
	}
	hash := password.Digest(cookie)
	l, err := s.store.Session(ctx, hash)
	if fault.Is(err, fault.NotFound) {
		return accounts.Actor{}, errSignedOut
	}
	if err != nil {
		return accounts.Actor{}, fmt.Errorf("reading a login session: %w", err)
	}
	now := s.now()
	if now >= l.ExpiresAt || now >= l.SeenAt+s.cfg.Idle.Milliseconds() {
		return accounts.Actor{}, errSignedOut
	}
	a, err := s.directory.Actor(ctx, l.UserID)
	if err != nil {
		return accounts.Actor{}, err
	}
	if a.User.SuspendedAt != 0 {
		return accounts.Actor{}, accounts.ErrSuspended
	}
	a.SessionHash, a.SessionID, a.ConfirmedAt, a.SecondFactor = hash, l.ID, l.ConfirmedAt, strong(l.Factors)
	if now-l.SeenAt >= touchEvery.Milliseconds() {
		if err := s.store.TouchSession(ctx, hash, now); err != nil {
			return accounts.Actor{}, fmt.Errorf("touching a login session: %w", err)
		}
	}
	return a, nil
}

// ChangePassword sets the actor's password and ends all of the actor's other login sessions, and their API tokens unless they are to be
// kept. Who has none yet confirms who they are instead of naming it. Errors: wrong_password, weak_password, too_many_attempts, confirm_needed, token_not_allowed, password_off.
func (s *Service) ChangePassword(ctx context.Context, actor accounts.Actor, current, next string, keepTokens bool) error {
	if s.cfg.NoPassword {
		return password.ErrOff
	}
	if actor.TokenID != "" {
		return fault.New(fault.Forbidden, "token_not_allowed", "A password is changed in the web app, not with an API token.")
	}
	u, err := s.store.UserByID(ctx, actor.User.ID)
	if err != nil {
		return fmt.Errorf("reading a user: %w", err)
	}
	if hasPassword(u) {
		err = s.checkOwnPassword(ctx, actor, "current_password", current)
	} else {
		err = s.MayChangeFactors(ctx, actor) // the first one: there is none to ask for
	}
	if err != nil {
		return err
	}
	if err := s.checkPasswordOf(ctx, u, next); err != nil {
		return err
	}
	return s.setPassword(ctx, actor.User.ID, next, actor.SessionHash, keepTokens)
}

// ResetPassword sets a user's password and ends all of the user's login sessions, and their API tokens unless they are to be kept. For
// the command line.
func (s *Service) ResetPassword(ctx context.Context, userID, next string, keepTokens bool) error {
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return err
	}
	if err := s.checkPasswordOf(ctx, u, next); err != nil {
		return err
	}
	return s.setPassword(ctx, userID, next, "", keepTokens)
}

// checkPasswordOf is password.CheckNew for a user there is.
func (s *Service) checkPasswordOf(ctx context.Context, u accounts.User, next string) error {
	teams, err := s.store.Memberships(ctx, u.ID)
	if err != nil {
		return fmt.Errorf("reading memberships: %w", err)
	}
	about := []string{u.Name}
	for _, m := range teams {
		about = append(about, m.Team.Name)
	}
	return password.CheckNew(next, u.Email, about...)
}

func (s *Service) setPassword(ctx context.Context, userID, next, keep string, keepTokens bool) error {
	hash, err := s.hasher.Hash(ctx, next)
	if err != nil {
		return err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error { return s.writePassword(ctx, userID, hash, keep, keepTokens) })
	if err != nil {
		return fmt.Errorf("changing a password: %w", err)
	}
	s.changed(userID)
	return nil
}

// writePassword replaces a user's password within the caller's transaction: links to set one end, and so do all login sessions but the
// one to keep, and sign-ins that began with the password that was. Who knew the old one may have made API tokens: they end, too, unless
// they are to be kept.
func (s *Service) writePassword(ctx context.Context, userID, hash, keep string, keepTokens bool) error {
	if err := s.store.SetPassword(ctx, userID, hash, s.now()); err != nil {
		return err
	}
	if err := s.store.DeleteLoginsUnderWay(ctx, userID); err != nil {
		return err
	}
	return s.endSessions(ctx, userID, keep, keepTokens)
}

// endSessions ends a user's login sessions but one, and their API tokens unless they are to be kept, within the caller's transaction.
func (s *Service) endSessions(ctx context.Context, userID, except string, keepTokens bool) error {
	if err := s.store.DeleteSessions(ctx, userID, except); err != nil || keepTokens {
		return err
	}
	return s.store.DeleteTokens(ctx, userID, "")
}
