package executors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// Auto asks the Manager to choose the strongest place that is available.
const Auto Kind = "auto"

// Record is the stored row of a sandbox. Times are ms UTC, 0 = not yet.
type Record struct {
	Handle      Handle
	TeamID      string
	WorkspaceID string
	State       State
	Reason      string
	StartedAt   int64
	HealthAt    int64
	EndedAt     int64
}

// Store is what the Manager needs of the storage.
type Store interface {
	// InsertSandbox stores a new open sandbox. A workspace has at most one open sandbox: a second is a fault.Conflict.
	InsertSandbox(ctx context.Context, r Record) error
	// UpdateSandbox writes handle, state, reason, health and end of the sandbox r.Handle.ID. An ended sandbox stays ended.
	UpdateSandbox(ctx context.Context, r Record) error
	// OpenSandboxes returns every sandbox that has not ended.
	OpenSandboxes(ctx context.Context) ([]Record, error)
	// LastSandbox returns the newest sandbox of a workspace, open or ended; fault.NotFound when there never was one.
	LastSandbox(ctx context.Context, workspaceID string) (Record, error)
	// TeamSandboxes returns the newest sandbox of each workspace of a team.
	TeamSandboxes(ctx context.Context, teamID string) ([]Record, error)
}

// Workspaces is what the Manager needs to know of a workspace.
type Workspaces interface {
	// Spec says what place the workspace needs (Spec.ID is left to the Manager) and of which kind; "" and Auto mean the
	// strongest available.
	Spec(ctx context.Context, workspaceID string) (Spec, Kind, error)
}

