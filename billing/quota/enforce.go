package quota

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

// AtWork is a sandbox of a workspace that runs where time or money counts.
type AtWork struct {
	TeamID, WorkspaceID, SandboxID, UserID string
	Executor                               string // "" = not known
	PriceNano                              int64  // an hour
	Metered                                bool   // its time counts in people's hours
	RunBegan                               int64  // since when it runs without a break, ms UTC
}

// Halt stops all paid work of a team regardless of its usage: an operator decided so, or the team does not pay.
type Halt struct {
	Scope  string // ScopeKillSwitch, ScopePastDue
	Reason string // in words, a sentence
	Grace  time.Duration
}

// TeamView is how the limits of a team stand.
type TeamView struct {
	Levels []Level // of money
	Halt   *Halt   // nil = none
	Notify Notify
}

// UserView is how the limits of one user of a team stand.
type UserView struct {
	Hours          *Level // nil = it does not bind
	SessionMinutes *int64 // nil = it does not bind
	Grace          time.Duration
}

// Standings say how limits stand.
type Standings interface {
	TeamView(ctx context.Context, teamID string) (TeamView, error)
	UserView(ctx context.Context, teamID, userID string) (UserView, error)
}

// EnforceStore is what an Enforcer needs of the storage.
type EnforceStore interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// RunningSandboxes are those of workspaces that run now where time or money counts.
	RunningSandboxes(ctx context.Context) ([]AtWork, error)
	// OpenGraces are those that were not lifted.
	OpenGraces(ctx context.Context) ([]WorkGrace, error)
	// InsertGrace stores a new one; false when the workspace has an open one.
	InsertGrace(ctx context.Context, g WorkGrace) (bool, error)
	// UpdateGrace writes scope, state, reason and times.
	UpdateGrace(ctx context.Context, g WorkGrace) error
	// NoteAlert stores that a threshold was passed; false when it was already.
	NoteAlert(ctx context.Context, a Crossing) (fresh bool, err error)
	// DropAlerts forgets the thresholds of a's period above a.Percent whose limit was lower than a.Limit.
	DropAlerts(ctx context.Context, a Crossing) error
	// Alerts returns the thresholds of a team and its users that were passed in a period, the newest first.
	Alerts(ctx context.Context, teamID, period string) ([]Crossing, error)
	// TeamsOver are the teams that have spent something in [from, to), or have passed a threshold in the period: whose limits are looked at
	// although nothing of theirs runs.
	TeamsOver(ctx context.Context, period string, from, to int64) ([]string, error)
}

// Places suspends and resumes sandboxes.
type Places interface {
	// Hold copies the files of the workspace's sandbox to the server and suspends it until Wake. paused is false where its executor cannot
	// pause: Hold ended the sandbox after it had copied everything. ErrReplaced when the workspace has another sandbox by now, or none, or a
	// person paused it. Idempotent.
	Hold(ctx context.Context, workspaceID, sandboxID, reason string) (paused bool, err error)
	// Paused reports whether the workspace's sandbox is suspended for a limit, and for nothing else.
	Paused(workspaceID string) (reason string, paused bool)
	// Wake resumes a sandbox that a limit suspended.
	Wake(ctx context.Context, workspaceID string) error
}

// ErrReplaced says that a workspace no longer has the sandbox that was to be suspended.
var ErrReplaced = errors.New("the workspace has another sandbox, or none")

// Notifier notifies people.
type Notifier interface {
	// Passed adds the notifications of a threshold to outboxes and timelines, in the caller's transaction.
	Passed(ctx context.Context, a Crossing, t Notify) error
	// Alerted tells the web app that there is an alert.
	Alerted(ctx context.Context, a Crossing)
	// Turned tells the web app and terminals that a grace changed.
	Turned(ctx context.Context, g WorkGrace)
	// Note writes down that a grace changed: in the audit and, where there are words, in the workspace's timeline. It is part of the
	// transaction it is called in.
	Note(ctx context.Context, g WorkGrace, words string) error
}

