// Package manager chooses, makes, reuses, checks and reaps sandboxes: one live sandbox a workspace.
//
// A sandbox's row is stored as starting before it is made, and its handle before first use, so that whatever instant the server
// dies at, the next one finds what exists (Recover) and reaps what has ended (Run); a sandbox without a row is left alone.
//
// Goroutines: Manager.Run has one for health, one for the reaper, one for places that could not be dialed, one for places that changed and one
// for the pool; a making goes on in one of its own when its caller leaves, and Run waits for it. Locks: a workspace's turn is taken first and held while its sandbox is made, moved or ended; the room's mu guards what is known of the
// sandbox, the Manager's the rooms and hooks, and neither is held while a place, a guest or the store is asked.
package manager

import (
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
	Executors   *executors.Registry
	Choice      *choice.Chooser
	Metering    *metering.Metering
	Pool        *pool.Pool // sandboxes made ahead of time; nil = none
	Store       Store
	Workspaces  Workspaces
	Events      events.Publisher // optional
	Now         func() time.Time
	After       func(time.Duration) <-chan time.Time                  // the clock of health checks and reaper; default time.After
	HealthEvery time.Duration                                         // default 15 s
	ReapEvery   time.Duration                                         // default 1 min
	KeepRemains time.Duration                                         // how long what a gone sandbox left stays readable; default 15 min
	DialTimeout time.Duration                                         // of one hello; default 5 s
	Tell        func(context.Context, executors.Note)                 // tells a workspace's people what happened to its sandbox by itself; optional
	IdleAfter   func(executors.Kind, executors.Purpose) time.Duration // how long a sandbox may be idle before it is ended; 0 = for ever; optional
	Counters    *executors.Counters                                   // what happens; default: its own
	Log         *slog.Logger
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
	if c.KeepRemains <= 0 {
		c.KeepRemains = 15 * time.Minute
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Counters == nil {
		c.Counters = &executors.Counters{}
	}
	c.Counters.Begin(c.Now().UnixMilli())
	return nil
}

// Manager chooses, makes, reuses, checks and reaps sandboxes: one live sandbox a workspace. Safe for concurrent use.
//
// Recover is called once at start, before anything else; Run keeps the health checks and the reaper going.
type Manager struct {
	cfg Config

	mu           sync.Mutex
	rooms        map[string]*room // by workspace id
	participants []executors.Participant
	fallBack     func(ctx context.Context, workspaceID string, cause error) (bool, error)
	recovered    bool
	gone         map[string]int64            // sandboxes found gone by this process: ms UTC
	trials       map[string]bool             // by id: sandboxes made only to try their place
	strangers    map[executors.Kind][]string // by place: ids of sandboxes that live and have no row
	ends         map[string]string           // in words: why sandboxes were ended that people did not end themselves
	meters       *meter.Meters
	still        atomic.Int64    // places that are paused or away: asked at every output of a terminal
	looks        chan look       // places that changed: Run looks at their sandboxes at once
	worries      chan string     // workspaces whose guest could not be dialed: Run looks at them at once
	checking     map[string]bool // under mu: workspaces whose sandbox is being looked at
	checkSlots   chan struct{}   // one place for each check that is not slow
	work         tasks.Group     // flights that go on when their callers have left, and checks; closed when Run ends
}

// room is what the Manager keeps of one workspace.
type room struct {
	turn   chan struct{} // holds one token: making, recovering and destroying take turns
	usedAt int64         // ms UTC when it was last asked for; under the Manager's mu

	mu     sync.Mutex
	place  *place            // the live place, nil when there is none
	flight *flight           // an Ensure under way
	stray  *executors.Record // an open record whose sandbox could not be reached yet
}

// place is what the Manager keeps of a Place.
type place struct {
	*executors.Place

	sandbox atomic.Pointer[executors.Sandbox]
	record  executors.Record       // under the room's mu once the place is live
	paused  atomic.Pointer[string] // why it stands still, as people see it; nil = it does not
	home    atomic.Bool            // what was there came home when it was last asked for, see Participant.Home
	waking  atomic.Bool            // somebody is waking it: changed with the room's turn
	away    atomic.Pointer[error]  // why its place cannot be heard now; nil = it can

	// Under the room's mu.
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
	return &Manager{cfg: cfg, rooms: make(map[string]*room),
		gone: make(map[string]int64), trials: make(map[string]bool), strangers: make(map[executors.Kind][]string), ends: make(map[string]string), worries: make(chan string, 64), checking: make(map[string]bool), checkSlots: make(chan struct{}, checkAtOnce), looks: make(chan look, 256)}
}

// Astray names the workspace's sandbox while it exists but could not be reached, and "" when there is none such. The health
// check looks for it: it becomes live again, or turns out to be gone.
func (m *Manager) Astray(workspaceID string) string {
	r := m.room(workspaceID)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stray == nil {
		return ""
	}
	return r.stray.Handle.ID
}

// room returns the workspace's room, made on first use.
func (m *Manager) room(workspaceID string) *room {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rooms[workspaceID]
	if !ok {
		r = &room{turn: make(chan struct{}, 1)}
		m.rooms[workspaceID] = r
	}
	r.usedAt = m.now()
	return r
}

// roomKept is how long a room is kept that nothing is in. It is far longer than anybody who was given the room takes to use it, so that
// two rooms of one workspace are never in use.
const roomKept = time.Hour

// sweepRooms forgets the rooms of workspaces that have had no sandbox for a while and are not asked for.
func (m *Manager) sweepRooms() {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now() - roomKept.Milliseconds()
	for id, r := range m.rooms {
		if r.usedAt <= old && r.empty() {
			delete(m.rooms, id)
		}
	}
}

// empty reports whether nothing is in the room and nobody has its turn.
func (r *room) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place == nil && r.flight == nil && r.stray == nil && len(r.turn) == 0
}

// take waits for the room's turn; the returned func gives it back.
func (r *room) take(ctx context.Context) (func(), error) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
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
	r := m.rooms[workspaceID]
	m.mu.Unlock()
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place, r.place != nil
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
