// Package billing keeps the ledger: what ran where, for whom, for how long, and what that costs. It does not know how executors work: it
// receives usage intervals (metering.Ledger) and writes segments.
//
// Rules: a sandbox has one open segment at most, and its segments never overlap. A segment begins when its sandbox runs. Its end time comes
// from the best source: the executor's own record, then this server, then the last heartbeat; never "now" for a sandbox that was found gone. A
// segment has one price, lies within one day (UTC), and its cost is rounded once, half to even. Closed segments never change. Money is int64 nano-USD,
// time int64 ms UTC; no floats are used.
//
// Goroutines: none of its own; Run adds up hours.
package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/internal/events"
)

// Nano is how many nano-USD a dollar has.
const Nano = 1_000_000_000

const (
	hourMs = 3_600_000
	dayMs  = 24 * hourMs

	// mostPrice bounds the price of an hour ($100): a day of it, in nano-USD times ms, fits an int64.
	mostPrice = price.MostHour
)

// End sources of a segment whose run goes on in the next segment.
const (
	endByDay   = "day"   // another day began
	endByPrice = "price" // it costs something else from then on
	endByClock = "clock" // the server's clock was put forward
)

// Segment is one metered interval in which a sandbox ran.
type Segment struct {
	ID          string
	TeamID      string // "" = the instance's own, as of the pool
	WorkspaceID string
	SandboxID   string
	UserID      string
	Executor    string
	Purpose     string
	CPUs        int
	MemoryMB    int64
	ProjectID   string // "" = the store finds it by the workspace
	Metered     bool   // its time counts in people's hours
	PriceID     string // row of the price book, "" = none
	PriceNano   int64  // an hour
	AdjustsID   string // a correction of that segment, which stays as it was
	StartedAt   int64
	SeenAt      int64 // when it was last known to run
	EndedAt     int64 // 0 = it is open
	EndSource   string
	CostNano    int64 // up to SeenAt, or EndedAt
}

