package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// makeTimeout bounds the making of a place, whoever asked for it.
const makeTimeout = 3 * time.Minute

// flight is one Ensure under way, joined by everybody who asks meanwhile.
type flight struct {
	done   chan struct{}
	cancel context.CancelCauseFunc
	making *making // nil until there is a row; under the room's mu
	place  *place
	err    error
}

// Ensure returns the workspace's live place and makes one when there is none. Concurrent calls join. A caller who leaves
// early does not stop the making: the next one finds the place ready.
func (m *Manager) Ensure(ctx context.Context, workspaceID string) (*executors.Place, error) {
	if p, ok := ctx.Value(takingLeave{}).(*place); ok && p.WorkspaceID == workspaceID {
		return p.Place, nil
	}
	r := m.room(workspaceID)
	if p, err := m.standing(ctx, r, workspaceID); err != nil {
		return nil, err
	} else if p != nil {
		return p.Place, nil
	}
	r.mu.Lock()
	f := r.flight
	if f == nil {
		// The flight is shared, so it may not end with the request that happened to be first.
		detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		f = &flight{done: make(chan struct{}), cancel: cancel}
		r.flight = f
		begun := m.work.Go(func() {
			defer cancel(nil)
			place, err := m.makeOrFallBack(detached, r, workspaceID)
			r.mu.Lock()
			f.place, f.err, r.flight = place, err, nil
			r.mu.Unlock()
			close(f.done)
		})
		if !begun {
			r.flight = nil
			r.mu.Unlock()
			cancel(nil)
			return nil, executors.ErrStopping()
		}
	}
	r.mu.Unlock()
	select {
	case <-f.done:
		if f.err != nil {
			return nil, f.err
		}
		a := executors.AsOf(ctx)
		if err := m.cfg.Choice.Admit(ctx, f.place.Kind, a.UserID); err != nil {
			return nil, err
		}
		m.usedFor(ctx, r, f.place, a)
		return f.place.Place, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// trustFor is how long a good answer of a place on another machine is taken for granted.
const trustFor = 30 * time.Second

// standing returns the room's live place when it can be used as it is; nil when one has to be woken or made first.
func (m *Manager) standing(ctx context.Context, r *room, workspaceID string) (*place, error) {
	for looked := false; ; looked = true {
		r.mu.Lock()
		p := r.place
		if p == nil || p.closing {
			r.mu.Unlock()
			return nil, nil
		}
		p.Use()()
		waking := p.waking.Load() // read first: who is woken in between is awake
		why, wakes := p.paused.Load(), p.record.PausedFor.Wakes()
		stale := p.OwnDisk && m.now()-max(p.healthAt, p.record.HealthAt) > trustFor.Milliseconds()
		r.mu.Unlock()
		if err := m.cfg.Choice.Admit(ctx, p.Kind, executors.AsOf(ctx).UserID); err != nil {
			return nil, err
		}
		if away := m.awayWhy(ctx, p.Kind); away != nil {
			m.left(ctx, r, p, away)
			return nil, away
		}
		switch {
		case why != nil && (wakes || waking): // somebody is waking it: the room's turn comes when it is awake, or could not be woken
			return nil, nil
		case why != nil:
			return nil, errPaused(*why)
		case stale && !looked:
			if err := m.Check(ctx, workspaceID); err != nil { // what is there by now is what counts
				m.cfg.Log.Debug("sandbox that was asked for does not answer", "workspace_id", workspaceID, "error", err)
			}
			continue
		}
		if a := executors.AsOf(ctx); a.Purpose != "" {
			m.cfg.Counters.Reused(p.Kind)
			m.usedFor(ctx, r, p, a)
		}
		return p, nil
	}
}

// make brings the room a live place: the one that is there, one found again, or a new one.
func (m *Manager) make(ctx context.Context, r *room, workspaceID string) (*place, error) {
	release, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	rctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	if p := r.current(); p != nil {
		if p, err := m.rouse(rctx, r, p); p != nil || err != nil {
			return p, err
		}
	}
	if p, err := m.reclaimAwake(rctx, r); p != nil || err != nil {
		return p, err
	}
	spec, kind, err := m.cfg.Workspaces.Spec(ctx, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("reading what place workspace %s needs: %w", workspaceID, err)
	}
	pol, err := m.cfg.Choice.Policy(ctx, spec.TeamID)
	if err != nil {
		return nil, err
	}
	e, caps, err := m.cfg.Choice.Pick(ctx, pol, kind)
	if err != nil {
		return nil, err
	}
	who := executors.AsOf(ctx)
	if err := m.cfg.Choice.Admit(ctx, e.Kind(), who.UserID); err != nil {
		return nil, err
	}
	if err := m.clearLeft(ctx, e, workspaceID); err != nil {
		return nil, err
	}
	owner := who.UserID // what is used is somebody's, also where they asked for files or a port only
	if owner == "" {
		_, owner = executors.AskerOf(ctx)
	}
	if owner == "" {
		owner = spec.UserID
	}
	spec.ID, spec.WorkspaceID, spec.UserID = id.New("sbx"), workspaceID, who.UserID
	k := m.newMaking(executors.Record{Handle: executors.Handle{Kind: e.Kind(), ID: spec.ID}, TeamID: spec.TeamID, WorkspaceID: workspaceID,
		State: executors.Starting, StartedAt: m.now(), UserID: owner, Purpose: who.Purpose}, caps)
	rec := k.record()
	err = m.cfg.Store.InsertSandbox(ctx, rec)
	if fault.Is(err, fault.Conflict) {
		// A row is open that this process does not know yet: find its sandbox again instead of making a second.
		if err := m.adoptOpen(ctx, r, workspaceID); err != nil {
			return nil, err
		}
		if p, err := m.reclaimAwake(rctx, r); p != nil || err != nil {
			return p, err
		}
		err = m.cfg.Store.InsertSandbox(ctx, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the new sandbox of workspace %s: %w", workspaceID, err)
	}
	r.mu.Lock()
	if r.flight != nil {
		r.flight.making = k
	}
	r.mu.Unlock()
	m.publish(ctx, rec)
	return m.create(ctx, r, e, caps, spec, k)
}

// connect says hello to a sandbox.
func (m *Manager) connect(ctx context.Context, sb executors.Sandbox, rec executors.Record) (*place, error) {
	p := &place{Place: executors.NewPlace(rec.Handle.ID, rec.WorkspaceID, rec.TeamID, rec.Handle.Kind), record: rec}
	if e, ok := m.cfg.Executors.Find(ctx, p.Kind); ok {
		c := m.cfg.Choice.CapabilitiesOf(ctx, e)
		p.OwnDisk, p.SharedHome = c.OwnDisk, c.SharedHome
	}
	p.setBox(sb)
	narrow, _ := sb.(executors.Narrow)
	p.Guest = client.New(client.Config{Dial: m.dialer(p), Token: sb.Token(), SandboxID: rec.Handle.ID, Ready: p.ready, Now: m.cfg.Now,
		OnePipe: narrow != nil && narrow.OnePipe()})
	hello, err := m.hello(ctx, p)
	if err != nil {
		p.Guest.Close()
		return nil, fmt.Errorf("saying hello to sandbox %s: %w", rec.Handle.ID, err)
	}
	p.Hello = hello
	return p, nil
}

// dialer dials the place's guest, and has the health check look at once when that fails: those who follow the guest's
// processes learn within moments that it is gone.
func (m *Manager) dialer(p *place) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		pipe, err := p.box().Dial(ctx)
		if err != nil && ctx.Err() == nil {
			m.worry(p)
		}
		return pipe, err
	}
}

// worryEvery is how often at most failed dials have one place looked at.
const worryEvery = time.Second

func (m *Manager) worry(p *place) {
	r := m.room(p.WorkspaceID)
	now := m.now()
	r.mu.Lock()
	due := r.place == p && now-p.worriedAt >= worryEvery.Milliseconds()
	if due {
		p.worriedAt = now
	}
	r.mu.Unlock()
	if !due {
		return
	}
	select {
	case m.worries <- p.WorkspaceID:
	default: // so many are worried about that the regular check will do
	}
}

// hello asks the guest who it is and checks the answer: what it says is not trusted.
func (m *Manager) hello(ctx context.Context, p *place) (guest.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.DialTimeout)
	defer cancel()
	h, err := p.Guest.Hello(ctx)
	if err != nil {
		return guest.Hello{}, err
	}
	return h, executors.CheckHello(h, p.SandboxID)
}

