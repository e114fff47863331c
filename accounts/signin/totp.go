package signin

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
)

// Codes of an authenticator app, after RFC 6238 with what every such app takes: SHA-1, 30 seconds, six digits.
const (
	totpStep   = 30 // seconds
	totpDigits = 6
	totpSecret = 20 // bytes, as many as the hash has
	totpSkew   = 1  // steps that a clock may be off, either way
)

var base32Plain = base32.StdEncoding.WithPadding(base32.NoPadding)

// totpCode is the code of a step.
func totpCode(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(step))
	mac.Write(at[:])
	sum := mac.Sum(nil)
	from := sum[len(sum)-1] & 0xf // dynamic truncation, RFC 4226 section 5.3
	n := binary.BigEndian.Uint32(sum[from:from+4]) & 0x7fffffff
	return fmt.Sprintf("%0*d", totpDigits, n%1_000_000)
}

// totpMatch returns the step whose code this is, of those near now; every one of them is compared, whichever matches.
func totpMatch(secret []byte, code string, now time.Time) (step int64, ok bool) {
	current := now.Unix() / totpStep
	for s := current - totpSkew; s <= current+totpSkew; s++ {
		if subtle.ConstantTimeCompare([]byte(totpCode(secret, s)), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok
}

func sealTOTP(userID string) string { return "totp\x00" + userID }

// BeginTOTP makes the secret of an authenticator app, as text and as the address that apps read from a QR code. It counts once
// ConfirmTOTP has seen a code of it. Errors: totp_enabled, confirm_needed, token_not_allowed.
func (s *Service) BeginTOTP(ctx context.Context, actor accounts.Actor) (secret, uri string, err error) {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return "", "", err
	}
	raw := make([]byte, totpSecret)
	if _, err := io.ReadFull(s.cfg.Rand, raw); err != nil {
		return "", "", fmt.Errorf("making a secret: %w", err)
	}
	sealed, err := s.vault.Seal(sealTOTP(actor.User.ID), string(raw))
	if err != nil {
		return "", "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if t, err := s.store.TOTP(ctx, actor.User.ID); err == nil && t.ConfirmedAt != 0 {
			return fault.New(fault.Conflict, "totp_enabled", "You have an authenticator app already. Remove it first, then set up another one.")
		} else if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		return s.store.PutTOTP(ctx, accounts.TOTP{UserID: actor.User.ID, Sealed: sealed, CreatedAt: s.now()})
	})
	if err != nil {
		return "", "", fmt.Errorf("setting up an authenticator app: %w", err)
	}
	secret = base32Plain.EncodeToString(raw)
	q := url.Values{"secret": {secret}, "issuer": {"Parawork"}, "algorithm": {"SHA1"}, "digits": {fmt.Sprint(totpDigits)}, "period": {fmt.Sprint(totpStep)}}
	// Key URI format of Google Authenticator, which all apps read; some show a + of a query as it stands.
	uri = "otpauth://totp/Parawork:" + url.PathEscape(actor.User.Email) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
	return secret, uri, nil
}

// ConfirmTOTP makes the authenticator app count from now on, after its first code, and returns new recovery codes. The session counts
// as one with a second factor at once. Errors: wrong_code, totp_missing, totp_enabled, too_many_attempts.
func (s *Service) ConfirmTOTP(ctx context.Context, actor accounts.Actor, code string) (recovery []string, err error) {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return nil, err
	}
	switch t, err := s.store.TOTP(ctx, actor.User.ID); {
	case fault.Is(err, fault.NotFound):
		return nil, fault.New(fault.Conflict, "totp_missing", "Set up the authenticator app first.")
	case err != nil:
		return nil, fmt.Errorf("reading an authenticator app: %w", err)
	case t.ConfirmedAt != 0:
		return nil, fault.New(fault.Conflict, "totp_enabled", "The authenticator app is set up already.")
	}
	if err := s.takeTOTP(ctx, actor.User.ID, code, password.From{Session: actor.SessionHash}); err != nil {
		return nil, err
	}
	recovery, hashes, err := s.newRecoveryCodes()
	if err != nil {
		return nil, err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.ConfirmTOTP(ctx, actor.User.ID, s.now()); err != nil {
			return err
		}
		if err := s.store.PutRecoveryCodes(ctx, actor.User.ID, hashes); err != nil {
			return err
		}
		return s.addProof(ctx, actor, accounts.ProofTOTP)
	})
	if err != nil {
		return nil, fmt.Errorf("setting up an authenticator app: %w", err)
	}
	return recovery, nil
}

// takeTOTP takes a code of a user's authenticator app, confirmed or not: each code once, and none that is older than one taken.
func (s *Service) takeTOTP(ctx context.Context, userID, code string, from password.From) error {
	done, err := s.limits.BeginCode(userID, from)
	if err != nil {
		return err
	}
	t, err := s.store.TOTP(ctx, userID)
	if fault.Is(err, fault.NotFound) {
		return errWrongCode
	}
	if err != nil {
		return fmt.Errorf("reading an authenticator app: %w", err)
	}
	secret, err := s.vault.Unseal(sealTOTP(userID), t.Sealed)
	if err != nil {
		return err
	}
	step, ok := totpMatch([]byte(secret), cleanCode(code), s.cfg.Now())
	if !ok || step <= t.LastStep {
		return errWrongCode
	}
	if ok, err = s.store.TakeStep(ctx, userID, step); err != nil {
		return fmt.Errorf("taking a code: %w", err)
	} else if !ok { // another request took it
		return errWrongCode
	}
	done()
	return nil
}

var errWrongCode = fault.New(fault.Invalid, "wrong_code", "The code is wrong, or was used already. Wait for the next one, and see that the clock of your device is right.").With("field", "code")

// cleanCode leaves out what people write between the digits.
func cleanCode(code string) string {
	if len(code) > 64 {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '\u00a0' {
			return -1
		}
		return r
	}, code)
}

// RemoveTOTP forgets the actor's authenticator app. Errors: confirm_needed, last_sign_in_method.
func (s *Service) RemoveTOTP(ctx context.Context, actor accounts.Actor) error {
	if err := s.MayChangeFactors(ctx, actor); err != nil {
		return err
	}
	err := s.store.Tx(ctx, func(ctx context.Context) error {
		if err := s.store.DeleteTOTP(ctx, actor.User.ID); err != nil {
			return err
		}
		return s.lessFactors(ctx, actor)
	})
	if err != nil {
		return fmt.Errorf("removing an authenticator app: %w", err)
	}
	s.changed(actor.User.ID)
	return nil
}
