package manager

import (
	"cmp"
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

// makeTimeout bounds making a sandbox, whoever asked for it.
const makeTimeout = 3 * time.Minute

// flight is one Ensure under way; concurrent callers join it.
type flight struct {
	done   chan struct{}
	cancel context.CancelCauseFunc
	making *making // nil until there is a row; under the slot's mu
	place  *place
	err    error
}

// Ensure returns the workspace's live sandbox and makes one when there is none. Concurrent calls join. A caller who leaves early does not
// stop the making: the next caller finds the sandbox ready.
func (m *Manager) Ensure(ctx context.Context, workspaceID string) (*executors.Place, error) {
	if p, ok := ctx.Value(takingLeave{}).(*place); ok && p.WorkspaceID == workspaceID {
		return p.Place, nil
	}
	s := m.slot(workspaceID)
	if p, err := s.usable(ctx); err != nil && !s.leaveMachine(ctx, err) {
		return nil, err
	} else if err == nil && p != nil {
		return p.Place, nil
	}
	s.mu.Lock()
	f := s.flight
	if f == nil {
		// The flight is shared, so it must not end with the request that happened to start it.
		detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		f = &flight{done: make(chan struct{}), cancel: cancel}
		s.flight = f
		begun := m.work.Go(func() {
			defer cancel(nil)
			place, err := s.makeOrFallBack(detached)
			s.mu.Lock()
			f.place, f.err, s.flight = place, err, nil
			s.mu.Unlock()
			close(f.done)
		})
		if !begun {
			s.flight = nil
			s.mu.Unlock()
			cancel(nil)
			return nil, executors.ErrStopping()
		}
	}
	s.mu.Unlock()
	select {
	case <-f.done:
		if f.err != nil {
			return nil, f.err
		}
		a := executors.AsOf(ctx)
		if err := m.cfg.Choice.Admit(ctx, f.place.Kind, a.UserID); err != nil {
			return nil, err
		}
		s.usedFor(ctx, f.place, a)
		return f.place.Place, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// trustFor is how long a good answer from a sandbox on another machine counts without asking again.
const trustFor = 30 * time.Second

// usable returns the slot's live sandbox when it can be used as it is; nil when the caller must first wake or make one.
func (s *slot) usable(ctx context.Context) (*place, error) {
	for looked := false; ; looked = true {
		s.mu.Lock()
		p := s.place
		if p == nil || p.closing {
			s.mu.Unlock()
			return nil, nil
		}
		p.Use()()
		waking := p.waking.Load() // read first: a sandbox woken in between counts as awake
		why, wakes := p.paused.Load(), p.record.PausedFor.Wakes()
		stale := p.OwnDisk && s.m.now()-max(p.healthAt, p.record.HealthAt) > trustFor.Milliseconds()
		s.mu.Unlock()
		if err := s.m.cfg.Choice.Admit(ctx, p.Kind, executors.AsOf(ctx).UserID); err != nil {
			return nil, err
		}
		if away := s.m.cfg.Choice.Unreachable(ctx, p.Kind); away != nil {
			s.left(ctx, p, away)
			return nil, away
		}
		switch {
		case why != nil && (wakes || waking): // somebody is waking it: the slot's turn becomes free when it is awake, or could not be woken
			return nil, nil
		case why != nil:
			return nil, errPaused(*why)
		case stale && !looked:
			if err := s.m.Check(ctx, s.workspaceID); err != nil { // the slot may have another sandbox by now
				s.m.cfg.Log.Debug("the requested sandbox does not answer", "workspace_id", s.workspaceID, "error", err)
			}
			continue
		}
		if a := executors.AsOf(ctx); a.Purpose != "" {
			s.m.cfg.Counters.Reused(p.Kind, a.Purpose)
			s.usedFor(ctx, p, a)
		}
		return p, nil
	}
}

// make puts a live sandbox into the slot: the one that is there, a recovered one, or a new one.
func (s *slot) make(ctx context.Context) (*place, error) {
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	rctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	if p := s.current(); p != nil {
		if p, err := s.wakeForUse(rctx, p); p != nil || err != nil {
			return p, err
		}
	}
	if p, err := s.reclaimAwake(rctx); p != nil || err != nil {
		return p, err
	}
	spec, kind, err := s.m.cfg.Workspaces.Spec(ctx, s.workspaceID)
	if err != nil {
		return nil, fmt.Errorf("reading which sandbox workspace %s needs: %w", s.workspaceID, err)
	}
	pol, err := s.m.cfg.Choice.Policy(ctx, spec.TeamID)
	if err != nil {
		return nil, err
	}
	e, caps, err := s.m.cfg.Choice.Pick(ctx, pol, kind)
	if err != nil {
		return nil, err
	}
	who := executors.AsOf(ctx)
	if err := s.m.cfg.Choice.Admit(ctx, e.Kind(), who.UserID); err != nil {
		return nil, err
	}
	if err := s.m.reaper.clearLeft(ctx, e, s.workspaceID); err != nil {
		return nil, err
	}
	owner := who.UserID // a used sandbox belongs to its user, also when they only asked for files or a port
	if owner == "" {
		_, owner = executors.AskerOf(ctx)
	}
	owner = cmp.Or(owner, spec.UserID)
	spec.ID, spec.WorkspaceID, spec.UserID = id.New("sbx"), s.workspaceID, who.UserID
	k := s.m.newMaking(executors.Record{Handle: executors.Handle{Kind: e.Kind(), ID: spec.ID}, TeamID: spec.TeamID, WorkspaceID: s.workspaceID,
		State: executors.Starting, StartedAt: s.m.now(), UserID: owner, Purpose: who.Purpose}, caps)
	rec := k.record()
	err = s.m.cfg.Store.InsertSandbox(ctx, rec)
	if fault.Is(err, fault.Conflict) {
		// The store has an open row this process does not know yet: recover its sandbox instead of making a second.
		if err := s.adoptOpen(ctx); err != nil {
			return nil, err
		}
		if p, err := s.reclaimAwake(rctx); p != nil || err != nil {
			return p, err
		}
		err = s.m.cfg.Store.InsertSandbox(ctx, rec)
	}
	if err != nil {
		return nil, fmt.Errorf("storing the new sandbox of workspace %s: %w", s.workspaceID, err)
	}
	s.mu.Lock()
	if s.flight != nil {
		s.flight.making = k
	}
	s.mu.Unlock()
	s.m.publish(ctx, rec)
	return s.create(ctx, e, caps, spec, k)
}

// connect greets a sandbox's guest.
func (m *Manager) connect(ctx context.Context, sb executors.Sandbox, rec executors.Record) (*place, error) {
	p := &place{m: m, Place: executors.NewPlace(rec.Handle.ID, rec.WorkspaceID, rec.TeamID, rec.Handle.Kind), record: rec}
	if e, ok := m.cfg.Executors.Find(ctx, p.Kind); ok {
		c := m.cfg.Choice.CapabilitiesOf(ctx, e)
		p.OwnDisk, p.SharedHome = c.OwnDisk, c.SharedHome
	}
	p.setBox(sb)
	single, _ := sb.(executors.SinglePipe)
	p.Guest = client.New(client.Config{Dial: p.dial, Token: sb.Token(), SandboxID: rec.Handle.ID, Ready: p.ready, Now: m.cfg.Now,
		OnePipe: single != nil && single.OnePipe()})
	hello, err := p.hello(ctx)
	if err != nil {
		p.Guest.Close()
		return nil, fmt.Errorf("greeting sandbox %s: %w", rec.Handle.ID, err)
	}
	p.Hello = hello
	return p, nil
}

// dial dials the sandbox's guest. When that fails, it asks the health check to look at once, so that whoever follows the guest's processes
// learns within moments that the guest is gone.
func (p *place) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	pipe, err := p.box().Dial(ctx)
	if err != nil && ctx.Err() == nil {
		p.queueRecheck()
	}
	return pipe, err
}

// recheckQueueEvery is the shortest time between two checks of one sandbox that failed dials ask for.
const recheckQueueEvery = time.Second

func (p *place) queueRecheck() {
	s := p.m.slot(p.WorkspaceID)
	now := p.m.now()
	s.mu.Lock()
	due := s.place == p && now-p.worriedAt >= recheckQueueEvery.Milliseconds()
	if due {
		p.worriedAt = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	select {
	case p.m.checks.recheckQueue <- p.WorkspaceID:
	default: // beyond this many the regular check suffices
	}
}

// hello asks the guest for its identity and checks the answer, which is not trusted.
func (p *place) hello(ctx context.Context) (guest.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, p.m.cfg.DialTimeout)
	defer cancel()
	h, err := p.Guest.Hello(ctx)
	if err != nil {
		return guest.Hello{}, err
	}
	return h, executors.CheckHello(h, p.SandboxID)
}

// settle puts the sandbox into the slot and notifies everybody. The sandbox may be suspended.
func (s *slot) settle(ctx context.Context, p *place) {
	s.mu.Lock()
	s.place, s.stray = p, nil
	s.mu.Unlock()
	p.settled(ctx)
	s.m.publish(ctx, p.record)
	for _, a := range s.m.attached() {
		if a.Live == nil {
			continue
		}
		a.Live(p.Place)
	}
}

// dismantle destroys a sandbox that was made but cannot be used.
func (k *making) dismantle(ctx context.Context, sb executors.Sandbox, rec executors.Record, cause error) {
	k.remove(ctx, sb) // once its row is closed the reaper finds what is left, and tries again
	if errors.Is(cause, errMakingCancelled) {
		k.m.finish(ctx, rec, executors.Gone, "Its making was cancelled.")
		return
	}
	k.m.finish(ctx, rec, executors.Failed, "It did not answer: "+executors.ReasonOf(cause))
}

// finish closes a sandbox's row and notifies the team.
func (m *Manager) finish(ctx context.Context, rec executors.Record, state executors.State, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	rec.State, rec.Reason, rec.EndedAt, rec.PausedFor = state, executors.CleanReason(reason), m.now(), ""
	rec.Steps = endSteps(rec.Steps, errors.New(reason), rec.EndedAt)
	if m.reaper.fresh(rec.Handle.ID) { // it was found gone
		m.cfg.Metering.FoundStopped(ctx, rec)
	} else {
		m.cfg.Metering.Stopped(ctx, m.cfg.Metering.UsageInterval(rec), 0, executors.ByServer)
	}
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Error("end of a sandbox could not be stored", "sandbox_id", rec.Handle.ID, "error", err)
	}
	m.cfg.Log.Info("sandbox ended", "sandbox_id", rec.Handle.ID, "workspace_id", rec.WorkspaceID, "state", state,
		"reason", reason)
	m.publish(ctx, rec)
	if state == executors.Failed {
		m.cfg.Counters.Failed(rec.Handle.Kind, rec.Purpose)
	}
	for _, a := range m.attached() {
		if a.Ended == nil {
			continue
		}
		a.Ended(rec)
	}
}

// current returns the slot's live sandbox or nil.
func (s *slot) current() *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place
}

