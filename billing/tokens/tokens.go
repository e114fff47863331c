// Package tokens stores the requests to models and their cost: one row for each answer, priced once, from a table of dated prices. It does not know how agents reach a model: the gateway reports requests, or the reader of an agent's transcript.
//
// Rules: what is not known is nil, never 0. An answer is counted once, however often it is reported (session, source and external id). Its
// price is the one of when it began, and its cost is rounded once, half to even; rows of prices never change. Money is int64 nano-USD,
// time int64 ms UTC; no floats are used.
//
// Goroutines: none of its own.
package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
)

// Where an answer is known from.
const (
	FromGateway    = "gateway"    // it passed through the model gateway: exact
	FromTranscript = "transcript" // the agent's own record of its conversation
	FromTelemetry  = "telemetry"  // what the agent reports of itself
)

// What became of a request, where it was no answer. Stable: rows and clients keep them.
const (
	ErrUnderWay    = "under_way"            // it was begun; after the server died, nobody knows what it used
	ErrBudget      = "budget_exceeded"      // a budget or quota forbids it: it was not sent on
	ErrRate        = "rate_limited"         // the team's own rules, not the provider's: it was not sent on
	ErrModel       = "model_not_allowed"    // likewise
	ErrUnreachable = "upstream_unreachable" // nobody answers there
	ErrTimeout     = "upstream_timeout"     // the answer did not begin in time
	ErrUpstream    = "upstream_error"       // the provider said no, or gave up in the middle
	ErrCut         = "cut"                  // the answer ended in the middle
	ErrClientGone  = "client_gone"          // who asked left
)

// Included is the price of what a subscription pays for: it costs nothing more, and nobody knows how much of it that was.
const Included = "included"

// Tokens are counts; nil = unknown. They do not overlap, but for Reasoning.
type Tokens struct {
	Input          *int64 // neither read from a cache nor written to one
	Output         *int64 // with Reasoning
	CacheRead      *int64
	CacheWrite     *int64 // kept for five minutes, or for as long as the provider likes
	CacheWriteHour *int64 // kept for an hour
	Reasoning      *int64 // of Output
}

// None is that of a request that used nothing.
func None() Tokens {
	return Tokens{Input: new(int64), Output: new(int64), CacheRead: new(int64), CacheWrite: new(int64), CacheWriteHour: new(int64), Reasoning: new(int64)}
}

// Prompt is how many tokens the model was given, cached ones included; false when that is not known.
func (t Tokens) Prompt() (int64, bool) {
	if t.Input == nil {
		return 0, false
	}
	return *t.Input + or0(t.CacheRead) + or0(t.CacheWrite) + or0(t.CacheWriteHour), true
}

func or0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Request is one question to a model, with what came of it.
type Request struct {
	ID          string // set by Record
	TeamID      string
	WorkspaceID string
	ProjectID   string
	SessionID   string
	UserID      string // who started the session
	Agent       string
	AccountID   string
	Source      string // FromGateway, FromTranscript, FromTelemetry
	ExternalID  string // what it is called where it comes from
	API         string // messages, responses, chat_completions, embeddings
	Model       string
	Upstream    string // host
	Status      int    // HTTP; 0 = no answer
	Error       string // "" = answered
	Attempts    int
	Tokens
	PriceID  string // set by Record
	CostNano *int64 // set by Record; nil = unknown
	// EstimateNano is set by Record where CostNano is not known: what it may have cost, rather too much. Budgets count it; people are shown
	// that the cost is unknown. nil = nobody can say that either.
	EstimateNano *int64
	FirstByteMs  int64
	DurationMs   int64
	At           int64 // ms UTC: when it began

	// What its price depends on besides the model; not stored.

	// Asked is the model's name as it was asked for, where Model is what the answer says: it is priced where the other is not.
	Asked string
	// Variant is how it was served, "" = as usual: fast, priority, flex. Another price holds.
	Variant string
	// Subscription says that the account pays by the month: tokens count, cost is nobody's.
	Subscription bool
	// Uses are what is paid per use besides tokens, by name: web_search@anthropic. Each has a row of its own among the prices.
	Uses map[string]int64
	// Additional is what else was used on the way, which Tokens do not hold; Record adds it to them.
	Additional []Additional
	// Unpriced says that something was used whose price is not in the table: the cost is unknown.
	Unpriced bool
	// Guess is what may have been used, rather too much, where Tokens do not know it.
	Guess Tokens
}

