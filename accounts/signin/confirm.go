package signin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// confirmedFor is how long a proof of who somebody is lasts for sensitive changes: a browser left open must not be enough.
const confirmedFor = 15 * time.Minute

// NeedConfirmed returns nil where the actor proved who they are a short while ago; confirm_needed otherwise. A token confirms nothing
// and needs no confirmation: what tokens may not do at all is refused by NoToken.
func (s *Service) NeedConfirmed(actor accounts.Actor) error {
	if actor.TokenID != "" || s.now() < actor.ConfirmedAt+confirmedFor.Milliseconds() {
		return nil
	}
	return confirmNeeded(fmt.Sprintf("Confirm that it is you first: this is a sensitive change, and you last did so more than %d minutes ago.", int(confirmedFor/time.Minute)), false)
}

func confirmNeeded(message string, second bool) error {
	return fault.New(fault.Forbidden, "confirm_needed", "%s", message).With("second_factor", second)
}

// NoToken refuses API tokens what people do in the web app only, and asks them to have confirmed who they are.
func (s *Service) NoToken(actor accounts.Actor) error {
	if actor.TokenID != "" || actor.SessionHash == "" {
		return fault.New(fault.Forbidden, "token_not_allowed", "How somebody signs in is changed in the web app, not with an API token.")
	}
	return s.NeedConfirmed(actor)
}

// MayChangeFactors is NoToken, and asks a user who has a second factor for it: a session that a provider vouches for must not take away
// what its user is asked for besides.
func (s *Service) MayChangeFactors(ctx context.Context, actor accounts.Actor) error {
	if err := s.NoToken(actor); err != nil {
		return err
	}
	if actor.SecondFactor {
		return nil
	}
	f, err := s.store.Factors(ctx, actor.User.ID)
	if err != nil {
		return fmt.Errorf("reading a user's factors: %w", err)
	}
	if f.Any() {
		return confirmNeeded("Confirm that it is you with your second factor first: a code of your authenticator app, a recovery code or a passkey.", true)
	}
	return nil
}

// MayChangeSignInOf decides whether an operator may change how a user signs in now. For themselves it is as MayChangeFactors says, which
// being an operator is no way around; for others they have proven who they are a short while ago, or hold a token.
func (s *Service) MayChangeSignInOf(ctx context.Context, actor accounts.Actor, userID string) error {
	if actor.User.ID == userID {
		return s.MayChangeFactors(ctx, actor)
	}
	return s.NeedConfirmed(actor)
}

// ConfirmByPassword notes that who the actor is was proven again. Errors: wrong_password, too_many_attempts, token_not_allowed.
func (s *Service) ConfirmByPassword(ctx context.Context, actor accounts.Actor, pass string) error {
	if err := s.checkOwnPassword(ctx, actor, "password", pass); err != nil {
		return err
	}
	return s.addProof(ctx, actor, "")
}

// ConfirmByCode is ConfirmByPassword with a code of the authenticator app or a recovery code. Errors: wrong_code, too_many_attempts.
func (s *Service) ConfirmByCode(ctx context.Context, actor accounts.Actor, code string) error {
	if actor.SessionHash == "" {
		return s.NoToken(actor)
	}
	from := password.From{Session: actor.SessionHash}
	proof, take := accounts.ProofTOTP, s.takeCode
	if len(cleanCode(code)) > totpDigits {
		proof, take = accounts.ProofRecovery, s.takeRecovery
	}
	if err := take(ctx, actor.User.ID, code, from); err != nil {
		return err
	}
	return s.addProof(ctx, actor, proof)
}

// takeCode is takeTOTP for an app that counts already.
func (s *Service) takeCode(ctx context.Context, userID, code string, from password.From) error {
	t, err := s.store.TOTP(ctx, userID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("reading an authenticator app: %w", err)
	}
	if err != nil || t.ConfirmedAt == 0 {
		return errWrongCode
	}
	return s.takeTOTP(ctx, userID, code, from)
}

// checkOwnPassword checks the password of the signed-in user. Attempts are counted by session, so that a stolen one cannot try passwords
// without end.
func (s *Service) checkOwnPassword(ctx context.Context, actor accounts.Actor, field, pass string) error {
	if actor.SessionHash == "" {
		return s.NoToken(actor)
	}
	done, err := s.limits.BeginOwn(actor.User.ID, actor.SessionHash)
	if err != nil {
		return err
	}
	if _, err := s.verify(ctx, actor.User.Email, pass); fault.Is(err, fault.Unauthorized) {
		return fault.New(fault.Invalid, "wrong_password", "The password is wrong.").With("field", field)
	} else if err != nil {
		return err
	}
	done()
	return nil
}

