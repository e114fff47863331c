package signin

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// A token is "pw_user_", 32 random bytes in 43 digits of base 62, and a checksum of all that in 6 more, so that scanners of
// leaked secrets and typing errors are recognised without a query to the database.
const (
	tokenPrefix = "pw_user_"
	tokenDigits = 43
	sumDigits   = 6
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

var errBadToken = fault.New(fault.Unauthorized, "invalid_token", "The API token is not valid: it was mistyped, has ended, or was removed.")

// maxTokens bounds the tokens of one user.
const maxTokens = 100

// TokenRequest asks for an API token.
type TokenRequest struct {
	Name      string
	Scopes    []accounts.Scope // none = all that its user may do
	Team      string           // slug of the only team it acts in, "" = all its user's
	ExpiresAt int64            // ms UTC, 0 = never
}

// IssueToken makes an API token of the actor's. Its value is returned once; only a hash is stored. A token may make tokens that reach
// no further than itself, and that end with it. Errors: invalid_scope, invalid_expiry, team_not_found, too_many_tokens, wrong_scope, confirm_needed.
func (s *Service) IssueToken(ctx context.Context, actor accounts.Actor, req TokenRequest) (accounts.Token, string, error) {
	if actor.TokenID == "" { // a token counts as shown with its user's second factor: who makes one has shown it
		if err := s.MayChangeFactors(ctx, actor); err != nil {
			return accounts.Token{}, "", err
		}
	}
	t := accounts.Token{UserID: actor.User.ID, Name: req.Name, ExpiresAt: req.ExpiresAt, ParentID: actor.TokenID, SessionID: actor.SessionID}
	var err error
	if t.Scopes, err = accounts.CleanScopes(req.Scopes); err != nil {
		return accounts.Token{}, "", err
	}
	if req.Team != "" {
		team, ok := actor.TeamBySlug(req.Team)
		if !ok {
			return accounts.Token{}, "", fault.New(fault.Invalid, "team_not_found", "You are in no team with the short name %q.", accounts.Clip(req.Team, 40)).With("field", "team")
		}
		t.TeamID = team.ID
	}
	if actor.TokenID != "" {
		if err := s.within(ctx, actor, &t); err != nil {
			return accounts.Token{}, "", err
		}
	}
	return s.insertToken(ctx, t, actor.SessionHash)
}

// within keeps what a token makes from reaching further than the token itself.
func (s *Service) within(ctx context.Context, actor accounts.Actor, t *accounts.Token) error {
	if err := accounts.NeedAccount(actor); err != nil {
		return err
	}
	all, err := s.store.Tokens(ctx, actor.User.ID)
	if err != nil {
		return fmt.Errorf("reading tokens: %w", err)
	}
	for _, own := range all {
		if own.ID != actor.TokenID {
			continue
		}
		t.ParentName = own.Name
		if own.ExpiresAt != 0 && (t.ExpiresAt == 0 || t.ExpiresAt > own.ExpiresAt) {
			t.ExpiresAt = own.ExpiresAt
		}
	}
	return nil
}

// CreateToken makes an API token that may do all its user may. Its value is returned once; only a hash is stored. expiresAt is ms UTC,
// 0 = never. For the command line: see IssueToken.
func (s *Service) CreateToken(ctx context.Context, userID, name string, expiresAt int64) (accounts.Token, string, error) {
	return s.insertToken(ctx, accounts.Token{UserID: userID, Name: name, ExpiresAt: expiresAt}, "")
}

// insertToken stores a token and returns its value. What makes it, a token or the login session with this hash, must still be there: it may
// just have been ended with all that it made.
func (s *Service) insertToken(ctx context.Context, t accounts.Token, sessionHash string) (accounts.Token, string, error) {
	name, err := accounts.CleanName("name", t.Name)
	if err != nil {
		return accounts.Token{}, "", err
	}
	t.ID, t.Name, t.CreatedAt = id.New("tok"), name, s.now()
	if t.ExpiresAt != 0 && t.ExpiresAt <= t.CreatedAt {
		return accounts.Token{}, "", fault.New(fault.Invalid, "invalid_expiry", "The token would have ended already. Choose a later time, or none.").With("field", "expires_at")
	}
	value, err := NewTokenValue(s.cfg.Rand)
	if err != nil {
		return accounts.Token{}, "", err
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		u, err := s.store.UserByID(ctx, t.UserID)
		if err != nil {
			return err
		}
		if u.SuspendedAt != 0 { // meanwhile: their tokens have ended for good, and this one would outlive that
			return accounts.ErrSuspended
		}
		if t.SessionID != "" {
			l, err := s.store.Session(ctx, sessionHash)
			if fault.Is(err, fault.NotFound) {
				return errSignedOut
			}
			if err != nil {
				return err
			}
			t.SessionName = BrowserOf(l.UserAgent)
		}
		have, err := s.store.Tokens(ctx, t.UserID)
		if err != nil {
			return err
		}
		if t.ParentID != "" && !slices.ContainsFunc(have, func(own accounts.Token) bool { return own.ID == t.ParentID }) {
			return errBadToken // ended meanwhile
		}
		if len(have) >= maxTokens {
			return fault.New(fault.Conflict, "too_many_tokens", "You have %d tokens. Revoke some that you no longer use.", len(have))
		}
		return s.store.InsertToken(ctx, t, password.Digest(value))
	})
	if err != nil {
		return accounts.Token{}, "", fmt.Errorf("creating a token: %w", err)
	}
	return t, value, nil
}