// settle puts the place into the room and tells everybody. It may stand still.
func (m *Manager) settle(ctx context.Context, r *room, p *place) {
	r.mu.Lock()
	r.place, r.stray = p, nil
	r.mu.Unlock()
	m.settled(ctx, p)
	m.publish(ctx, p.record)
	for _, a := range m.attached() {
		if a.Live == nil {
			continue
		}
		a.Live(p.Place)
	}
}

// dismantle takes down a sandbox that was made but cannot be used.
func (m *Manager) dismantle(ctx context.Context, sb executors.Sandbox, rec executors.Record, cause error) {
	m.remove(ctx, sb) // once its row is closed the reaper finds what is left, and tries again
	if errors.Is(cause, errMakingCancelled) {
		m.finish(ctx, rec, executors.Gone, "Its making was cancelled.")
		return
	}
	m.finish(ctx, rec, executors.Failed, "It did not answer: "+executors.ReasonOf(cause))
}

// finish closes a sandbox's row and tells the team.
func (m *Manager) finish(ctx context.Context, rec executors.Record, state executors.State, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	rec.State, rec.Reason, rec.EndedAt, rec.PausedFor = state, executors.CleanReason(reason), m.now(), ""
	rec.Steps = endSteps(rec.Steps, errors.New(reason), rec.EndedAt)
	if m.fresh(rec.Handle.ID) { // it was found gone
		m.cfg.Metering.FoundStopped(ctx, rec)
	} else {
		m.cfg.Metering.Stopped(ctx, m.cfg.Metering.Stretch(rec), 0, executors.ByServer)
	}
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Error("end of a sandbox could not be stored", "sandbox_id", rec.Handle.ID, "error", err)
	}
	m.cfg.Log.Info("sandbox ended", "sandbox_id", rec.Handle.ID, "workspace_id", rec.WorkspaceID, "state", state,
		"reason", reason)
	m.publish(ctx, rec)
	if state == executors.Failed {
		m.cfg.Counters.Failed(rec.Handle.Kind)
	}
	for _, a := range m.attached() {
		if a.Ended == nil {
			continue
		}
		a.Ended(rec)
	}
}