// Additional is what a provider used on the way to an answer: a summary, or another model's advice.
type Additional struct {
	Model string // "" = the answer's own
	Tokens
}

// believed is t without counts that cannot be: sums of a team's rows must not fail for one of them.
func (t Tokens) believed() Tokens {
	for _, n := range [...]**int64{&t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWriteHour, &t.Reasoning} {
		if *n != nil && (**n < 0 || **n > MostTokens) {
			*n = nil
		}
	}
	return t
}

// add adds what is known.
func (t *Tokens) add(b Tokens) {
	for _, p := range [...]struct {
		to **int64
		n  *int64
	}{{&t.Input, b.Input}, {&t.Output, b.Output}, {&t.CacheRead, b.CacheRead}, {&t.CacheWrite, b.CacheWrite}, {&t.CacheWriteHour, b.CacheWriteHour}, {&t.Reasoning, b.Reasoning}} {
		if p.n != nil && *p.to != nil {
			*p.to = new(**p.to + *p.n)
		}
	}
}

// Sum is what several requests used and cost. A count that some request does not know is the sum of those that do; how many do not
// know their cost is Unknown.
type Sum struct {
	Input, Output, CacheRead, CacheWrite int64 // CacheWrite: of both kinds
	CostNano                             int64
	Requests                             int64
	Unknown                              int64  // requests whose cost nobody knows; those of a subscription are none
	Included                             int64  // requests a subscription pays for
	Source                               string // of the latest
}

// And is what both used together.
func (s Sum) And(o Sum) Sum {
	return Sum{s.Input + o.Input, s.Output + o.Output, s.CacheRead + o.CacheRead, s.CacheWrite + o.CacheWrite, s.CostNano + o.CostNano,
		s.Requests + o.Requests, s.Unknown + o.Unknown, s.Included + o.Included, cmp.Or(s.Source, o.Source)}
}

// Filter says which requests are listed.
type Filter struct {
	TeamID      string
	SessionID   string   // "" = of all
	Model       string   // likewise
	Error       string   // likewise; "any" = only those with one
	NotIn       []string // workspaces that are left out
	From, Until int64    // ms UTC; 0 = no bound
}

// Store is the storage that the service needs.
type Store interface {
	// Keep inserts a request, or completes the one of the same session, source and external id that is under way. False: it was kept
	// already, and stays as it is.
	Keep(ctx context.Context, r Request) (fresh bool, err error)
	// CutUnderWay marks what was under way when an earlier server died.
	CutUnderWay(ctx context.Context) error
	// SumsBySession and SumsByWorkspace return sums by id, without those that have none.
	SumsBySession(ctx context.Context, ids []string) (map[string]Sum, error)
	SumsByWorkspace(ctx context.Context, ids []string) (map[string]Sum, error)
	// SpentOnModels is what a team's requests that began in [from, to) cost, how many do not know, and what those may have cost.
	SpentOnModels(ctx context.Context, teamID string, from, to int64) (nano, unknown, estimate int64, err error)
	Requests(ctx context.Context, f Filter, p page.Page) (items []Request, next string, err error)
	// GatewaySpan is when a session's agent could reach the gateway; until 0 = it still can. False: never.
	GatewaySpan(ctx context.Context, sessionID string) (from, until int64, ok bool, err error)

	ModelPrices(ctx context.Context) ([]Price, error)
	// AddModelPrice stores a row; false when there is one of that name and time.
	AddModelPrice(ctx context.Context, p Price) (bool, error)
}

