package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// How often the warden looks: whether another process changed what people may do, and at what runs.
const (
	wardenListens = 2 * time.Second
	wardenLooks   = 30 * time.Second
)

// warden ends what runs although its people may not have it run any more: sandboxes and sessions of suspended teams and users, and sessions
// with the account of somebody who left. It works from what the database says, so that it finishes what a server that died began.
type warden struct {
	accounts interface {
		Announced(ctx context.Context) (string, error)
	}
	barred func(ctx context.Context) ([]store.Barred, error)
	// asked anew is whoever is connected: their sockets and machines.
	ask     func()
	destroy func(ctx context.Context, workspaceID string) error
	pause   func(ctx context.Context, workspaceID, reason string) error
	stop    func(ctx context.Context, sessionID, reason string) error
	log     *slog.Logger

	wake chan struct{}
}

// poke has the warden look soon.
func (w *warden) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (w *warden) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "ending what runs for suspended teams and users")
	tick := time.NewTicker(wardenListens)
	defer tick.Stop()
	heard, err := w.accounts.Announced(ctx)
	if err != nil {
		heard = "" // the first answer counts as news
	}
	looked := time.Time{}
	for {
		due := time.Since(looked) >= wardenLooks
		if news, err := w.accounts.Announced(ctx); err == nil && news != heard {
			heard, due = news, true
			w.ask()
		}
		if due {
			looked = time.Now()
			w.look(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.wake:
			looked = time.Time{}
		}
	}
}

// look ends what it finds. What cannot be ended now is tried again at the next look.
func (w *warden) look(ctx context.Context) {
	found, err := w.barred(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("what suspended teams and users left running could not be read", "error", err)
		}
		return
	}
	for _, b := range found {
		if ctx.Err() != nil {
			return
		}
		why := map[string]string{"team": "the team is suspended", "user": "the user is suspended", "account": "its agent's account belongs to somebody who left the team"}[b.Reason]
		if b.SessionID != "" {
			if err := w.stop(ctx, b.SessionID, "stopped: "+why); err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
				w.log.Warn("session not stopped", "session_id", b.SessionID, "why", why, "error", err)
			}
			continue
		}
		if err := w.destroy(ctx, b.WorkspaceID); err != nil && ctx.Err() == nil {
			w.log.Warn("sandbox not ended", "workspace_id", b.WorkspaceID, "why", why, "error", err)
			// What it holds is not home: it stands still with it until it can be brought home.
			if perr := w.pause(ctx, b.WorkspaceID, "Paused: "+why+"."); perr != nil {
				w.log.Debug("sandbox not paused", "workspace_id", b.WorkspaceID, "error", perr)
			}
			continue
		}
		w.log.Info("sandbox ended", "workspace_id", b.WorkspaceID, "why", why)
	}
}

// newWarden joins the warden to the rooms it works in.
func (h *house) newWarden() *warden {
	return &warden{accounts: h.directory, barred: store.NewAccounts(h.db).Barred, ask: h.recheckAll, destroy: h.places.Destroy, pause: h.places.Pause,
		stop: func(ctx context.Context, id, reason string) error {
			_, err := h.sessions.End(ctx, id, reason)
			return err
		}, log: h.log.With("room", "warden"), wake: make(chan struct{}, 1)}
}

// admitTeam refuses to make a place for a team that is suspended: work that was waiting may ask for one.
func (h *house) admitTeam(ctx context.Context, _ executors.Capabilities, s *executors.Spec) error {
	if s.TeamID == "" { // of the pool
		return nil
	}
	t, err := h.directory.TeamByID(tenant.All(ctx, "whether a team is suspended"), s.TeamID)
	if err != nil {
		return err
	}
	if t.SuspendedAt != 0 {
		return fault.New(fault.Forbidden, "team_suspended", "The team %s is suspended: no sandbox is made for it. Ask an operator of this server.", t.Name)
	}
	return nil
}
