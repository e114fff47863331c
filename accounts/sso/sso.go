// Package sso lets people sign in with an account at any OpenID Connect provider, or at GitHub. The issuer and its id for the user identify
// somebody, never their e-mail address.
package sso

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/internal/fault"
)

// Kind is how a provider is spoken to.
type Kind string

// The kinds.
const (
	OIDC   Kind = "oidc"
	GitHub Kind = "github"
)

// Provider is somebody who may vouch for people, as the operator configured it.
type Provider struct {
	ID, Name     string
	Kind         Kind
	Issuer       string // OIDC
	ClientID     string
	ClientSecret string   // "" = a public client: PKCE alone
	Scopes       []string // further ones

	AllowedDomains []string // of verified e-mail addresses; empty = all
	CreateUsers    bool     // who is not known here becomes a user
	LinkByEmail    bool     // who is known by a verified e-mail address is that user
	// TrustSecondFactor says that the provider's word for a second factor counts as one.
	TrustSecondFactor bool

	GroupsClaim string // where the provider says the groups; "" = groups
	// Groups say what a group of the provider is here. Empty: the provider decides about no membership.
	Groups map[string][]Place

	AllowedOrganizations []string // GitHub; empty = all
	BaseURL              string   // of a GitHub of one's own; "" = github.com
}

// Place is a role in a team.
type Place struct {
	Team string // slug
	Role accounts.Role
}

// Way is one way to sign in, as the sign-in page shows it.
type Way struct {
	ID, Name string
	Kind     Kind
}

// Identity is an account elsewhere that a user may sign in with.
type Identity struct {
	ID         string
	UserID     string
	Provider   string
	Issuer     string
	Subject    string
	Email      string // for people to read
	Name       string
	CreatedAt  int64
	LastUsedAt int64
}

// Membership is a user's membership of a team, and its source.
type Membership struct {
	Team   accounts.Team
	Role   accounts.Role
	Source string // "" = people; else the provider whose groups say so
}

// Store is the storage of single sign-on. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	IdentityStore
	UserStore
	MemberStore
}

// IdentityStore keeps the accounts elsewhere that people sign in with.
type IdentityStore interface {
	IdentityBySubject(ctx context.Context, issuer, subject string) (Identity, error)
	Identities(ctx context.Context, userID string) ([]Identity, error)
	// InsertIdentity stores an identity; false when somebody has it already.
	InsertIdentity(ctx context.Context, i Identity) (bool, error)
	TouchIdentity(ctx context.Context, i Identity) error
	DeleteIdentity(ctx context.Context, userID, id string) error
	// EndSessionsOf ends a user's login sessions that a provider vouched for, but the one with this hash.
	EndSessionsOf(ctx context.Context, userID, provider, except string) error
}

// UserStore knows users.
type UserStore interface {
	UserByID(ctx context.Context, id string) (accounts.User, error)
	UserByEmail(ctx context.Context, email string) (accounts.User, error)
	// VerifyEmail notes that a user's address is theirs.
	VerifyEmail(ctx context.Context, userID string) error
}

// MemberStore stores the memberships that a provider's groups give.
type MemberStore interface {
	TeamBySlug(ctx context.Context, slug string) (accounts.Team, error)
	MembershipsWithSource(ctx context.Context, userID string) ([]Membership, error)
	InsertSourcedMember(ctx context.Context, teamID, userID string, role accounts.Role, source string, at int64) (bool, error)
	SetSourcedRole(ctx context.Context, teamID, userID string, role accounts.Role, source string) error
	DeleteSourcedMember(ctx context.Context, teamID, userID, source string) error
	CountOwners(ctx context.Context, teamID string) (int, error)
	// RevokeInvitesBy takes back the invites to a team that a user made.
	RevokeInvitesBy(ctx context.Context, teamID, userID string, now int64) error
	// DeleteTeamTokens ends a user's API tokens that act in one team alone.
	DeleteTeamTokens(ctx context.Context, userID, teamID string) error
}

// Directory manages users, teams and members.
type Directory interface {
	SetupNeeded(ctx context.Context) (bool, error)
	// CreateOutsideUser makes a user without a password; it joins the transaction in ctx.
	CreateOutsideUser(ctx context.Context, email, name string) (accounts.User, error)
}

