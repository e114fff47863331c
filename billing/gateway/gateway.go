// Package gateway is the proxy between agents and models. An agent sends its session's token. The gateway looks up the session, sends the
// request to the provider with the real key of the session's account, which never leaves the server, and streams the answer back. It reads
// the usage from the answer (billing/tokens). It checks budgets, allowed models and limits per minute before it sends anything, and reserves
// what a request may cost until its cost is known.
//
// It speaks Anthropic's Messages and OpenAI's Responses, Chat Completions and Embeddings. It does not know how agents reach it: the server of Handler
// says from which workspace a request comes (Within).
//
// Goroutines: none of its own; those of a request end with it.
package gateway

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// TokenPrefix is what every token of a session begins with.
const TokenPrefix = "pw_session_"

// Grant is what a token stands for.
type Grant struct {
	SessionID   string
	TeamID      string
	WorkspaceID string
	ProjectID   string
	UserID      string // who started the session
	Agent       string
	AccountID   string
}

// Account is how a provider is asked: an address and a key.
type Account struct {
	ID       string
	Provider string // whose API the key is for: anthropic or openai; "" = the address and the key tell
	BaseURL  string // "" = the provider's own
	API      string // which one it says that its address speaks: messages, responses or chat; "" = it does not say
	Key      string
}

// Store is the storage that the service needs.
type Store interface {
	// KeepToken stores that a session's agent shows a token with this hash, in the place of an older one, and that it has not ended.
	KeepToken(ctx context.Context, hash, sessionID, teamID string, at int64) error
	// EndToken revokes it.
	EndToken(ctx context.Context, sessionID string, at int64) error
	// Grant returns what a token stands for whose session goes on; fault.NotFound for any other.
	Grant(ctx context.Context, hash string) (Grant, error)

	// Limits returns the rules of a team, and of every team (TeamID "").
	Limits(ctx context.Context, teamID string) ([]Limit, error)
	// SetLimits replaces the rules of a team, or those of every team ("").
	SetLimits(ctx context.Context, teamID string, limits []Limit) error

	// Passed goes through the requests that began in [from, to), the newest most of them.
	Passed(ctx context.Context, from, to int64, most int, each func(Passed)) error
}

// Meter counts what was used; tokens.Meter is one.
type Meter interface {
	Begin(ctx context.Context, r tokens.Request) error
	// Settle keeps what came of a request, and returns what a budget counts for it, nano-USD.
	Settle(ctx context.Context, r tokens.Request) (countedNano int64, err error)
	// Most is what a question may cost at most, nano-USD.
	Most(ctx context.Context, a tokens.Ask) (nano int64, err error)
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	Meter Meter
	// Account returns the account of a session, with its key. A fault's words are shown to the agent.
	Account func(ctx context.Context, g Grant) (Account, error)
	// TeamAccount returns the account of a team that the server itself asks with; nil = there is none.
	TeamAccount func(ctx context.Context, teamID string) (accountID string, err error)
	// Budget refuses what there is no money for; nil = nothing is.
	Budget Budget
	// MaxOutput is how many tokens are expected of an answer at most whose request does not bound it; default 128,000.
	MaxOutput int64
	// HoldMost is how long a question waits for money that others hold; default a minute.
	HoldMost time.Duration
	// Client asks providers. It must not bound how long an answer takes, nor unpack it.
	Client *http.Client
	// Check refuses addresses the server does not reach out to; nil = none.
	Check func(url string) error
	Key   []byte // the instance's
	// MaxBody bounds a request, bytes; default 32 MiB, as Anthropic's own.
	MaxBody int64
	// BodyTakes is how long a request may take to come; default 2 minutes.
	BodyTakes time.Duration
	// FirstByte is how long an answer may take to begin; default 10 minutes.
	FirstByte time.Duration
	// Backoff is how long is waited before each further try; default 250 ms, then 1 s.
	Backoff []time.Duration
	// Linger is how long an answer is still read for its usage after the agent has left; default 2 s.
	Linger time.Duration
	Now    func() time.Time
	Log    *slog.Logger
}