// current returns the room's live place or nil.
func (r *room) current() *place {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place
}

// adoptOpen makes the workspace's open row the room's stray.
func (m *Manager) adoptOpen(ctx context.Context, r *room, workspaceID string) error {
	rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) || err == nil && rec.EndedAt != 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the open sandbox of workspace %s: %w", workspaceID, err)
	}
	r.mu.Lock()
	r.stray = &rec
	r.mu.Unlock()
	return nil
}

// reclaimAwake is reclaim for somebody who needs the place: one that turns out to sleep is woken.
func (m *Manager) reclaimAwake(ctx context.Context, r *room) (*place, error) {
	p, err := m.reclaim(ctx, r)
	if p == nil || err != nil {
		return nil, err
	}
	return m.rouse(ctx, r, p)
}

// reclaim tries to reach the room's stray again. It returns (nil, nil) when there is none or it turned out to be gone, and
// an error when it may still be there but cannot be reached.
func (m *Manager) reclaim(ctx context.Context, r *room) (*place, error) {
	r.mu.Lock()
	stray := r.stray
	r.mu.Unlock()
	if stray == nil {
		return nil, nil
	}
	if away := m.awayWhy(ctx, stray.Handle.Kind); away != nil {
		m.astray(ctx, r, *stray, away)
		return nil, away
	}
	p, err := m.revive(ctx, r, *stray)
	switch {
	case errors.Is(err, executors.ErrGone):
		return nil, nil
	case err != nil:
		return nil, fault.Wrap(err, fault.Unavailable, "sandbox_unreachable",
			"The workspace's sandbox exists but cannot be reached now. Try again, or destroy the sandbox to get a new one.")
	}
	return p, nil
}