// addProof notes in the actor's session that who they are was proven now, and by what besides.
func (s *Service) addProof(ctx context.Context, actor accounts.Actor, proof string) error {
	l, err := s.store.Session(ctx, actor.SessionHash)
	if err != nil {
		return fmt.Errorf("reading a login session: %w", err)
	}
	if proof != "" && !slices.Contains(l.Factors, proof) {
		l.Factors = append(l.Factors, proof)
	}
	if err := s.store.ConfirmSession(ctx, actor.SessionHash, l.Factors, s.now()); err != nil {
		return fmt.Errorf("noting a proof: %w", err)
	}
	return nil
}

// lessFactors follows the removal of a factor, within its transaction. Without one left no session may pass for one with a second
// factor: this one counts as begun without, the others end, and recovery codes stand in for nothing.
func (s *Service) lessFactors(ctx context.Context, actor accounts.Actor) error {
	ways, err := s.WaysIn(ctx, actor)
	if err != nil {
		return err
	}
	if !ways.HasPassword && ways.Identities == 0 && len(ways.Passkeys) == 0 {
		return fault.New(fault.Conflict, "last_sign_in_method", "You would have no way left to sign in. Set a password or add another passkey first.")
	}
	if ways.TOTP.ConfirmedAt != 0 || len(ways.Passkeys) > 0 {
		return nil
	}
	if err := s.store.PutRecoveryCodes(ctx, actor.User.ID, nil); err != nil {
		return err
	}
	if err := s.store.DeleteSessions(ctx, actor.User.ID, actor.SessionHash); err != nil {
		return err
	}
	l, err := s.store.Session(ctx, actor.SessionHash)
	if err != nil {
		return err
	}
	l.Factors = slices.DeleteFunc(l.Factors, func(f string) bool {
		return f == accounts.ProofTOTP || f == accounts.ProofRecovery || f == accounts.ProofPasskey
	})
	if len(l.Factors) == 0 {
		l.Factors = []string{accounts.ProofPassword}
	}
	return s.store.ConfirmSession(ctx, actor.SessionHash, l.Factors, l.ConfirmedAt)
}

// WaysIn is how a user can sign in.
type WaysIn struct {
	HasPassword   bool
	TOTP          accounts.TOTP // ConfirmedAt 0 = none
	RecoveryCodes int           // left
	Passkeys      []accounts.Passkey
	Identities    int // accounts elsewhere
}

// WaysIn returns how the actor can sign in.
func (s *Service) WaysIn(ctx context.Context, actor accounts.Actor) (w WaysIn, err error) {
	userID := actor.User.ID
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return w, fmt.Errorf("reading a user: %w", err)
	}
	w.HasPassword = hasPassword(u)
	if w.TOTP, err = s.store.TOTP(ctx, userID); err != nil && !fault.Is(err, fault.NotFound) {
		return w, fmt.Errorf("reading an authenticator app: %w", err)
	}
	f, err := s.store.Factors(ctx, userID)
	if err != nil {
		return w, fmt.Errorf("reading a user's factors: %w", err)
	}
	w.RecoveryCodes = f.RecoveryCodes
	if w.Passkeys, err = s.store.Passkeys(ctx, userID); err != nil {
		return w, fmt.Errorf("reading passkeys: %w", err)
	}
	if w.Identities, err = s.store.CountIdentities(ctx, userID); err != nil {
		return w, fmt.Errorf("reading identities: %w", err)
	}
	return w, nil
}

// hasPassword reports whether a user's password hash is one that a password can match.
func hasPassword(u accounts.User) bool {
	return password.Usable(u.PasswordHash)
}

// OwnWays returns how many ways a user has to sign in here without a provider: a password, passkeys.
func (s *Service) OwnWays(ctx context.Context, userID string) (int, error) {
	u, err := s.store.UserByID(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("reading a user: %w", err)
	}
	f, err := s.store.Factors(ctx, userID)
	if err != nil {
		return 0, fmt.Errorf("reading a user's ways to sign in: %w", err)
	}
	n := f.Passkeys
	if u.PasswordHash != "" {
		n++
	}
	return n, nil
}