// SignIn lets in whom a provider vouches for. signin.Service does.
type SignIn interface {
	// Enter signs in an authenticated user, or returns which second factor it waits for.
	Enter(ctx context.Context, req signin.Request) (signin.Entered, error)
	BeginCeremony(ctx context.Context, req signin.CeremonyRequest) (value string, expiresAt int64, err error)
	ReadCeremony(ctx context.Context, kind, value string, data any) (accounts.Ceremony, error)
	EndCeremony(ctx context.Context, c accounts.Ceremony) error
	// MayChangeFactors refuses API tokens and asks people to have confirmed who they are, by their second factor where they have one.
	MayChangeFactors(ctx context.Context, actor accounts.Actor) error
	// OwnWays returns how many ways a user has to sign in here without a provider: a password, passkeys.
	OwnWays(ctx context.Context, userID string) (int, error)
}

// Auditor remembers what was done. audit.Log is one.
type Auditor interface {
	audit.Appender
	// Record is Append for what strangers may repeat without end: it keeps bounds.
	Record(ctx context.Context, e audit.Entry, often bool) error
}

// Config is what a Service is made of.
type Config struct {
	Providers []Provider // in the order they are shown
	Store     Store
	Directory Directory
	SignIn    SignIn
	Client    *http.Client // what may be reached is its business: internal/egress makes one
	Audit     Auditor      // nil = nothing is remembered
	// Changed is called after what a user may do became less. May be nil.
	Changed func(userID string)
	Now     func() time.Time
	Rand    io.Reader
	Log     *slog.Logger
}

// Service signs users in through identity providers. Safe for concurrent use; it starts nothing.
type Service struct {
	cfg    Config
	store  Store
	ways   []Way
	by     map[string]provider
	limits limits
}

// provider is one of them, ready to be spoken to.
type provider interface {
	settings() Provider
	// ready says why nobody could be sent there now.
	ready(ctx context.Context) error
	// saysIssuer judges the issuer that the browser brought back, "" = none.
	saysIssuer(ctx context.Context, iss string) error
	// begin returns the address to send the browser to.
	begin(ctx context.Context, t trip) (string, error)
	// finish turns the provider's answer into who it says somebody is.
	finish(ctx context.Context, t trip, code string) (person, error)
	// try says why the provider could not be used; for operators.
	try(ctx context.Context) error
}

// person is who a provider says somebody is.
type person struct {
	issuer, subject string
	email, name     string
	verified        bool // the address
	mfa             bool // the provider asked for a second factor
	groups          []string
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Client = cmp.Or(cfg.Client, http.DefaultClient)
	client := *cfg.Client
	client.Transport = bounded{client.Transport}
	s := &Service{cfg: cfg, store: cfg.Store, by: map[string]provider{}, limits: limits{now: cfg.Now}}
	for _, p := range cfg.Providers {
		s.ways = append(s.ways, Way{p.ID, p.Name, p.Kind})
		if p.Kind == GitHub {
			s.by[p.ID] = newGitHub(p, &client)
		} else {
			s.by[p.ID] = &oidcProvider{cfg: p, client: &client, now: cfg.Now}
		}
	}
	return s
}

// Ways are the providers people may sign in with, in the order they are shown.
func (s *Service) Ways() []Way { return s.ways }

// Name returns a provider's name, or its id when it is no longer configured.
func (s *Service) Name(providerID string) string {
	if p, ok := s.by[providerID]; ok {
		return p.settings().Name
	}
	return providerID
}

// Problem is why a provider could not be used.
type Problem struct {
	Way
	Err error // nil = it answers as it should
}

// Try asks every provider whether it could be used, and looks whether the teams its groups lead to exist, where there is a Store.
func (s *Service) Try(ctx context.Context) []Problem {
	var out []Problem
	for _, w := range s.ways {
		p := s.by[w.ID]
		err := p.try(ctx)
		if err == nil && s.store != nil {
			err = s.checkTeams(ctx, p.settings())
		}
		out = append(out, Problem{w, err})
	}
	return out
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) changed(userID string) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(userID)
	}
}

// secret returns 32 random bytes as text.
func (s *Service) secret() (string, error) {
	b := make([]byte, 32)
	if _, err := io.ReadFull(s.cfg.Rand, b); err != nil {
		return "", fmt.Errorf("making a secret: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (s *Service) provider(id string) (provider, error) {
	p, ok := s.by[id]
	if !ok {
		return nil, fault.New(fault.NotFound, "sso_unknown_provider", "This server has no such way to sign in. An operator names them in accounts.providers of config.json.")
	}
	return p, nil
}

// maxAnswer bounds what a provider may answer, in bytes.
const maxAnswer = 1 << 20

// bounded reads no answer without end.
type bounded struct{ http.RoundTripper }

var errTooLong = errors.New("the answer is longer than 1 MiB")

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	inner := b.RoundTripper
	inner = cmp.Or(inner, http.DefaultTransport)
	resp, err := inner.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