// ManagerConfig is what a Manager is made of.
type ManagerConfig struct {
	Executors   []Executor
	Order       []Kind // what Auto tries, strongest first; default: the order of Executors
	Store       Store
	Workspaces  Workspaces
	Events      events.Publisher // optional
	Now         func() time.Time
	After       func(time.Duration) <-chan time.Time // the clock of health checks and reaper; default time.After
	HealthEvery time.Duration                        // default 15 s
	ReapEvery   time.Duration                        // default 5 min
	KeepRemains time.Duration                        // how long what a gone sandbox left stays readable; default 15 min
	DialTimeout time.Duration                        // of one hello; default 5 s
	Log         *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *ManagerConfig) Validate() error {
	if c.Store == nil || c.Workspaces == nil {
		return errors.New("executors: a Manager needs Store and Workspaces")
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
		c.ReapEvery = 5 * time.Minute
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
	if len(c.Order) == 0 {
		for _, e := range c.Executors {
			c.Order = append(c.Order, e.Kind())
		}
	}
	return nil
}

// Manager chooses, makes, reuses, checks and reaps sandboxes: one live sandbox a workspace. Safe for concurrent use.
//
// Recover is called once at start, before anything else; Run keeps the health checks and the reaper going.
type Manager struct {
	cfg    ManagerConfig
	byKind map[Kind]Executor

	mu        sync.Mutex
	rooms     map[string]*room // by workspace id
	hooks     hooks
	recovered bool
	gone      map[string]int64 // sandboxes found gone by this process: ms UTC
	worries   chan string      // workspaces whose guest could not be dialed: Run looks at them at once
	work      sync.WaitGroup   // flights that go on when their callers have left
}

// room is what the Manager keeps of one workspace.
type room struct {
	turn chan struct{} // holds one token: making, recovering and destroying take turns

	mu     sync.Mutex
	place  *Place  // the live place, nil when there is none
	flight *flight // an Ensure under way
	stray  *Record // an open record whose sandbox could not be reached yet
}

// Place is a live sandbox with a guest in it, shared by everybody who works in the workspace.
type Place struct {
	SandboxID   string
	WorkspaceID string
	TeamID      string
	Kind        Kind
	Hello       guest.Hello // what the guest said of itself when the place became live
	Guest       *client.Client

	sandbox Sandbox
	record  Record // under the room's mu once the place is live
	done    chan struct{}
	reason  string // why the place ended; written before done is closed

	// Under the room's mu.
	silent    int   // health checks failed in a row
	healthAt  int64 // ms UTC of the last good answer
	worriedAt int64 // ms UTC of the last check asked for because the guest could not be dialed
}

// Done is closed when the place has ended: destroyed or found gone.
func (p *Place) Done() <-chan struct{} { return p.done }

// Reason says in words why the place ended. Valid once Done is closed.
func (p *Place) Reason() string { return p.reason }

// NewManager makes a Manager. It starts nothing and panics on a Config without Store or Workspaces.
func NewManager(cfg ManagerConfig) *Manager {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	m := &Manager{cfg: cfg, byKind: make(map[Kind]Executor), rooms: make(map[string]*room),
		gone: make(map[string]int64), worries: make(chan string, 64)}
	for _, e := range cfg.Executors {
		m.byKind[e.Kind()] = e
	}
	return m
}

// Capabilities says of every configured executor what it can do now, in the order of choice.
func (m *Manager) Capabilities(ctx context.Context) []Capabilities {
	out := make([]Capabilities, 0, len(m.cfg.Executors))
	seen := make(map[Kind]bool)
	add := func(k Kind) {
		e, ok := m.byKind[k]
		if !ok || seen[k] {
			return
		}
		seen[k] = true
		out = append(out, m.capabilities(ctx, e))
	}
	for _, k := range m.cfg.Order {
		add(k)
	}
	for _, e := range m.cfg.Executors {
		add(e.Kind())
	}
	return out
}

func (m *Manager) capabilities(ctx context.Context, e Executor) Capabilities {
	c, err := e.Capabilities(ctx)
	if err != nil {
		m.cfg.Log.Warn("executor did not tell its capabilities", "executor", e.Kind(), "error", err)
		c = Capabilities{Kind: e.Kind(), Name: string(e.Kind()), Reason: "it did not answer: " + err.Error(),
			Cure: "look into the server's log"}
	}
	c.Kind = e.Kind()
	return c
}

// Available says why no sandbox could be made now by an executor of kind ("" and Auto: by any), in the words Ensure would fail with.
func (m *Manager) Available(ctx context.Context, kind Kind) error {
	_, err := m.choose(ctx, kind)
	return err
}

// choose finds the executor for kind: the named one when it is available, or the strongest available for Auto.
func (m *Manager) choose(ctx context.Context, kind Kind) (Executor, error) {
	if kind != "" && kind != Auto {
		e, ok := m.byKind[kind]
		if !ok {
			return nil, fault.New(fault.Unsupported, "executor_unknown",
				"This server has no executor %q. Choose another executor for the workspace.", kind)
		}
		c := m.capabilities(ctx, e)
		if !c.Available {
			return nil, fault.New(fault.Unavailable, "executor_unavailable", "%s cannot be used now: %s. %s",
				c.Name, c.Reason, c.Cure)
		}
		return e, nil
	}
	var why []string
	for _, k := range m.cfg.Order {
		e, ok := m.byKind[k]
		if !ok {
			continue
		}
		c := m.capabilities(ctx, e)
		if c.Available {
			return e, nil
		}
		why = append(why, fmt.Sprintf("%s: %s. %s", c.Name, c.Reason, c.Cure))
	}
	if len(why) == 0 {
		why = []string{"none is configured"}
	}
	return nil, fault.New(fault.Unavailable, "no_executor", "No place to work is available now. %s", joinWords(why))
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
	return r
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
func (m *Manager) Live(workspaceID string) (*Place, bool) {
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

// publish tells the team that the sandbox changed.
func (m *Manager) publish(ctx context.Context, r Record) {
	if m.cfg.Events == nil {
		return
	}
	m.cfg.Events.Publish(ctx, events.Event{Type: "sandbox.updated", ID: r.Handle.ID, WorkspaceID: r.WorkspaceID,
		TeamID: r.TeamID, Version: m.now()})
}

func (m *Manager) now() int64 { return m.cfg.Now().UnixMilli() }