// Config is what a Meter is made of.
type Config struct {
	Store  Store
	Events events.Publisher // optional
	Now    func() time.Time
	Log    *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil {
		return errors.New("tokens: a Meter needs a Store")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Meter counts and prices. Safe for concurrent use.
type Meter struct {
	cfg Config

	mu     sync.Mutex
	prices []Price // as read at readAt
	readAt time.Time
}

// New makes a Meter. It starts nothing and panics on a Config without a Store.
func New(cfg Config) *Meter {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Meter{cfg: cfg}
}

// lateReport is how long after a session's access to the gateway ended its transcript may still report what passed there, ms.
const lateReport = 60_000

// Record stores a request and its cost. A request that is reported again counts once. Requests of a session that uses the gateway are counted
// there alone: its transcript's reports of the same time are dropped.
func (m *Meter) Record(ctx context.Context, r Request) error {
	_, err := m.Settle(ctx, r)
	return err
}

// Settle is Record, and returns what a budget counts for the request, nano-USD: its cost, or an estimate of it, or 0 where nobody can say.
func (m *Meter) Settle(ctx context.Context, r Request) (countedNano int64, err error) {
	if r.Source != FromGateway {
		from, until, ok, err := m.cfg.Store.GatewaySpan(ctx, r.SessionID)
		if err != nil {
			return 0, fmt.Errorf("reading whether a session goes through the gateway: %w", err)
		}
		if ok && r.At >= from && (until == 0 || r.At <= until+lateReport) {
			return 0, nil
		}
	}
	r.ID = id.New("req") // a row that is there already keeps its own
	r.ExternalID = cmp.Or(r.ExternalID, r.ID)
	r.Attempts = max(r.Attempts, 1)
	r.PriceID, r.CostNano, r.EstimateNano = "", nil, nil
	if reported := r.Tokens; reported.believed() != reported {
		r.Tokens, r.Unpriced = reported.believed(), true
	}
	r.Additional = slices.Clone(r.Additional)
	for i := range r.Additional {
		r.Additional[i].Tokens = r.Additional[i].believed()
	}
	if r.Error != ErrUnderWay {
		if err := m.price(ctx, &r); err != nil {
			return 0, err
		}
	}
	if err := m.estimate(ctx, &r); err != nil {
		return 0, err
	}
	for _, b := range r.Additional {
		r.Tokens.add(b.Tokens)
	}
	fresh, err := m.cfg.Store.Keep(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("keeping what a model was asked: %w", err)
	}
	if fresh && r.Error != ErrUnderWay && r.SessionID != "" && m.cfg.Events != nil {
		m.cfg.Events.Publish(ctx, events.Event{Type: "tokens.updated", ID: r.SessionID, WorkspaceID: r.WorkspaceID, TeamID: r.TeamID, Version: m.cfg.Now().UnixMilli()})
	}
	if r.CostNano != nil {
		return *r.CostNano, nil
	}
	return or0(r.EstimateNano), nil
}

// Begin keeps that a request was begun: should the server die before Record, it is there, what it used is unknown, and budgets count its
// Guess.
func (m *Meter) Begin(ctx context.Context, r Request) error {
	r.Error, r.Status = ErrUnderWay, 0
	return m.Record(ctx, r)
}

// Recover marks what an earlier server left under way.
func (m *Meter) Recover(ctx context.Context) error {
	if err := m.cfg.Store.CutUnderWay(ctx); err != nil {
		return fmt.Errorf("marking what was under way: %w", err)
	}
	return nil
}

// OfSessions is what sessions used so far, by id; one that asked nothing is absent.
func (m *Meter) OfSessions(ctx context.Context, ids ...string) (map[string]Sum, error) {
	return m.cfg.Store.SumsBySession(ctx, ids)
}

// OfWorkspaces is what the sessions of workspaces used so far, by the workspace's id; one in which nothing was asked is absent.
func (m *Meter) OfWorkspaces(ctx context.Context, ids ...string) (map[string]Sum, error) {
	return m.cfg.Store.SumsByWorkspace(ctx, ids)
}

// Spent is what a team's requests that began in [from, to) cost, how many of them nobody knows the cost of, and what those may have cost.
func (m *Meter) Spent(ctx context.Context, teamID string, from, to int64) (nano, unknown, estimate int64, err error) {
	return m.cfg.Store.SpentOnModels(ctx, teamID, from, to)
}

// Requests lists requests, newest first.
func (m *Meter) Requests(ctx context.Context, f Filter, p page.Page) ([]Request, string, error) {
	return m.cfg.Store.Requests(ctx, f, p)
}
