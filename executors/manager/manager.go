// Package manager makes, reuses, checks and ends sandboxes: one live sandbox per workspace. Package choice decides where a workspace may
// run,
// package metering what a sandbox costs, and package pool makes sandboxes ahead of time.
//
// The Manager stores a sandbox's row as starting before it makes the sandbox, and the handle before first use. So whenever the server
// dies, the next one finds what exists (Recover) and reaps what has ended (Run). It leaves a sandbox without a row alone.
//
// Manager, slot and place are one package because a workspace's slot (its turn, its mutex) and the record of the sandbox in it are one state
// machine: making, pausing, waking, resting, checking, leaving and destroying each read and write the same fields under the same turn. A
// method belongs to the slot when it needs the turn or changes what is in the slot, to the place when it only asks the live sandbox, and to
// the
// Manager when it concerns all of them, or finds the slot first.
//
// Goroutines: Manager.Run has one each for health, the reaper, sandboxes that could not be dialed, executors that changed, and the pool.
// Checks, and makings whose caller has left, run in goroutines of their own, for which Run waits.
//
// Locks, in the order in which they are taken: a slot's turn; Manager.mu, which guards the set of slots and the participants; slot.mu, which
// guards what is known of the sandbox; and last, each alone, those of a Place, a making, the reaper, the checks and Metering. A turn is held
// while a sandbox is made, moved or ended. No mutex is held during a call to an executor, a guest or the store, except a making's while its
// steps are stored: an older state must not be written after a newer one.
package manager

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
)

// Store is the storage the Manager needs.
type Store interface {
	// InsertSandbox stores a new open sandbox. A workspace has at most one open sandbox: a second is a fault.Conflict.
	InsertSandbox(ctx context.Context, r executors.Record) error
	// UpdateSandbox writes all of the sandbox r.Handle.ID that may change in its life: everything except its owner, who asked for it and
	// when it began. An ended sandbox stays ended.
	UpdateSandbox(ctx context.Context, r executors.Record) error
	// OpenSandboxes returns every sandbox that has not ended.
	OpenSandboxes(ctx context.Context) ([]executors.Record, error)
	// Sandbox returns a sandbox, open or ended; fault.NotFound when there never was one, or its workspace is gone.
	Sandbox(ctx context.Context, id string) (executors.Record, error)
	// LastSandbox returns the newest sandbox of a workspace, open or ended; fault.NotFound when there never was one.
	LastSandbox(ctx context.Context, workspaceID string) (executors.Record, error)
	// LastSync returns the sync state of a workspace in a sandbox with a disk of its own. The zero Sync when nothing is known.
	LastSync(ctx context.Context, workspaceID string) (executors.Sync, error)
	// TeamSandboxes returns the newest sandbox of each workspace of a team.
	TeamSandboxes(ctx context.Context, teamID string, workspaceIDs ...string) ([]executors.Record, error)
}

// Workspaces answers what the Manager needs to know about a workspace.
type Workspaces interface {
	// Spec returns the sandbox the workspace needs (the Manager sets Spec.ID) and its kind; "" and Auto mean the strongest available.
	Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error)
}