// EnforcerConfig is what an Enforcer is made of.
type EnforcerConfig struct {
	Store     EnforceStore
	Standings Standings
	Places    Places
	Notifier  Notifier
	OnServer  []string     // the kinds of places of this server that isolate
	Now       func() int64 // the ledger's time, ms UTC
	After     func(time.Duration) <-chan time.Time
	Every     time.Duration // between two looks; default 15 s
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *EnforcerConfig) Validate() error {
	if c.Store == nil || c.Standings == nil || c.Places == nil || c.Notifier == nil || c.Now == nil {
		return errors.New("quota: an Enforcer needs Store, Standings, Places, Notifier and Now")
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Every <= 0 {
		c.Every = 15 * time.Second
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Bounds of what an Enforcer does.
const (
	stopsAtOnce = 8                      // sandboxes that are suspended at the same time
	soonest     = 200 * time.Millisecond // between two looks, whatever is due
	retryStop   = 20 * time.Second       // after one that failed
	retryWake   = time.Minute
	userEvery   = 2 * time.Minute // a user far from their limit is looked at so often
	forgetEnded = 24 * time.Hour  // how long people see that a run was ended for its length
)

// Enforcer compares running sandboxes with the limits they count in. It warns, grants a grace period, suspends the sandboxes when that is
// over, and resumes them when the limit allows it again. It stores what it began, and the next server continues it. Safe for concurrent use;
// Run has one goroutine, and one for each sandbox that it is suspending or resuming.
type Enforcer struct {
	cfg  EnforcerConfig
	poke chan struct{}

	mu       sync.Mutex
	graces   map[string]WorkGrace // by workspace: the open ones
	stops    map[string]stop      // by workspace
	reported map[string]reported  // by level
	notifies map[string]Notify    // by team
	users    map[userKey]look
	work     sync.WaitGroup
	slots    chan struct{}
}

// stop is what is being done, or was tried, with a workspace's sandbox.
type stop struct {
	busy    bool
	retryAt int64
}

type userKey struct{ team, user string }

// look is what was found out of a user's limits, and when they are looked at again.
type look struct {
	view UserView
	at   int64
	next int64
}

// NewEnforcer makes an Enforcer. It starts nothing and panics on a configuration that Validate refuses.
func NewEnforcer(cfg EnforcerConfig) *Enforcer {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Enforcer{cfg: cfg, poke: make(chan struct{}, 1), graces: make(map[string]WorkGrace), stops: make(map[string]stop), reported: make(map[string]reported), notifies: make(map[string]Notify),
		users: make(map[userKey]look), slots: make(chan struct{}, stopsAtOnce)}
}

// Recover takes up the graces of an earlier server. It is called once, before people are let in.
func (e *Enforcer) Recover(ctx context.Context) error {
	open, err := e.cfg.Store.OpenGraces(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range open {
		e.graces[g.WorkspaceID] = g
	}
	return nil
}

// Changed has the limits of a team looked at now: somebody changed them, or "" = those of all.
func (e *Enforcer) Changed(teamID string) {
	e.mu.Lock()
	for k := range e.users {
		if teamID == "" || k.team == teamID {
			delete(e.users, k)
		}
	}
	for ws, s := range e.stops {
		if s.retryAt > 0 && (teamID == "" || e.graces[ws].TeamID == teamID) {
			s.retryAt = 0
			e.stops[ws] = s
		}
	}
	e.mu.Unlock()
	tasks.Wake(e.poke)
}

// Run looks again and again until ctx ends. It returns when what it began has ended.
func (e *Enforcer) Run(ctx context.Context) error {
	defer e.work.Wait()
	for {
		wait := e.Beat(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.poke:
		case <-e.cfg.After(wait):
		}
	}
}

// Beat looks once, and says when to look again at the latest.
func (e *Enforcer) Beat(ctx context.Context) time.Duration {
	b := &beat{e: e, now: e.cfg.Now(), teams: make(map[string]*TeamView), next: e.cfg.Every, running: make(map[string]AtWork)}
	if err := b.look(ctx); err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn("limits not enforced; the server will retry", "error", err)
	}
	return max(b.next, soonest)
}
