// Package manager makes, reuses, checks and ends sandboxes: one live sandbox a workspace. Where a workspace may live is choice's to say, what a
// sandbox costs metering's, and what was made ahead of time comes from pool.
//
// A sandbox's row is stored as starting before it is made, and its handle before first use, so that whatever instant the server
// dies at, the next one finds what exists (Recover) and reaps what has ended (Run); a sandbox without a row is left alone.
//
// Manager, slot and place are one package because a workspace's slot (its turn, its mutex) and the record of the place in it are one state
// machine: making, pausing, waking, resting, checking, leaving and destroying each read and write the same fields under the same turn. A method
// stands on the slot where it needs the turn or changes what is in the slot, on the place where it asks the live sandbox alone, and on the
// Manager where it is about all of them, or finds the slot first.
//
// Goroutines: Manager.Run has one for health, one for the reaper, one for places that could not be dialed, one for places that changed and one
// for the pool; checks, and makings whose caller has left, go on in goroutines of their own, for which Run waits.
//
// Locks, in the order in which they are taken: a slot's turn; Manager.mu, which guards which slots there are and who takes part; slot.mu, which
// guards what is known of the sandbox; and last, each alone, those of a Place, a making, the reaper, the checks and Metering. A turn is held
// while a sandbox is made, moved or ended. No mutex is held while an executor, a guest or the store is asked, but a making's while its steps
// are stored: an older one must not come after a newer.
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

// Store is what the Manager needs of the storage.
type Store interface {
	// InsertSandbox stores a new open sandbox. A workspace has at most one open sandbox: a second is a fault.Conflict.
	InsertSandbox(ctx context.Context, r executors.Record) error
	// UpdateSandbox writes all of the sandbox r.Handle.ID that may change in its life: all but whose it is, who asked for it and when it
	// began. An ended sandbox stays ended.
	UpdateSandbox(ctx context.Context, r executors.Record) error
	// OpenSandboxes returns every sandbox that has not ended.
	OpenSandboxes(ctx context.Context) ([]executors.Record, error)
	// Sandbox returns a sandbox, open or ended; fault.NotFound when there never was one, or its workspace is gone.
	Sandbox(ctx context.Context, id string) (executors.Record, error)
	// LastSandbox returns the newest sandbox of a workspace, open or ended; fault.NotFound when there never was one.
	LastSandbox(ctx context.Context, workspaceID string) (executors.Record, error)
	// LastSync says how far a workspace's files are home that live in a place with a disk of its own. The zero Sync when nothing is known.
	LastSync(ctx context.Context, workspaceID string) (executors.Sync, error)
	// TeamSandboxes returns the newest sandbox of each workspace of a team.
	TeamSandboxes(ctx context.Context, teamID string, workspaceIDs ...string) ([]executors.Record, error)
}

// Workspaces is what the Manager needs to know of a workspace.
type Workspaces interface {
	// Spec says what place the workspace needs (Spec.ID is left to the Manager) and of which kind; "" and Auto mean the
	// strongest available.
	Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error)
}