// Config configures a Manager.
type Config struct {
	Executors    *executors.Registry
	Choice       *choice.Chooser
	Metering     *metering.Metering
	Pool         *pool.Pool // the warm pool; nil = none
	Store        Store
	Workspaces   Workspaces
	Events       events.Publisher // optional
	Now          func() time.Time
	After        func(time.Duration) <-chan time.Time                  // the clock of health checks and reaper; default time.After
	HealthEvery  time.Duration                                         // default 15 s
	ReapEvery    time.Duration                                         // default 1 min
	KeepRemnants time.Duration                                         // how long the remnants of a gone sandbox stay readable; default 15 min
	DialTimeout  time.Duration                                         // of one hello; default 5 s
	Notify       func(context.Context, executors.Note)                 // notes in a workspace's timeline what happened to its sandbox unasked; optional
	IdleAfter    func(executors.Kind, executors.Purpose) time.Duration // how long a sandbox may be idle before it is ended; 0 = forever; optional
	Counters     *executors.Counters                                   // counts what happens; default: its own
	Log          *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.Executors == nil || c.Choice == nil || c.Metering == nil || c.Store == nil || c.Workspaces == nil {
		return errors.New("manager: a Manager needs Executors, Choice, Metering, Store and Workspaces")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.HealthEvery <= 0 {
		c.HealthEvery = 15 * time.Second
	}
	if c.ReapEvery <= 0 {
		c.ReapEvery = time.Minute
	}
	if c.KeepRemnants <= 0 {
		c.KeepRemnants = 15 * time.Minute
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 5 * time.Second
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Counters == nil {
		c.Counters = &executors.Counters{}
	}
	c.Counters.Begin(c.Now().UnixMilli())
	return nil
}

// Manager makes, reuses, checks and ends sandboxes: one live sandbox per workspace. Safe for concurrent use.
//
// Recover is called once at start, before anything else; Run checks health and reaps.
type Manager struct {
	cfg Config

	mu           sync.Mutex
	slots        map[string]*slot // by workspace id
	participants participants
	fallBack     func(ctx context.Context, workspaceID string, cause error) (bool, error)
	ends         map[string]string // why sandboxes were ended that no person ended, in words
	meters       *meter.Meters
	still        atomic.Int64 // paused and unreachable sandboxes: read at every output of a terminal
	reaper       *reaper
	checks       *checks
	work         tasks.Group // flights whose callers have left, and checks; closed when Run ends
}

// slot holds one workspace's sandbox, now or in future.
type slot struct {
	m           *Manager
	workspaceID string
	turn        locks.Turn // making, recovering and destroying take turns
	usedAt      int64      // ms UTC of its last use; under the Manager's mu

	mu     sync.Mutex
	place  *place            // the live sandbox, nil when there is none
	flight *flight           // an Ensure under way
	stray  *executors.Record // an open record whose sandbox could not be reached yet
}

// place is a live sandbox with the state that only the Manager uses.
type place struct {
	*executors.Place
	m *Manager

	sandbox atomic.Pointer[executors.Sandbox]
	record  executors.Record       // under the slot's mu once the sandbox is live
	paused  atomic.Pointer[string] // why it is suspended, as people see it; nil = it is not
	home    atomic.Bool            // at the last request the server had copied everything it held, see Participant.Home
	waking  atomic.Bool            // somebody is waking it: changed with the slot's turn
	away    atomic.Pointer[error]  // why its executor cannot be reached now; nil = it can

	// Under the slot's mu.
	silent     int    // consecutive failed health checks
	healthAt   int64  // ms UTC of the last good answer
	worriedAt  int64  // ms UTC of the last check requested because the guest could not be dialed
	idleAt     int64  // ms UTC since when it is idle, 0 = it is not
	idleUses   uint64 // its use count at that time
	extendedAt int64  // ms UTC when its lease was last extended in this run
	closing    bool   // it is being ended on purpose: callers of Ensure wait for the next sandbox
}

// box returns the executor's sandbox.
func (p *place) box() executors.Sandbox { return *p.sandbox.Load() }

func (p *place) setBox(sb executors.Sandbox) { p.sandbox.Store(&sb) }

// New makes a Manager. It starts nothing and panics on a Config that lacks a required field.
func New(cfg Config) *Manager {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	m := &Manager{cfg: cfg, slots: make(map[string]*slot), ends: make(map[string]string)}
	m.reaper, m.checks = newReaper(m), newChecks(m)
	return m
}

// UnreachableSandbox returns the id of the workspace's sandbox while it exists but could not be reached, else "". The health check looks for
// such a sandbox until it is live again, or turns out to be gone.
func (m *Manager) UnreachableSandbox(workspaceID string) string {
	s := m.slot(workspaceID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stray == nil {
		return ""
	}
	return s.stray.Handle.ID
}

// slot returns the workspace's slot, and makes it on first use.
func (m *Manager) slot(workspaceID string) *slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.slots[workspaceID]
	if !ok {
		s = &slot{m: m, workspaceID: workspaceID, turn: locks.NewTurn()}
		m.slots[workspaceID] = s
	}
	s.usedAt = m.now()
	return s
}

// slotKept is how long an empty slot stays. It is far longer than any caller uses a slot it was given, so that two slots of one workspace
// are never in use.
const slotKept = time.Hour

// sweepSlots drops the slots of workspaces that have had no sandbox for a while and are not in use.
func (m *Manager) sweepSlots() {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now() - slotKept.Milliseconds()
	for id, s := range m.slots {
		if s.usedAt <= old && s.empty() {
			delete(m.slots, id)
		}
	}
}

// empty reports whether nothing is in the slot and nobody has its turn.
func (s *slot) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place == nil && s.flight == nil && s.stray == nil && !s.turn.Locked()
}

// Live returns the workspace's live sandbox without making one.
func (m *Manager) Live(workspaceID string) (*executors.Place, bool) {
	if p, ok := m.live(workspaceID); ok {
		return p.Place, true
	}
	return nil, false
}

// live is Live for the Manager's own code.
func (m *Manager) live(workspaceID string) (*place, bool) {
	m.mu.Lock()
	s := m.slots[workspaceID]
	m.mu.Unlock()
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place, s.place != nil
}

// OfKind returns the live sandboxes of a kind, or of a family.
func (m *Manager) OfKind(k executors.Kind) []*executors.Place {
	var out []*executors.Place
	for _, p := range m.places() {
		if p.Kind == k || p.Kind.Base() == k {
			out = append(out, p.Place)
		}
	}
	return out
}

// publish notifies the team that the sandbox changed.
func (m *Manager) publish(ctx context.Context, r executors.Record) {
	if m.cfg.Events == nil {
		return
	}
	m.cfg.Events.Publish(ctx, events.Event{Type: "sandbox.updated", ID: r.Handle.ID, WorkspaceID: r.WorkspaceID,
		TeamID: r.TeamID, Version: m.now()})
}

func (m *Manager) now() int64 { return m.cfg.Now().UnixMilli() }
