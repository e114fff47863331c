// Package oauth lets programs act for people who allowed it in their browser: it registers clients, keeps what a person granted to one,
// and gives out tokens for it (OAuth 2.1, RFC 6749, 7591, 7636, 7009 and 8252). An access token is an ordinary API token of an hour's life,
// so that rights, scopes, limits and the audit know nothing of OAuth, and whatever ends a person's tokens ends their grants.
//
// It stands on no library: fosite had its last release in 2024, go-oauth2 registers no clients and keeps codes readable, zitadel/oidc
// brings an OpenID provider with signing keys, and none of the three issues tokens that are rows of ours.
//
// It starts no goroutine and takes no lock.
package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
)

// Lifetimes.
const (
	codeFor    = time.Minute
	accessFor  = time.Hour
	refreshFor = 30 * 24 * time.Hour // unused
	newFor     = 24 * time.Hour      // a client that nobody has allowed anything
	clientFor  = 90 * 24 * time.Hour // one that nobody has allowed anything since, and that holds no grant
)

// mostNew bounds the clients that nobody has allowed anything yet: the oldest make room.
const mostNew = 10_000

// Client is a program that registered itself. What it says of itself proves nothing.
type Client struct {
	ID, Name     string
	RedirectURIs []string // where codes may be sent, as registered
	CreatedAt    int64
	UsedAt       int64 // when it was last granted something, or renewed a grant; 0 = never
}

// Grant is what a person allowed a client. It lives as long as its API token, which is renewed in place.
type Grant struct {
	TokenID   string // of the API token
	UserID    string
	UserEmail string
	ClientID  string
	Name      string // of the client, as it was allowed
	Scopes    []accounts.Scope
	TeamID    string // the only team it reaches, "" = all of the person's

	CodeHash    string
	Challenge   string // of PKCE, S256
	RedirectURI string // that the code was sent to

	// A refresh token has two parts. The first stays the same for the grant's life, so that one that was replaced is known; "" while the
	// code has not been exchanged.
	FamilyHash  string
	RefreshHash string // of the second part of the one that is valid

	CreatedAt int64
	ExpiresAt int64 // of the code, later when the refresh token was last renewed long ago
}

// By says what a grant is looked for by.
type By int

// Ways to find a grant: by the hash of its code, of the first part of its refresh tokens, of its access token.
const (
	ByCode By = iota
	ByFamily
	ByAccess
)

// Store keeps clients and grants. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	InsertClient(ctx context.Context, c Client) error
	Client(ctx context.Context, id string) (Client, error)
	// DropClients removes clients without a grant: those never used that were registered before newBefore or are not among the latest
	// keep, and those last used before usedBefore.
	DropClients(ctx context.Context, newBefore, usedBefore int64, keep int) error
	// InsertGrant stores a grant and notes that its client was used.
	InsertGrant(ctx context.Context, g Grant) error
	Grant(ctx context.Context, by By, hash string) (Grant, error)
	// Renew gives a grant the access token with this hash and the refresh token in g, where its refresh token is still the one with the
	// hash from; false when somebody was faster. It notes that the client was used.
	Renew(ctx context.Context, g Grant, from string, access Access) (bool, error)
	// DropGrants removes grants that ended before now, with their tokens.
	DropGrants(ctx context.Context, now int64) error
}

// Access is an access token.
type Access struct {
	Hash      string
	At, Until int64 // it is valid
}

// Tokens are people's API tokens. signin.Service is one.
type Tokens interface {
	IssueToken(ctx context.Context, actor accounts.Actor, req signin.TokenRequest) (accounts.Token, string, error)
	DeleteToken(ctx context.Context, userID, tokenID string) error
}

// Config is what a Service is made of.
type Config struct {
	Store  Store
	Tokens Tokens
	Now    func() time.Time // nil = time.Now
	Rand   io.Reader        // nil = crypto/rand
}

// Service is the authorization server. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	return &Service{cfg}
}

// Scopes are what clients can be allowed. Programs that may do everything are given an API token by hand.
func Scopes() []accounts.Scope {
	return []accounts.Scope{accounts.ScopeRead, accounts.ScopeWrite, accounts.ScopeAttach, accounts.ScopeBill}
}

// Sweep removes grants and clients that have ended.
func (s *Service) Sweep(ctx context.Context) error {
	now := s.cfg.Now()
	if err := s.cfg.Store.DropGrants(ctx, now.UnixMilli()); err != nil {
		return fmt.Errorf("removing grants that have ended: %w", err)
	}
	if err := s.cfg.Store.DropClients(ctx, now.Add(-newFor).UnixMilli(), now.Add(-clientFor).UnixMilli(), mostNew); err != nil {
		return fmt.Errorf("removing clients that nobody uses: %w", err)
	}
	return nil
}

// refuse is an error of OAuth: its code is the one of the standard.
func refuse(code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...)
}
