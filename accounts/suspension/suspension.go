// Package suspension ends the sandboxes and sessions that suspended teams and users, and people who left a team, left running, and starts
// none for them. Its only goroutine is Run; it holds no lock.
package suspension

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// How often the enforcer looks: whether another process changed what people may do, and at what runs.
const (
	listens = 2 * time.Second
	looks   = 30 * time.Second
)

// Barred is a running sandbox or session whose user may no longer run it.
type Barred struct {
	WorkspaceID string // of a sandbox that must end, or
	SessionID   string // a session that must stop
	Reason      string // why: team, user, account
}

// Accounts are what the enforcer asks of accounts.
type Accounts interface {
	// Announced changes whenever any process changed users' rights.
	Announced(ctx context.Context) (string, error)
	// TeamByID returns a team, a suspended one, too.
	TeamByID(ctx context.Context, teamID string) (accounts.Team, error)
}

// Config is what an Enforcer is made of. All but Log is required.
type Config struct {
	Accounts Accounts
	Barred   func(ctx context.Context) ([]Barred, error)                 // what runs and must not
	Recheck  func()                                                      // checks again who may stay connected: sockets and machines
	Destroy  func(ctx context.Context, workspaceID string) error         // saves and ends a sandbox
	Pause    func(ctx context.Context, workspaceID, reason string) error // suspends a sandbox
	Stop     func(ctx context.Context, sessionID, reason string) error   // ends a session
	Log      *slog.Logger
}

// Enforcer ends what runs although its users may no longer run it: sandboxes and sessions of suspended teams and users, and sessions
// with the account of somebody who left. It works from what the database says, so that it finishes what a server that died began. Safe for
// concurrent use.
type Enforcer struct {
	cfg  Config
	wake chan struct{}
}

// New makes an Enforcer. It starts nothing.
func New(cfg Config) *Enforcer {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Enforcer{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Poke has the enforcer look soon.
func (e *Enforcer) Poke() {
	tasks.Wake(e.wake)
}

// Run works until ctx ends.
func (e *Enforcer) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "ending what runs for suspended teams and users")
	tick := time.NewTicker(listens)
	defer tick.Stop()
	heard, err := e.cfg.Accounts.Announced(ctx)
	if err != nil {
		heard = "" // the first answer counts as news
	}
	looked := time.Time{}
	for {
		due := time.Since(looked) >= looks
		if news, err := e.cfg.Accounts.Announced(ctx); err == nil && news != heard {
			heard, due = news, true
			e.cfg.Recheck()
		}
		if due {
			looked = time.Now()
			e.look(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-e.wake:
			looked = time.Time{}
		}
	}
}

// look ends what it finds. What cannot be ended now is tried again at the next look.
func (e *Enforcer) look(ctx context.Context) {
	found, err := e.cfg.Barred(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.cfg.Log.Warn("running sandboxes and sessions of suspended teams and users not read", "error", err)
		}
		return
	}
	for _, b := range found {
		if ctx.Err() != nil {
			return
		}
		why := map[string]string{"team": "the team is suspended", "user": "the user is suspended", "account": "its agent's account belongs to somebody who left the team"}[b.Reason]
		if b.SessionID != "" {
			if err := e.cfg.Stop(ctx, b.SessionID, "stopped: "+why); err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
				e.cfg.Log.Warn("session not stopped", "session_id", b.SessionID, "why", why, "error", err)
			}
			continue
		}
		if err := e.cfg.Destroy(ctx, b.WorkspaceID); err != nil && ctx.Err() == nil {
			e.cfg.Log.Warn("sandbox not ended", "workspace_id", b.WorkspaceID, "why", why, "error", err)
			// Some of its files are not synced: it stays suspended with them until they can be copied to the server.
			if perr := e.cfg.Pause(ctx, b.WorkspaceID, "Paused: "+why+"."); perr != nil {
				e.cfg.Log.Debug("sandbox not paused", "workspace_id", b.WorkspaceID, "error", perr)
			}
			continue
		}
		e.cfg.Log.Info("sandbox ended", "workspace_id", b.WorkspaceID, "why", why)
	}
}

// Admit refuses to make a sandbox for a team that is suspended: work that was waiting may ask for one. "" is no team: the pool of sandboxes
// made ahead of time.
func (e *Enforcer) Admit(ctx context.Context, teamID string) error {
	if teamID == "" {
		return nil
	}
	t, err := e.cfg.Accounts.TeamByID(tenant.All(ctx, "whether a team is suspended"), teamID)
	if err != nil {
		return err
	}
	if t.SuspendedAt != 0 {
		return fault.New(fault.Forbidden, "team_suspended", "The team %s is suspended: no sandbox is made for it. Ask an operator of this server.", t.Name)
	}
	return nil
}