// Defaults.
const (
	defaultMaxBody   = 32 << 20
	defaultFirstByte = 10 * time.Minute
	defaultLinger    = 2 * time.Second
	defaultBodyTakes = 2 * time.Minute
	defaultMaxOutput = 128_000
)

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Meter == nil || c.Account == nil || c.Client == nil {
		return errors.New("gateway: a Service needs a Store, a Meter, an Account and a Client")
	}
	if len(c.Key) == 0 {
		return errors.New("gateway: a Service needs a Key")
	}
	if c.MaxBody <= 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.FirstByte <= 0 {
		c.FirstByte = defaultFirstByte
	}
	if c.BodyTakes <= 0 {
		c.BodyTakes = defaultBodyTakes
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = defaultMaxOutput
	}
	if c.HoldMost <= 0 {
		c.HoldMost = holdMost
	}
	if c.Linger <= 0 {
		c.Linger = defaultLinger
	}
	if c.Backoff == nil {
		c.Backoff = []time.Duration{250 * time.Millisecond, time.Second}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Service is the gateway. Safe for concurrent use.
type Service struct {
	cfg         Config
	key         []byte // tokens are derived with it
	counts      counts
	rules       rules
	capacity    capacity
	refusalRows refusalRows
}

// New makes a Service. It starts nothing and panics on an incomplete Config.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	key, err := hkdf.Key(sha256.New, cfg.Key, nil, "parawork gateway tokens 1", 32)
	if err != nil {
		panic(err)
	}
	s := &Service{cfg: cfg, key: key}
	s.counts.since = cfg.Now().UnixMilli()
	s.rules = rules{store: cfg.Store, now: cfg.Now, teams: map[string]teamRules{}, windows: map[windowKey]*window{}}
	s.capacity = capacity{sessions: map[string]int{}, teams: map[string]int64{}}
	return s
}

// Mint returns the token a session's agent shows in the place of a key, and makes it good. It is the same each time for a session, so
// that one which is resumed has the one it had; only its hash is stored.
func (s *Service) Mint(ctx context.Context, sessionID, teamID string) (string, error) {
	if sessionID == "" || teamID == "" {
		return "", errors.New("gateway: a token needs a session and a team")
	}
	token := s.Token(sessionID)
	if err := s.cfg.Store.KeepToken(ctx, hashOf(token), sessionID, teamID, s.cfg.Now().UnixMilli()); err != nil {
		return "", fmt.Errorf("keeping a session's token for the gateway: %w", err)
	}
	return token, nil
}

// Token is what Mint returns for a session, without making it good: to recognise it where it must not be seen.
func (s *Service) Token(sessionID string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(sessionID))
	return TokenPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)))
}

// End makes a session's token good for nothing. One that was never made is no error.
func (s *Service) End(ctx context.Context, sessionID string) error {
	if err := s.cfg.Store.EndToken(ctx, sessionID, s.cfg.Now().UnixMilli()); err != nil {
		return fmt.Errorf("ending a session's token for the gateway: %w", err)
	}
	return nil
}

// hashOf is what is stored of a token. Rows are looked up by it, so that nothing is compared that could be guessed bit by bit.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

type withinKey struct{}

// Within returns a context for requests that come from a workspace's sandbox: tokens of sessions elsewhere are not good there.
func Within(ctx context.Context, workspaceID string) context.Context {
	return context.WithValue(ctx, withinKey{}, workspaceID)
}

var errToken = fault.New(fault.Unauthorized, "gateway_token_invalid",
	"The model gateway does not accept this token: its session has ended, or it never had one. Start the agent in a session of Parawork.")

// grant says whose a request is, by the token it brings.
func (s *Service) grant(r *http.Request) (Grant, string, error) {
	token := r.Header.Get("X-Api-Key")
	if scheme, rest, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(rest)
	}
	if len(token) > 256 || !strings.HasPrefix(token, TokenPrefix) {
		return Grant{}, "", errToken
	}
	g, err := s.cfg.Store.Grant(tenant.All(r.Context(), "a token says whose it is"), hashOf(token))
	if fault.Is(err, fault.NotFound) {
		return Grant{}, "", errToken
	}
	if err != nil {
		return Grant{}, "", fmt.Errorf("reading whose a token is: %w", err)
	}
	if from, ok := r.Context().Value(withinKey{}).(string); ok && from != g.WorkspaceID {
		return Grant{}, "", errToken
	}
	return g, token, nil
}

// capacity bounds what is under way at once.
type capacity struct {
	mu       sync.Mutex
	sessions map[string]int
	teams    map[string]int64 // bytes
	bytes    int64
}

const (
	mostAtOnce = 64        // requests of one session
	mostBytes  = 512 << 20 // bodies that are held, of all
	// mostTeamBytes is a team's part of it: one that holds all it can keeps nobody else out.
	mostTeamBytes = mostBytes / 2
)

// enter takes a place for a request of a session; leave gives it back.
func (r *capacity) enter(sessionID string) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[sessionID] >= mostAtOnce {
		return nil, false
	}
	r.sessions[sessionID]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.sessions[sessionID]--; r.sessions[sessionID] <= 0 {
			delete(r.sessions, sessionID)
		}
	}, true
}

// hold takes room for a team's body of n bytes; false when there is none now.
func (r *capacity) hold(team string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+n > mostBytes && r.bytes > 0 || r.teams[team]+n > mostTeamBytes && r.teams[team] > 0 {
		return false
	}
	r.bytes += n
	r.teams[team] += n
	return true
}

func (r *capacity) give(team string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes -= n
	if r.teams[team] -= n; r.teams[team] <= 0 {
		delete(r.teams, team)
	}
}