// Store is the storage that the service needs.
type Store interface {
	Reports
	Rolls
	SegmentStore
	BudgetStore
	ClockStore

	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// SegmentStore keeps what ran, and for how long.
type SegmentStore interface {
	// OpenSegments returns the segments that have not ended.
	OpenSegments(ctx context.Context) ([]Segment, error)
	// OpenSegment returns a sandbox's; false when it has none.
	OpenSegment(ctx context.Context, sandboxID string) (Segment, bool, error)
	// LastEnd is when a sandbox's latest segment ended, and which that is; 0 = it has none that ended.
	LastEnd(ctx context.Context, sandboxID string) (at int64, segmentID string, err error)
	// LatestTime is the latest time any segment names.
	LatestTime(ctx context.Context) (int64, error)
	InsertSegment(ctx context.Context, s Segment) error
	// UpdateSegment writes SeenAt, EndedAt, EndSource and CostNano. It does not change a segment that has ended.
	UpdateSegment(ctx context.Context, s Segment) error
	// BeatSegments writes SeenAt and CostNano of the open segments of sandboxes.
	BeatSegments(ctx context.Context, sandboxIDs []string, seenAt int64) error
}

// BudgetStore keeps what the instance's budget was warned of.
type BudgetStore interface {
	// Spent is what segments that began in [from, to) cost.
	Spent(ctx context.Context, from, to int64) (int64, error)
	// NoteAlert stores that a threshold was passed; false when it was already.
	NoteAlert(ctx context.Context, a Alert) (fresh bool, err error)
	// DropAlerts forgets thresholds of a period above percent.
	DropAlerts(ctx context.Context, period string, percent int) error
}

// ClockStore keeps how far the ledger's time is ahead of the server's clock.
type ClockStore interface {
	// Ahead is how far the ledger's time was ahead of the server's clock, ms.
	Ahead(ctx context.Context) (int64, error)
	SetAhead(ctx context.Context, ms int64) error
}

// Prices is the price book; see billing/price.
type Prices interface {
	// Quote is what an hour of a sandbox of a size costs at a time.
	Quote(executor string, cpus int, memoryMB, at int64) price.Quote
	// Next is when another price of the executor holds than at after; false when none is known.
	Next(executor string, after int64) (int64, bool)
}

// Budget is what may be spent in a month (UTC). Limited is false when there is no bound.
type Budget struct {
	LimitNano int64
	Limited   bool
}

// Admission decides about what begins; see quota.Service.
type Admission interface {
	// Counts reports whether the time of an executor counts in users' hours although the price book has no price for it.
	Counts(ctx context.Context, kind string) (bool, error)
	// Admit refuses a start, or holds back what it may cost until it runs.
	Admit(ctx context.Context, s executors.UsageInterval) error
	// Drop gives that back in the transaction of ctx, which notes that it runs; Release when it did not begin after all.
	Drop(ctx context.Context, sandboxID string) error
	Release(ctx context.Context, sandboxID string) error
}

// Config is what a Ledger is made of.
type Config struct {
	Store  Store
	Prices Prices                                    // nil = the prices of usage intervals
	Budget func(ctx context.Context) (Budget, error) // of the instance; nil = no bound
	Admit  Admission                                 // decides about what begins; nil = the instance's budget alone does
	Notify func(ctx context.Context, a Alert) error  // notifies people that a threshold was passed, in the transaction of ctx that records it; optional
	Events events.Publisher                          // optional
	Clock  *Clock                                    // its time, which others read as well; nil = one of its own
	After  func(time.Duration) <-chan time.Time      // the clock of Run; default time.After
	Log    *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil {
		return errors.New("billing: a Ledger needs a Store")
	}
	if c.Clock == nil {
		c.Clock = NewClock(nil, nil)
	}
	if c.After == nil {
		c.After = time.After
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Ledger writes segments. Safe for concurrent use. Recover is called once at start, before sandboxes are looked for.
type Ledger struct {
	cfg   Config
	clock *Clock

	turns turns

	mu   sync.Mutex       // never held while the database is asked
	open map[string]*open // by sandbox id: what this process knows to be open

	rollMu sync.Mutex // one roll-up at a time

	alertAt atomic.Int64 // ms UTC: when the budget was looked at last
}

var _ metering.Ledger = (*Ledger)(nil)

// open is the state in memory of an open segment.
type open struct {
	executor  string
	startedAt int64
	seenAt    int64 // as written
	priceNano int64
	metered   bool
}

// billable reports whether every heartbeat of it is written.
func (o *open) billable() bool { return o.priceNano > 0 || o.metered }

// openOf returns the state of a segment.
func openOf(s Segment) *open { return &open{s.Executor, s.StartedAt, s.SeenAt, s.PriceNano, s.Metered} }

// New makes a Ledger. It starts nothing and panics on a Config without a Store.
func New(cfg Config) *Ledger {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Ledger{cfg: cfg, clock: cfg.Clock, open: make(map[string]*open)}
}

// cost is what ms of a price an hour come to: rounded half to even.
func cost(priceNano, ms int64) int64 {
	if priceNano <= 0 || ms <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(priceNano), uint64(ms))
	if hi >= hourMs {
		return 1<<63 - 1 // more than there is money
	}
	q, r := bits.Div64(hi, lo, hourMs)
	if 2*r > hourMs || 2*r == hourMs && q%2 == 1 {
		q++
	}
	if q > 1<<63-1 {
		return 1<<63 - 1
	}
	return int64(q)
}

// Cost is what a sandbox of a price an hour costs that runs for ms.
func Cost(priceNano, ms int64) int64 { return cost(priceNano, ms) }

// dayOf is when the day (UTC) of a time began.
func dayOf(ms int64) int64 { return ms - ms%dayMs }

// Month is the month (UTC) of a time: from its first ms to the next one's.
func Month(ms int64) (name string, from, to int64) {
	t := time.UnixMilli(ms).UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return first.Format("2006-01"), first.UnixMilli(), first.AddDate(0, 1, 0).UnixMilli()
}

// Dollars writes nano-USD for people: "$12.34", small amounts to the hundredth of a cent, and what is less as "under $0.0001".
func Dollars(nano int64) string {
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	if nano > 0 && nano < 50_000 {
		return "under " + sign + "$0.0001"
	}
	if nano > 0 && nano < Nano/10 {
		return fmt.Sprintf("%s$0.%04d", sign, (nano+50_000)/100_000)
	}
	cents := (nano + 5_000_000) / 10_000_000
	return fmt.Sprintf("%s$%d.%02d", sign, cents/100, cents%100)
}
