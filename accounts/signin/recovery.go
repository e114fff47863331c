package signin

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// A recovery code has 80 random bits, in 16 letters and digits that are not mistaken for one another when written by hand.
const (
	recoveryCodes = 10
	recoveryBytes = 10
)

var recoveryLetters = base32.NewEncoding("abcdefghjkmnpqrstuvwxyz023456789").WithPadding(base32.NoPadding)

// newRecoveryCodes makes codes to show once and their hashes to keep.
func (s *Service) newRecoveryCodes() (codes, hashes []string, err error) {
	for range recoveryCodes {
		b := make([]byte, recoveryBytes)
		if _, err := io.ReadFull(s.cfg.Rand, b); err != nil {
			return nil, nil, fmt.Errorf("making recovery codes: %w", err)
		}
		c := recoveryLetters.EncodeToString(b)
		codes = append(codes, c[:4]+"-"+c[4:8]+"-"+c[8:12]+"-"+c[12:])
		hashes = append(hashes, password.Digest(c))
	}
	return codes, hashes, nil
}

// RenewRecoveryCodes replaces the actor's recovery codes and returns the new ones; the old ones stop working. Errors: confirm_needed,
// no_second_factor.
func (s *Service) RenewRecoveryCodes(ctx context.Context, actor accounts.Actor) ([]string, error) {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return nil, err
	}
	f, err := s.store.Factors(ctx, actor.User.ID)
	if err != nil {
		return nil, fmt.Errorf("reading a user's factors: %w", err)
	}
	if !f.Any() {
		return nil, fault.New(fault.Conflict, "no_second_factor", "Recovery codes replace a second factor. Set up an authenticator app or a passkey first.")
	}
	codes, hashes, err := s.newRecoveryCodes()
	if err != nil {
		return nil, err
	}
	if err := s.store.PutRecoveryCodes(ctx, actor.User.ID, hashes); err != nil {
		return nil, fmt.Errorf("renewing recovery codes: %w", err)
	}
	return codes, nil
}

// takeRecovery takes one of a user's recovery codes.
func (s *Service) takeRecovery(ctx context.Context, userID, code string, from password.From) error {
	done, err := s.limits.BeginCode(userID, from)
	if err != nil {
		return err
	}
	ok, err := s.store.UseRecoveryCode(ctx, userID, password.Digest(strings.ToLower(cleanCode(code))), s.now())
	if err != nil {
		return fmt.Errorf("taking a recovery code: %w", err)
	}
	if !ok {
		return fault.New(fault.Invalid, "wrong_code", "That is none of your recovery codes, or it was used already. Each works once.").With("field", "code")
	}
	done()
	return nil
}