// Tokens returns a user's API tokens, newest first.
func (s *Service) Tokens(ctx context.Context, userID string) ([]accounts.Token, error) {
	return s.store.Tokens(ctx, userID)
}

// DeleteToken ends one of a user's own API tokens, and those that were made by it.
func (s *Service) DeleteToken(ctx context.Context, userID, tokenID string) error {
	if err := s.store.DeleteToken(ctx, userID, tokenID); err != nil {
		return fmt.Errorf("ending a token: %w", err)
	}
	s.changed(userID)
	return nil
}

// AuthenticateToken is AuthenticateTokenFrom where it is not known from where.
func (s *Service) AuthenticateToken(ctx context.Context, bearer string) (accounts.Actor, error) {
	return s.AuthenticateTokenFrom(ctx, bearer, "")
}

// AuthenticateTokenFrom returns whose API token this is, and notes the address it is used from; fault.Unauthorized when it is
// nobody's or has ended. Errors: invalid_token, suspended.
func (s *Service) AuthenticateTokenFrom(ctx context.Context, bearer, ip string) (accounts.Actor, error) {
	if !wellFormed(bearer) {
		return accounts.Actor{}, errBadToken
	}
	t, err := s.store.TokenByHash(ctx, password.Digest(bearer))
	if fault.Is(err, fault.NotFound) {
		return accounts.Actor{}, errBadToken
	}
	if err != nil {
		return accounts.Actor{}, fmt.Errorf("reading a token: %w", err)
	}
	now := s.now()
	if t.ExpiresAt != 0 && now >= t.ExpiresAt {
		return accounts.Actor{}, errBadToken
	}
	a, err := s.directory.Actor(ctx, t.UserID)
	if err != nil {
		return accounts.Actor{}, err
	}
	if a.User.SuspendedAt != 0 {
		return accounts.Actor{}, accounts.ErrSuspended
	}
	factors, err := s.store.Factors(ctx, t.UserID)
	if err != nil {
		return accounts.Actor{}, fmt.Errorf("reading a user's factors: %w", err)
	}
	a.TokenID, a.Scopes, a.TokenTeam, a.SecondFactor = t.ID, t.Scopes, t.TeamID, factors.Any()
	if t.ClientID != "" {
		a.Client = t.Name
	}
	if t.TeamID != "" {
		a.Memberships = slices.DeleteFunc(a.Memberships, func(m accounts.Membership) bool { return m.Team.ID != t.TeamID })
	}
	if ip = accounts.Clip(ip, 64); now-t.LastUsedAt >= touchEvery.Milliseconds() || ip != "" && ip != t.LastUsedIP && now-t.LastUsedAt >= time.Second.Milliseconds() {
		if err := s.store.TouchToken(ctx, t.ID, ip, now); err != nil {
			return accounts.Actor{}, fmt.Errorf("touching a token: %w", err)
		}
	}
	return a, nil
}

// NewTokenValue makes the value of an API token.
func NewTokenValue(r io.Reader) (string, error) {
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
