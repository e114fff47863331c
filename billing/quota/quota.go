// Package quota enforces limits: each user's hours and concurrent sandboxes, sizes, and the budgets of teams and of the instance. It decides
// about starts, in the transaction that reads the usage; the enforce files limit what runs already.
//
// A team has a plan that an operator assigned or that it pays for, else the instance's default plan. A user's quota is the plan's, except
// for limits set by hand. A budget belongs to a team. A nil limit does not apply. Hours, concurrency, sizes and creations are limited in
// metered executors only (the price book says which those are), money in executors with a price: other work is never refused.
//
// Money is int64 nano-USD, time int64 ms by the ledger's clock, a month a calendar month (UTC).
package quota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/locks"
)

const (
	hourMs   = 3_600_000
	minuteMs = 60_000

	// teamCreations is how many times the creations of a user in an hour a whole team may have.
	teamCreations = 5
)

// Quota is what somebody may use. nil = no bound.
type Quota struct {
	HoursMonth     *int64 // of metered executors, of a user in a team, in a month
	Concurrent     *int64 // concurrent sandboxes of metered executors, of a user in a team
	ConcurrentTeam *int64 // of the whole team
	CPUs           *int64 // largest size
	MemoryMB       *int64
	SessionMinutes *int64 // longest run of a sandbox
	CreationsHour  *int64 // sandboxes of metered executors that a user may make in an hour; a team five times as many
	Seats          *int64 // members of the team
}

// Plan is what a team may choose, or is given.
type Plan struct {
	ID            string // a slug
	Name          string
	Description   string
	Position      int64
	Offered       bool // teams may choose it themselves
	Quota         Quota
	SeatMonthNano int64 // price of a seat a month, whole cents
	TrialDays     int64
	MeteredUsage  bool // usage is reported to the payment service and billed on top
	UpdatedBy     string
	UpdatedAt     int64
}

// TeamPlan is how a team stands with its plan and payments.
type TeamPlan struct {
	TeamID       string
	PlanID       string // "" = the default one
	Source       string // operator, stripe; "" = nobody chose
	PaidPlanID   string // what is paid for, whatever PlanID is
	Status       string // of the subscription
	Seats        int64  // paid
	PastDueSince int64
	SuspendedFor string // why nothing paid begins: dispute, fraud
	UpdatedAt    int64
}

// Overdue reports whether a payment has been due for longer than so many days. A plan that an operator assigned stays, even if payments are due.
func (t TeamPlan) Overdue(now, days int64) bool {
	return t.Source != ByOperator && t.PastDueSince != 0 && now >= t.PastDueSince+days*24*hourMs
}

// Who gave a team its plan.
const (
	ByOperator = "operator"
	ByStripe   = "stripe"
)

// Budget is what a team may spend in a month.
type Budget struct {
	LimitNano      *int64
	CountTokens    bool    // what models cost counts in it
	Thresholds     []int64 // percent, ascending: people are notified when each is passed
	Overage        bool    // at 100 % work goes on, up to the cap
	OverageCapNano *int64  // beyond the limit
	GraceSeconds   int64   // for how long work goes on after 100 %
	NotifyApp      bool
	NotifyMail     bool // owners and admins
	NotifyWebhooks bool
	UpdatedBy      string
	UpdatedAt      int64
}

// StopAt is what may be spent before nothing paid begins and what runs is stopped; nil = there is no such amount.
func (b Budget) StopAt() *int64 {
	if b.LimitNano == nil {
		return nil
	}
	if !b.Overage {
		return b.LimitNano
	}
	if b.OverageCapNano == nil {
		return nil
	}
	return new(plus(*b.LimitNano, *b.OverageCapNano))
}

// Limit is a value somebody gave by hand; nil in it = no bound.
type Limit struct {
	Value      *int64
	ByOperator bool // may go beyond the plan
}

// Names of what may be given by hand.
const (
	HoursMonth     = "hours_month"
	Concurrent     = "concurrent"
	CPUs           = "cpus"
	MemoryMB       = "memory_mb"
	SessionMinutes = "session_minutes"
)

// Fields are what may be given by hand, in order.
var Fields = []string{HoursMonth, Concurrent, CPUs, MemoryMB, SessionMinutes}

// ByHand is what somebody said of one user: what is absent is the plan's.
type ByHand map[string]Limit

// field maps a name to its field in a quota.
func (q *Quota) field(name string) **int64 {
	switch name {
	case HoursMonth:
		return &q.HoursMonth
	case Concurrent:
		return &q.Concurrent
	case CPUs:
		return &q.CPUs
	case MemoryMB:
		return &q.MemoryMB
	case SessionMinutes:
		return &q.SessionMinutes
	}
	return nil
}

// over puts what was said by hand over a plan's quota. What an admin said holds within the plan.
func (q Quota) over(hand ByHand) Quota {
	for name, l := range hand {
		at := q.field(name)
		if at == nil {
			continue // of a newer version
		}
		if !l.ByOperator && beyond(l.Value, *at) {
			continue
		}
		*at = l.Value
	}
	return q
}

