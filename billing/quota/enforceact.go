package quota

import (
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// begin gives a sandbox its grace.
func (b *beat) begin(ctx context.Context, r AtWork, why reason) error {
	period, _, _ := billing.Month(b.now)
	g := WorkGrace{ID: id.New("grc"), TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID, Scope: why.Scope, ScopeID: why.ScopeID, Period: period,
		State: GraceCounting, Reason: why.Words, BeganAt: b.now, EndsAt: max(why.EndsAt, b.now)}
	fresh := false
	err := b.e.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		if fresh, err = b.e.cfg.Store.InsertGrace(ctx, g); err != nil || !fresh {
			return err
		}
		return b.e.cfg.Notifier.Note(ctx, g, g.Reason+" In "+graceWords(g.due(b.now))+" the sandbox will be paused with everything in it; nothing is lost.")
	})
	if err != nil || !fresh {
		return err
	}
	failpoint.Reach(failpoint.GraceBegun)
	b.soon(g.EndsAt)
	b.e.keep(ctx, g)
	b.e.cfg.Log.Info("workspace reached a limit and has a grace period", "workspace_id", g.WorkspaceID, "scope", g.Scope, "ms", g.EndsAt-g.BeganAt)
	return nil
}

// follow goes on with a grace.
func (b *beat) follow(ctx context.Context, g WorkGrace) error {
	e := b.e
	r, runs := b.running[g.WorkspaceID]
	e.mu.Lock()
	st := e.stops[g.WorkspaceID]
	e.mu.Unlock()
	if st.busy {
		return nil
	}
	switch g.State {
	case GraceCounting, GraceStopping:
		if !runs {
			if _, paused := e.cfg.Places.Paused(g.WorkspaceID); g.State == GraceStopping && paused { // an earlier server died before it could say so
				g.State = GraceStopped
				return e.put(ctx, g, g.Words())
			}
			return e.lift(ctx, g, b.now, "") // it ended, or somebody paused it
		}
		why, err := b.why(ctx, r)
		switch {
		case err != nil:
			return err
		case why == nil:
			return e.lift(ctx, g, b.now, againWords)
		case why.Scope != g.Scope || why.ScopeID != g.ScopeID || why.Words != g.Reason: // another limit was reached meanwhile, or this one was changed
			g.Scope, g.ScopeID, g.Reason = why.Scope, why.ScopeID, why.Words
			if err := e.put(ctx, g, ""); err != nil {
				return err
			}
		}
		if g.State == GraceCounting && b.now < g.EndsAt {
			b.soon(g.EndsAt)
			return nil
		}
		if b.now < st.retryAt {
			b.soon(st.retryAt)
			return nil
		}
		return b.stop(ctx, g, r)
	case GraceStopped, GraceEnded:
		return b.resume(ctx, g, st)
	}
	return nil
}

// stop suspends a sandbox, in a goroutine of its own.
func (b *beat) stop(ctx context.Context, g WorkGrace, r AtWork) error {
	e := b.e
	if g.State != GraceStopping {
		g.State = GraceStopping
		if err := e.put(ctx, g, ""); err != nil {
			return err
		}
	}
	failpoint.Reach(failpoint.GraceStopping)
	e.busy(ctx, g.WorkspaceID, retryStop, func(ctx context.Context) error {
		held := g
		held.State = GraceStopped
		paused, err := e.cfg.Places.Hold(ctx, g.WorkspaceID, r.SandboxID, held.Words())
		switch {
		case errors.Is(err, ErrReplaced):
			return e.lift(ctx, g, e.cfg.Now(), "")
		case err != nil:
			return err
		}
		if !paused {
			held.State = GraceEnded
		}
		held.EndedAt = e.cfg.Now()
		failpoint.Reach(failpoint.GraceStopped)
		return e.put(ctx, held, held.Words())
	})
	return nil
}

// againWords tell that work goes on.
const againWords = "The limit allows it again: the sandbox goes on."

// busy does fn for a workspace, one at a time; what fails is tried again later.
func (e *Enforcer) busy(ctx context.Context, workspaceID string, retry time.Duration, fn func(context.Context) error) {
	e.mu.Lock()
	e.stops[workspaceID] = stop{busy: true}
	e.mu.Unlock()
	e.work.Go(func() {
		var err error
		select {
		case e.slots <- struct{}{}:
			err = fn(ctx)
			<-e.slots
		case <-ctx.Done():
			err = ctx.Err()
		}
		st := stop{}
		if err != nil {
			st.retryAt = e.cfg.Now() + retry.Milliseconds()
			if ctx.Err() == nil {
				e.cfg.Log.Warn("sandbox not suspended or resumed for its limit; the server will retry", "workspace_id", workspaceID, "error", err)
			}
		}
		e.mu.Lock()
		if _, open := e.graces[workspaceID]; open {
			e.stops[workspaceID] = st
		} else {
			delete(e.stops, workspaceID)
		}
		e.mu.Unlock()
		tasks.Wake(e.poke) // whether there is more to do
	})
}

// resume continues work that a limit suspended, once the limit allows it.
func (b *beat) resume(ctx context.Context, g WorkGrace, st stop) error {
	e := b.e
	_, paused := e.cfg.Places.Paused(g.WorkspaceID)
	// Somebody woke it, or an earlier server did and could not record it; or the workspace has another sandbox. One that recovery woke
	// after a restart will be suspended again in a moment.
	if r, runs := b.running[g.WorkspaceID]; runs && !paused {
		words := ""
		if why, err := b.why(ctx, r); err != nil {
			return err
		} else if why == nil && g.Scope != ScopeSessionMinutes && g.State == GraceStopped {
			words = againWords
		}
		return e.lift(ctx, g, b.now, words)
	}
	if g.State == GraceStopped && !paused {
		return e.lift(ctx, g, b.now, "") // its sandbox was ended, or it lives elsewhere now
	}
	if g.Scope == ScopeSessionMinutes { // a new run is begun by a person
		if g.State == GraceEnded && b.now-g.EndedAt >= forgetEnded.Milliseconds() {
			return e.lift(ctx, g, b.now, "") // they begin it elsewhere, or never: the workspace may be gone
		}
		return nil
	}
	as := AtWork{TeamID: g.TeamID, WorkspaceID: g.WorkspaceID, UserID: g.UserID, Metered: true}
	if g.Scope == ScopeTeamBudget || g.Scope == ScopeTeamOverage {
		as.PriceNano = 1 // it cost something; how much matters no more
	}
	why, err := b.why(ctx, as)
	if err != nil {
		return err
	}
	if why != nil {
		if why.Scope != g.Scope || why.ScopeID != g.ScopeID || why.Words != g.Reason {
			g.Scope, g.ScopeID, g.Reason = why.Scope, why.ScopeID, why.Words
			return e.put(ctx, g, "")
		}
		return nil
	}
	if b.now < st.retryAt {
		b.soon(st.retryAt)
		return nil
	}
	if g.State == GraceEnded { // agents act on the world: one that ended is begun again by a person
		return e.lift(ctx, g, b.now, "The limit allows it again: resume the session to go on.")
	}
	e.busy(ctx, g.WorkspaceID, retryWake, func(ctx context.Context) error {
		err := e.cfg.Places.Wake(ctx, g.WorkspaceID)
		if err != nil && fault.KindOf(err) != fault.NotFound { // a workspace that is gone goes on nowhere
			return err
		}
		failpoint.Reach(failpoint.GraceLifted)
		return e.lift(ctx, g, e.cfg.Now(), againWords)
	})
	return nil
}