// adoptOpen makes the workspace's open row the slot's stray.
func (s *slot) adoptOpen(ctx context.Context) error {
	rec, err := s.m.cfg.Store.LastSandbox(ctx, s.workspaceID)
	if fault.Is(err, fault.NotFound) || err == nil && rec.EndedAt != 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the open sandbox of workspace %s: %w", s.workspaceID, err)
	}
	s.mu.Lock()
	s.stray = &rec
	s.mu.Unlock()
	return nil
}

// reclaimAwake is reclaim for a caller who needs the sandbox: it wakes one that turns out to be suspended.
func (s *slot) reclaimAwake(ctx context.Context) (*place, error) {
	p, err := s.reclaim(ctx)
	if p == nil || err != nil {
		return nil, err
	}
	return s.wakeForUse(ctx, p)
}

// reclaim tries to reach the slot's stray again. It returns (nil, nil) when there is none or the sandbox turned out to be gone, and an error
// when the sandbox may still exist but cannot be reached.
func (s *slot) reclaim(ctx context.Context) (*place, error) {
	s.mu.Lock()
	stray := s.stray
	s.mu.Unlock()
	if stray == nil {
		return nil, nil
	}
	if away := s.m.cfg.Choice.Unreachable(ctx, stray.Handle.Kind); away != nil {
		s.markUnreachable(ctx, *stray, away)
		return nil, away
	}
	p, err := s.revive(ctx, *stray)
	switch {
	case errors.Is(err, executors.ErrGone):
		return nil, nil
	case err != nil:
		return nil, fault.Wrap(err, fault.Unavailable, "sandbox_unreachable",
			"The workspace's sandbox exists but cannot be reached now. Try again, or destroy the sandbox to get a new one.")
	}
	return p, nil
}