// beyond reports whether a value is more than a bound.
func beyond(v, bound *int64) bool {
	return bound != nil && (v == nil || *v > *bound)
}

// Member is a user of a team.
type Member struct {
	UserID string
	Name   string
}

// Running is what is open in the ledger.
type Running struct {
	SandboxID   string
	TeamID      string
	UserID      string
	WorkspaceID string
	Executor    string
	Metered     bool
	PriceNano   int64 // an hour
	StartedAt   int64
	SeenAt      int64
}

// Reservation is a start that was let in and does not run yet.
type Reservation struct {
	SandboxID string
	TeamID    string // "" = the instance's own
	UserID    string
	Executor  string
	PriceNano int64 // an hour
	CostNano  int64 // what is held back for it
	HoursMs   int64 // 0 = its executor is not metered
	CreatedAt int64
	ExpiresAt int64
}

// Alert is a threshold that was passed.
type Alert struct {
	Scope   string // user_hours, team_budget, team_overage
	ScopeID string
	Period  string
	Percent int64
	Used    int64 // nano-USD, or ms
	LimitAt int64
	NotedAt int64
}

// KillSwitch prevents everybody from starting sandboxes in metered and paid executors.
type KillSwitch struct {
	On     bool   `json:"on"`
	Stop   bool   `json:"stop"` // what runs is stopped, after a grace
	Reason string `json:"reason"`
	By     string `json:"by"`
	At     int64  `json:"at"`
}

// Store is the storage that the service needs. A team's id of "" means the instance's own sandboxes.
type Store interface {
	PlanStore
	LimitStore
	SpendingStore
	ReservationStore
	ModelStore
	MarkStore

	Tx(ctx context.Context, fn func(ctx context.Context) error) error
}

// PlanStore keeps plans and which team has which.
type PlanStore interface {
	Plans(ctx context.Context) ([]Plan, error)
	// Plan returns one; fault.NotFound when there is none.
	Plan(ctx context.Context, id string) (Plan, error)
	// PutPlan stores a plan, new or not.
	PutPlan(ctx context.Context, p Plan) error
	DeletePlan(ctx context.Context, id string) error
	// TeamsOf are the teams that were given the plan, or pay for it.
	TeamsOf(ctx context.Context, planID string) ([]string, error)
	// TeamPlan returns how a team stands: the zero TeamPlan when nobody said anything.
	TeamPlan(ctx context.Context, teamID string) (TeamPlan, error)
	PutTeamPlan(ctx context.Context, p TeamPlan) error
}

// LimitStore stores the limits of users and teams, alerts and grace periods.
type LimitStore interface {
	Members(ctx context.Context, teamID string) ([]Member, error)
	// ByHand is what was said of the users of a team, by user.
	ByHand(ctx context.Context, teamID string) (map[string]ByHand, error)
	// UserByHand returns the limits that were set for a user; nil when none were.
	UserByHand(ctx context.Context, teamID, userID string) (ByHand, error)
	// PutByHand stores the limits of a user; an empty value deletes them.
	PutByHand(ctx context.Context, teamID, userID string, h ByHand, by string, at int64) error
	// Budget returns a team's; false when it has none of its own.
	Budget(ctx context.Context, teamID string) (Budget, bool, error)
	PutBudget(ctx context.Context, teamID string, b Budget) error
	// Alerts are a team's in a month.
	Alerts(ctx context.Context, teamID, period string) ([]Alert, error)
	// Counting reports whether work of the team goes on by a grace of its budget.
	Counting(ctx context.Context, teamID string) (bool, error)
}

// SpendingStore reads what segments cost and for how long they ran.
type SpendingStore interface {
	// Closed is what a team's segments cost that began in [from, to) and have ended.
	Closed(ctx context.Context, teamID string, from, to int64) (int64, error)
	// ClosedOfAll is the same of everybody.
	ClosedOfAll(ctx context.Context, from, to int64) (int64, error)
	// ClosedHours is for how long metered segments of the team's users ran that began in [from, to) and have ended, ms by user.
	ClosedHours(ctx context.Context, teamID string, from, to int64) (map[string]int64, error)
	// ClosedHoursOf is the same of one user.
	ClosedHoursOf(ctx context.Context, teamID, userID string, from, to int64) (int64, error)
	// Running are a team's open segments, RunningOfAll everybody's.
	Running(ctx context.Context, teamID string) ([]Running, error)
	RunningOfAll(ctx context.Context) ([]Running, error)
	// Ran reports whether a sandbox has ever run.
	Ran(ctx context.Context, sandboxID string) (bool, error)
}

