package machines

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"math/big"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Token enrols a machine. The secret is shown once, to its creator. Times are ms UTC.
type Token struct {
	ID        string // "rtk_..."; the part after the prefix is part of the token
	TeamID    string
	UserID    string // whose machines it enrols
	Name      string // the machine's name unless it chooses another
	Hash      []byte // SHA-256 of the secret
	Reusable  bool
	RunnerID  string // of one that renews: the machine; else the last one it enrolled
	Renews    bool   // it replaces the key of RunnerID
	Uses      int
	CreatedAt int64
	ExpiresAt int64 // 0 = never
	UsedAt    int64
	RevokedAt int64
}

// over returns why the token cannot be used at a time, "" when it can.
func (t Token) over(now int64) string {
	switch {
	case t.RevokedAt != 0:
		return "was revoked"
	case t.ExpiresAt != 0 && now >= t.ExpiresAt:
		return "has expired"
	case t.Uses > 0 && !t.Reusable:
		return "was used already"
	}
	return ""
}

// Limits of a team's machines and tokens.
const (
	maxTokens   = 50  // valid ones of one user in a team
	maxMachines = 200 // of one user in a team
)

const (
	tokenKind    = "rtk"
	secretDigits = 43
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// errDisabled is returned where config.json switches members' machines off.
var errDisabled = fault.New(fault.Unavailable, "runners_disabled",
	"Members' own machines are switched off on this server. An operator switches them on with sandboxing.runner.enabled in config.json.")

// NewToken makes a token that enrols machines of a user in a team, and returns it in clear text, once. Without reusable it enrols one
// machine and ends after an hour. The caller has checked the user's right. Errors: runners_disabled, invalid_name, too_many_tokens.
func (s *Service) NewToken(ctx context.Context, teamID, userID, name string, reusable bool) (Token, string, error) {
	if name != "" {
		var err error
		if name, err = cleanName(name); err != nil {
			return Token{}, "", err
		}
	}
	return s.newToken(ctx, Token{TeamID: teamID, UserID: userID, Name: name, Reusable: reusable})
}

// Regenerate invalidates a machine's key, cuts its connection, and returns a token that gives it a new one.
func (s *Service) Regenerate(ctx context.Context, runnerID string) (Token, string, error) {
	e, err := s.entry(ctx, runnerID)
	if err != nil {
		return Token{}, "", err
	}
	s.mu.Lock()
	m := e.m
	s.mu.Unlock()
	if m.Revoked() {
		return Token{}, "", fault.New(fault.Conflict, "runner_revoked", "The machine was revoked. Connect it as a new one.")
	}
	var t Token
	var text string
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		at := s.now()
		if err := s.store.SetRunnerKey(ctx, m.ID, nil, at); err != nil {
			return err
		}
		if err := s.store.RevokeRenewals(ctx, m.ID, at); err != nil {
			return err
		}
		t, text, err = s.newToken(ctx, Token{TeamID: m.TeamID, UserID: m.UserID, Name: m.Name, RunnerID: m.ID, Renews: true})
		return err
	})
	if err != nil {
		return Token{}, "", fmt.Errorf("replacing a machine's key: %w", err)
	}
	s.mu.Lock()
	e.m.Key = nil
	l := e.live
	s.mu.Unlock()
	if l != nil {
		l.end("Somebody requested a new key for it: it is back once it has enrolled with that.")
	}
	s.notify(ctx, e)
	return t, text, nil
}

func (s *Service) newToken(ctx context.Context, t Token) (Token, string, error) {
	if !s.cfg.Enabled {
		return Token{}, "", errDisabled
	}
	key, err := s.ServerKey(ctx)
	if err != nil {
		return Token{}, "", err
	}
	secret, err := newSecret(s.cfg.Rand)
	if err != nil {
		return Token{}, "", err
	}
	t.ID, t.Hash, t.CreatedAt = id.New(tokenKind), hashOf(secret), s.now()
	if !t.Reusable {
		t.ExpiresAt = t.CreatedAt + s.cfg.TokenFor.Milliseconds()
	}
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.store.RunnerTokens(ctx, t.TeamID, t.CreatedAt)
		if err != nil {
			return err
		}
		mine := 0
		for _, o := range all {
			if o.UserID == t.UserID {
				mine++
			}
		}
		if mine >= maxTokens {
			return fault.New(fault.Conflict, "too_many_tokens", "You have %d valid tokens for machines. Revoke some of them.", mine)
		}
		return s.store.InsertRunnerToken(ctx, t)
	})
	if err != nil {
		return Token{}, "", err
	}
	return t, wire.Token{ID: t.ID[len(tokenKind)+1:], Secret: secret, Print: wire.Fingerprint(key.Public().(ed25519.PublicKey))}.String(), nil
}

// Tokens returns a team's valid tokens, newest first.
func (s *Service) Tokens(ctx context.Context, teamID string) ([]Token, error) {
	return s.store.RunnerTokens(ctx, teamID, s.now())
}

// Token returns one token, also an invalid one. Errors: not_found.
func (s *Service) Token(ctx context.Context, id string) (Token, error) {
	return s.store.RunnerToken(ctx, id)
}

// RevokeToken revokes a token. Machines it enrolled stay.
func (s *Service) RevokeToken(ctx context.Context, id string) error {
	return s.store.RevokeRunnerToken(ctx, id, s.now())
}

func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// newSecret returns 256 random bits in base 62.
func newSecret(r io.Reader) (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	n, base, rest := new(big.Int).SetBytes(b), big.NewInt(62), new(big.Int)
	out := make([]byte, secretDigits)
	for i := secretDigits - 1; i >= 0; i-- {
		n.DivMod(n, base, rest)
		out[i] = base62[rest.Int64()]
	}
	return string(out), nil
}
