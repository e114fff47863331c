package accounts

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// A token is "pw_user_", 32 random bytes in 43 digits of base 62, and a checksum of all that in 6 more, so that scanners of
// leaked secrets and typing errors are told apart without asking the database.
const (
	tokenPrefix = "pw_user_"
	tokenDigits = 43
	sumDigits   = 6
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// maxTokens bounds the tokens of one user.
const maxTokens = 100

// CreateToken makes an API token that acts as the user. Its value is returned once; only a hash is kept. expiresAt is ms UTC,
// 0 = never.
func (s *Service) CreateToken(ctx context.Context, userID, name string, expiresAt int64) (Token, string, error) {
	name, err := cleanName("name", name)
	if err != nil {
		return Token{}, "", err
	}
	t := Token{ID: id.New("tok"), UserID: userID, Name: name, CreatedAt: s.now(), ExpiresAt: expiresAt}
	if expiresAt != 0 && expiresAt <= t.CreatedAt {
		return Token{}, "", fault.New(fault.Invalid, "invalid_expiry", "The token would have ended already. Choose a later time, or none.").With("field", "expires_at")
	}
	value, err := newToken(s.cfg.Rand)
	if err != nil {
		return Token{}, "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		have, err := s.store.Tokens(ctx, userID)
		if err != nil {
			return err
		}
		if len(have) >= maxTokens {
			return fault.New(fault.Conflict, "too_many_tokens", "You have %d tokens. End some that are not used any more.", len(have))
		}
		return s.store.InsertToken(ctx, t, hashOf(value))
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("creating a token: %w", err)
	}
	return t, value, nil
}

// Tokens returns a user's API tokens, newest first.
func (s *Service) Tokens(ctx context.Context, userID string) ([]Token, error) {
	return s.store.Tokens(ctx, userID)
}

// DeleteToken ends one of a user's own API tokens.
func (s *Service) DeleteToken(ctx context.Context, userID, tokenID string) error {
	if err := s.store.DeleteToken(ctx, userID, tokenID); err != nil {
		return fmt.Errorf("ending a token: %w", err)
	}
	s.changed(userID)
	return nil
}

// AuthenticateToken returns whose API token this is; fault.Unauthorized when it is nobody's or has ended.
func (s *Service) AuthenticateToken(ctx context.Context, bearer string) (Actor, error) {
	bad := fault.New(fault.Unauthorized, "invalid_token", "The API token is not valid: it was mistyped, has ended, or was removed.")
	if !wellFormed(bearer) {
		return Actor{}, bad
	}
	t, err := s.store.TokenByHash(ctx, hashOf(bearer))
	if fault.Is(err, fault.NotFound) {
		return Actor{}, bad
	}
	if err != nil {
		return Actor{}, fmt.Errorf("reading a token: %w", err)
	}
	now := s.now()
	if t.ExpiresAt != 0 && now >= t.ExpiresAt {
		return Actor{}, bad
	}
	a, err := s.Actor(ctx, t.UserID)
	if err != nil {
		return Actor{}, err
	}
	a.TokenID = t.ID
	if now-t.LastUsedAt >= touchEvery.Milliseconds() {
		if err := s.store.TouchToken(ctx, t.ID, now); err != nil {
			return Actor{}, fmt.Errorf("touching a token: %w", err)
		}
	}
	return a, nil
}

func newToken(r io.Reader) (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	body := tokenPrefix + digits(new(big.Int).SetBytes(b), tokenDigits)
	return body + checkDigits(body), nil
}

func checkDigits(body string) string {
	return digits(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), sumDigits)
}

// digits writes n in base 62 with exactly width digits.
func digits(n *big.Int, width int) string {
	b := make([]byte, width)
	base, rest := big.NewInt(62), new(big.Int)
	for i := width - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		b[i] = base62[rest.Int64()]
	}
	return string(b)
}

// wellFormed reports whether s could be a token of ours: prefix, length and checksum are right.
func wellFormed(s string) bool {
	n := len(tokenPrefix) + tokenDigits
	return len(s) == n+sumDigits && strings.HasPrefix(s, tokenPrefix) && checkDigits(s[:n]) == s[n:]
}