// Config is what a Manager is made of.
type Config struct {
	Executors    *executors.Registry
	Choice       *choice.Chooser
	Metering     *metering.Metering
	Pool         *pool.Pool // sandboxes made ahead of time; nil = none
	Store        Store
	Workspaces   Workspaces
	Events       events.Publisher // optional
	Now          func() time.Time
	After        func(time.Duration) <-chan time.Time                  // the clock of health checks and reaper; default time.After
	HealthEvery  time.Duration                                         // default 15 s
	ReapEvery    time.Duration                                         // default 1 min
	KeepRemnants time.Duration                                         // how long what a gone sandbox left stays readable; default 15 min
	DialTimeout  time.Duration                                         // of one hello; default 5 s
	Notify       func(context.Context, executors.Note)                 // tells a workspace's people what happened to its sandbox by itself; optional
	IdleAfter    func(executors.Kind, executors.Purpose) time.Duration // how long a sandbox may be idle before it is ended; 0 = for ever; optional
	Counters     *executors.Counters                                   // what happens; default: its own
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

// Manager makes, reuses, checks and ends sandboxes: one live sandbox a workspace. Safe for concurrent use.
//
// Recover is called once at start, before anything else; Run keeps the health checks and the reaper going.
type Manager struct {
	cfg Config

	mu           sync.Mutex
	slots        map[string]*slot // by workspace id
	participants participants
	fallBack     func(ctx context.Context, workspaceID string, cause error) (bool, error)
	ends         map[string]string // in words: why sandboxes were ended that people did not end themselves
	meters       *meter.Meters
	still        atomic.Int64 // places that are paused or away: asked at every output of a terminal
	reaper       *reaper
	checks       *checks
	work         tasks.Group // flights that go on when their callers have left, and checks; closed when Run ends
}

// slot is where one workspace's sandbox is, or will be.
type slot struct {
	m           *Manager
	workspaceID string
	turn        locks.Turn // making, recovering and destroying take turns
	usedAt      int64      // ms UTC when it was last asked for; under the Manager's mu

	mu     sync.Mutex
	place  *place            // the live place, nil when there is none
	flight *flight           // an Ensure under way
	stray  *executors.Record // an open record whose sandbox could not be reached yet
}

// place is a live sandbox with what the Manager knows of it beyond what others see.
type place struct {
	*executors.Place
	m *Manager

	sandbox atomic.Pointer[executors.Sandbox]
	record  executors.Record       // under the slot's mu once the place is live
	paused  atomic.Pointer[string] // why it stands still, as people see it; nil = it does not
	home    atomic.Bool            // what was there came home when it was last asked for, see Participant.Home
	waking  atomic.Bool            // somebody is waking it: changed with the slot's turn
	away    atomic.Pointer[error]  // why its place cannot be heard now; nil = it can

	// Under the slot's mu.
	silent     int    // health checks failed in a row
	healthAt   int64  // ms UTC of the last good answer
	worriedAt  int64  // ms UTC of the last check asked for because the guest could not be dialed
	idleAt     int64  // ms UTC since when it is idle, 0 = it is not
	idleUses   uint64 // how often it had been used by then
	extendedAt int64  // ms UTC when its lease was last extended in this run
	closing    bool   // it is being ended on purpose: who asks for a place waits for the next one
}

// box is the place's sandbox.
func (p *place) box() executors.Sandbox { return *p.sandbox.Load() }

func (p *place) setBox(sb executors.Sandbox) { p.sandbox.Store(&sb) }

// New makes a Manager. It starts nothing and panics on a Config without what it needs.
func New(cfg Config) *Manager {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	m := &Manager{cfg: cfg, slots: make(map[string]*slot), ends: make(map[string]string)}
	m.reaper, m.checks = newReaper(m), newChecks(m)
	return m
}

// UnreachableSandbox names the workspace's sandbox while it exists but could not be reached, and "" when there is none such. The health
// check looks for it: it becomes live again, or turns out to be gone.
func (m *Manager) UnreachableSandbox(workspaceID string) string {
	s := m.slot(workspaceID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stray == nil {
		return ""
	}
	return s.stray.Handle.ID
}

// slot returns the workspace's slot, made on first use.
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

// slotKept is how long a slot is kept that nothing is in. It is far longer than anybody who was given the slot takes to use it, so that
// two slots of one workspace are never in use.
const slotKept = time.Hour

// sweepSlots forgets the slots of workspaces that have had no sandbox for a while and are not asked for.
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

// Live returns the workspace's live place without making one.
func (m *Manager) Live(workspaceID string) (*executors.Place, bool) {
	if p, ok := m.live(workspaceID); ok {
		return p.Place, true
	}
	return nil, false
}

// live is Live for the Manager's own.
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

// OfKind returns the live places of a kind, or of a family.
func (m *Manager) OfKind(k executors.Kind) []*executors.Place {
	var out []*executors.Place
	for _, p := range m.places() {
		if p.Kind == k || p.Kind.Base() == k {
			out = append(out, p.Place)
		}
	}
	return out
}

// publish tells the team that the sandbox changed.
func (m *Manager) publish(ctx context.Context, r executors.Record) {
	if m.cfg.Events == nil {
		return
	}
	m.cfg.Events.Publish(ctx, events.Event{Type: "sandbox.updated", ID: r.Handle.ID, WorkspaceID: r.WorkspaceID,
		TeamID: r.TeamID, Version: m.now()})
}

func (m *Manager) now() int64 { return m.cfg.Now().UnixMilli() }