// ReservationStore keeps what is held back for sandboxes that are being made, and how many were.
type ReservationStore interface {
	// Reservations are those that have not expired.
	Reservations(ctx context.Context, now int64) ([]Reservation, error)
	// Reserve stores one; one of the same sandbox is replaced. Expired ones go.
	Reserve(ctx context.Context, r Reservation) error
	// Renew has those of sandboxes expire later.
	Renew(ctx context.Context, sandboxIDs []string, expiresAt int64) error
	// Unreserve drops a sandbox's; false when there was none.
	Unreserve(ctx context.Context, sandboxID string) (bool, error)
	// Creations counts a team's since a time, and those of one user among them.
	Creations(ctx context.Context, teamID, userID string, since int64) (team, user, oldest int64, err error)
	// NoteCreation notes one, once for each sandbox, and forgets those before a time. DropCreation takes it back.
	NoteCreation(ctx context.Context, sandboxID, teamID, userID string, at, forget int64) error
	DropCreation(ctx context.Context, sandboxID string) error
}

// ModelStore keeps what is held back for questions to models.
type ModelStore interface {
	// ModelHolds is what is held back for a team's questions to models that began since from and count at now: of those under way, and
	// of those that were settled a moment ago.
	ModelHolds(ctx context.Context, teamID string, from, now int64) (open, settled int64, err error)
	// HoldModel stores what is held back for a question. Expired ones of the team go.
	HoldModel(ctx context.Context, h ModelHold) error
	// RenewModel has a hold that is not settled expire later.
	RenewModel(ctx context.Context, requestID string, expiresAt int64) error
	// SettleModel stores what a question cost, and until when its hold still counts. What cost nothing is dropped.
	SettleModel(ctx context.Context, requestID string, costNano, expiresAt int64) error
}

// MarkStore keeps small values under a name.
type MarkStore interface {
	// Mark returns the value stored under a name, "" for none.
	Mark(ctx context.Context, name string) (string, error)
	SetMark(ctx context.Context, name, value string) error
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	// Now is the ledger's time, ms UTC.
	Now func() int64
	// DefaultPlan is what a team has that nobody gave one; nil or "" = enterprise.
	DefaultPlan func(ctx context.Context) string
	// Teams counts the instance's teams: the time of this server's own isolating places counts in people's hours while there are several.
	// nil = it never does.
	Teams func(ctx context.Context) (int, error)
	// OnServer are the kinds of places of this server that isolate.
	OnServer []string
	// InstanceLimit is the instance's budget; nil = no bound.
	InstanceLimit func(ctx context.Context) (limitNano int64, limited bool, err error)
	// Tokens is what models cost a team in [from, to), how many answers have no known cost, and what those may have cost; nil = nobody meters.
	// Questions for which something is held back (HoldModel) are not in it until they are answered.
	Tokens func(ctx context.Context, teamID string, from, to int64) (nano, unknown, estimate int64, err error)
	// PastDueDays is for how long a team whose payment failed goes on.
	PastDueDays int
	// GraceSeconds is for how long work goes on after its limit where a team says nothing.
	GraceSeconds int
	// Lease is what a start holds back until it runs: as if it ran for so long. 0 = 5 min.
	Lease time.Duration
	// Pending is how long the reservation of a start counts after its server died; 0 = 2 min.
	Pending time.Duration
	Events  events.Publisher // optional
	Audit   audit.Appender   // optional: records what the service does on its own
	Log     *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Store == nil || c.Now == nil {
		return errors.New("quota: a Service needs a Store and the ledger's time")
	}
	if c.Lease <= 0 {
		c.Lease = 5 * time.Minute
	}
	if c.Pending <= 0 {
		c.Pending = 2 * time.Minute
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Service decides. Safe for concurrent use; it starts no goroutine.
type Service struct {
	cfg Config

	turn   locks.Turn  // of who decides about sandboxes: transactions that would only make each other run again
	models locks.Keyed // of who decides about models, by team

	mu       sync.Mutex
	changed  []func(teamID string)
	sums     map[string]monthSum // what models cost, by team
	sequence int64               // counts changes: a sum that was read across one is not kept
	starts   map[string]int64    // those under way that were let in, by sandbox: when, ms
}

// New makes a Service. It starts nothing and panics on a Config without Store or Now.
func New(cfg Config) *Service {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Service{cfg: cfg, turn: locks.NewTurn(), sums: make(map[string]monthSum), starts: make(map[string]int64)}
}

// OnChanged registers fn, called when what a team may use has changed: sandboxes that a limit suspended may resume. teamID "" = every team's.
// fn must not block.
func (s *Service) OnChanged(fn func(teamID string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, fn)
}

// Changed notifies subscribers that what a team may use has changed, or what its budget counts; "" = every team's.
func (s *Service) Changed(ctx context.Context, teamID string) {
	s.mu.Lock()
	fns := s.changed
	s.sequence++
	if teamID == "" {
		clear(s.sums)
	} else {
		delete(s.sums, teamID)
	}
	s.mu.Unlock()
	for _, fn := range fns {
		fn(teamID)
	}
	if s.cfg.Events == nil || teamID == "" {
		return
	}
	for _, t := range [...]string{"quota.updated", "budget.updated"} {
		s.cfg.Events.Publish(ctx, events.Event{Type: t, ID: teamID, TeamID: teamID, Version: s.cfg.Now()})
	}
}

// plus adds two amounts that are not negative, and stays the most there is where they are more.
func plus(a, b int64) int64 {
	if c := a + b; c >= a {
		return c
	}
	return 1<<63 - 1
}
