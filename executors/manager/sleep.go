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
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// Limits for suspending and waking a sandbox with a disk of its own: the executor writes its memory to disk.
const (
	homeTimeout  = 2 * time.Minute // for copying its files to the server
	stillTimeout = 2 * time.Minute // for the executor itself
	runReserve   = 30 * time.Second
)

// insideHome is the agents' home in every sandbox with a disk of its own.
const insideHome = "/home/user"

// WakesItself reports whether the workspace's sandbox is suspended and wakes when its guest is needed: Ensure wakes it.
func (m *Manager) WakesItself(workspaceID string) bool {
	if m.still.Load() == 0 {
		return false
	}
	s := m.slot(workspaceID)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place != nil && s.place.paused.Load() != nil && s.place.record.PausedFor.Wakes()
}

// LiveAwake returns the workspace's live sandbox while its guest can be called: for work that is no reason to wake it.
func (m *Manager) LiveAwake(workspaceID string) (*executors.Place, bool) {
	p, ok := m.Live(workspaceID)
	if !ok || p.Asleep() {
		return nil, false
	}
	return p, true
}

// timeoutOf returns the time limit for suspending a sandbox, and for waking it.
func timeoutOf(p *place) time.Duration {
	if p.OwnDisk {
		return stillTimeout
	}
	return pauseTimeout
}

// lull copies a sandbox's changes to the server and suspends it for a reason that people read. The caller holds the slot's turn. unless,
// if given, is asked last: when it returns true, nothing is done.
func (s *slot) suspend(ctx context.Context, p *place, why executors.PausedFor, reason string, unless func() bool) error {
	began := s.m.now()
	ctx = context.WithoutCancel(ctx)
	if p.OwnDisk {
		_ = s.syncBeforeSuspend(ctx, p) // what only it holds stays in it
		if words := s.m.behindWords(ctx, p.WorkspaceID); words != "" {
			reason += " " + words
		}
	}
	if unless != nil && unless() {
		return nil
	}
	// Stored first: a suspended sandbox is always stored as such, and is found again.
	if err := s.mark(ctx, p, executors.Paused, reason, why); err != nil {
		return fmt.Errorf("storing sandbox %s as paused: %w", p.SandboxID, err)
	}
	p.setPaused(&reason)
	failpoint.Reach(failpoint.SandboxPaused)
	if err := p.freeze(ctx, reason); err != nil {
		p.setPaused(nil)
		if merr := s.mark(ctx, p, executors.Running, "", ""); merr != nil {
			s.m.cfg.Log.Error("a sandbox that could not be paused is stored as paused", "sandbox_id", p.SandboxID, "error", merr)
		}
		return fault.Wrap(err, fault.Unavailable, "pause_failed", "The sandbox could not be paused. Try again.")
	}
	s.m.cfg.Log.Info("sandbox paused", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "for", why, "reason", reason, "ms", s.m.now()-began)
	return nil
}

// wakeForUse wakes, for somebody who needs it, a sandbox that wakes when needed. The caller holds the slot's turn. It returns nil without an
// error when the sandbox turned out to be gone.
func (s *slot) wakeForUse(ctx context.Context, p *place) (*place, error) {
	why := p.paused.Load()
	if why == nil {
		return p, nil
	}
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	if !rec.PausedFor.Wakes() {
		return nil, errPaused(*why)
	}
	if err := s.m.cfg.Metering.Afford(ctx, s.m.cfg.Metering.UsageInterval(rec)); err != nil {
		if fault.KindOf(err) != fault.Internal { // the ledger refused it; it was not unreachable
			s.saved(ctx, p, err)
		}
		return nil, err
	}
	if err := s.wake(ctx, p); err != nil {
		s.m.cfg.Metering.Release(ctx, rec.Handle.ID)
		if errors.Is(err, executors.ErrGone) {
			return nil, nil
		}
		return nil, err
	}
	return p, nil
}

// saved leaves a suspended sandbox so until somebody wakes it: there is no money to go on.
func (s *slot) saved(ctx context.Context, p *place, cause error) {
	reason := "Your work is saved. " + executors.ReasonOf(cause)
	if err := s.mark(context.WithoutCancel(ctx), p, executors.Paused, reason, executors.ByLimit); err != nil {
		s.m.cfg.Log.Warn("the reason why a sandbox is not woken could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	p.setPaused(&reason)
	p.MarkSuspended(reason)
	p.notify(ctx, "sandbox.held", "The sandbox stays asleep. "+reason)
}

// wake resumes a sandbox. The caller holds the slot's turn. ErrGone when there is nothing left to wake: then the sandbox has ended.
func (s *slot) wake(ctx context.Context, p *place) error {
	began := s.m.now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutOf(p))
	defer cancel()
	if err := s.resume(ctx, p); err != nil {
		if errors.Is(err, executors.ErrGone) {
			s.lose(ctx, p, err)
			return executors.ErrGone
		}
		if fault.KindOf(err) != fault.Internal { // its executor says why, and what can be done
			return err
		}
		return fault.Wrap(err, fault.Unavailable, "wake_failed", "The sandbox could not be woken. Try again.")
	}
	p.Unfreeze() // from here on its guest may be called; waiting callers wake once all is recorded
	defer p.MarkResumed()
	p.setPaused(nil)
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	s.m.cfg.Metering.RunsOn(ctx, rec, 0)
	if p.OwnDisk {
		s.greetAgain(ctx, p)
	}
	s.mu.Lock()
	p.record.Handle = p.box().Handle()
	p.record.LeaseUntil, p.record.RunEndsAt = 0, 0
	p.idleAt, p.extendedAt = 0, 0
	s.mu.Unlock()
	if err := s.mark(ctx, p, executors.Running, "", ""); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as woken", "sandbox_id", p.SandboxID, "error", err)
	}
	s.keep(ctx, p)
	s.m.cfg.Log.Info("sandbox woken", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "ms", s.m.now()-began)
	return nil
}

// resume makes the executor resume the sandbox.
func (s *slot) resume(ctx context.Context, p *place) error {
	if !p.Asleep() {
		return nil
	}
	if _, remoteDisk := p.box().(*distant); !remoteDisk {
		if pz, ok := p.box().(executors.Pauser); ok {
			return pz.Resume(ctx)
		}
		return nil
	}
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	if err := s.m.attached().prepare(ctx, rec); err != nil {
		return err
	}
	e, ok := s.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return executors.ErrNoExecutor(p.Kind)
	}
	sb, err := e.Recover(ctx, rec.Handle)
	if err != nil {
		return fmt.Errorf("waking sandbox %s: %w", p.SandboxID, err)
	}
	p.setBox(sb)
	return nil
}

// greetAgain greets a guest that was just woken. The health check takes over one that does not answer yet.
func (s *slot) greetAgain(ctx context.Context, p *place) {
	h, err := p.hello(ctx)
	if err != nil {
		s.m.cfg.Log.Warn("a woken sandbox does not answer yet", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Hello.Root != h.Root || p.Hello.Home != h.Home { // the state was known from the record
		p.Hello = h
	}
	p.healthAt = s.m.now()
}

// distant is a sandbox known only to be suspended, in an executor where that is free: it was found after a restart, and asking for more
// would wake it.
type distant struct {
	m      *Manager
	handle executors.Handle
}

var _ executors.Sandbox = (*distant)(nil)

func (d *distant) Handle() executors.Handle { return d.handle }

func (d *distant) Token() string { return "" }

func (d *distant) Dial(context.Context) (io.ReadWriteCloser, error) { return nil, errPaused("") }

func (d *distant) Destroy(ctx context.Context) error {
	e, ok := d.m.cfg.Executors.Find(ctx, d.handle.Kind)
	if !ok {
		return executors.ErrNoExecutor(d.handle.Kind)
	}
	return d.m.reaper.destroyHandle(ctx, e, d.handle)
}

// destroyHandle destroys a sandbox that has no Place in this process.
func (rp *reaper) destroyHandle(ctx context.Context, e executors.Executor, h executors.Handle) error {
	if rm, ok := e.(executors.Remover); ok {
		return rm.Remove(ctx, h)
	}
	sb, err := e.Recover(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		return err
	}
	if err != nil {
		return fmt.Errorf("finding sandbox %s to destroy it: %w", h.ID, err)
	}
	return sb.Destroy(ctx)
}

// dormant reports whether a stored sandbox is suspended in an executor where that is free. asked is false where the executor cannot say so
// without waking it, or need not be asked.
func (m *Manager) dormant(ctx context.Context, rec executors.Record) (still, asked bool, err error) {
	if rec.State != executors.Running && rec.State != executors.Paused {
		return false, false, nil
	}
	e, _ := m.cfg.Executors.Find(ctx, rec.Handle.Kind)
	s, ok := e.(executors.Sleeper)
	if !ok {
		return false, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*m.cfg.DialTimeout)
	defer cancel()
	still, err = s.Asleep(ctx, rec.Handle)
	return still, true, err
}

// adopt puts a suspended sandbox into the slot, without waking it. The caller holds the slot's turn.
func (s *slot) adopt(ctx context.Context, rec executors.Record) *place {
	s.m.cfg.Metering.FoundStopped(ctx, rec)
	if rec.State == executors.Running { // this server did not suspend it
		rec.State = executors.Paused
		rec.PausedFor, rec.Reason = s.m.fellAsleepFor(ctx, rec)
	}
	reason := rec.Reason
	p := &place{m: s.m, Place: executors.NewPlace(rec.Handle.ID, rec.WorkspaceID, rec.TeamID, rec.Handle.Kind), record: rec}
	p.OwnDisk = s.m.cfg.Choice.OwnDisk(ctx, rec.Handle.Kind)
	p.setBox(&distant{s.m, rec.Handle})
	p.Hello = guest.Hello{Version: guest.Version, SandboxID: rec.Handle.ID, Home: insideHome}
	if spec, _, err := s.m.cfg.Workspaces.Spec(ctx, rec.WorkspaceID); err == nil {
		p.Hello.Root = spec.Inside
	}
	p.Guest = client.New(client.Config{Dial: p.dial, SandboxID: rec.Handle.ID, Ready: p.ready, Now: s.m.cfg.Now, Late: func() (string, bool) {
		sb := p.box()
		single, _ := sb.(executors.SinglePipe)
		return sb.Token(), single != nil && single.OnePipe()
	}})
	p.MarkSuspended(reason)
	p.setPaused(&reason)
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as asleep", "sandbox_id", rec.Handle.ID, "error", err)
	}
	s.settle(ctx, p)
	return p
}

// fellAsleepFor returns why a sandbox is suspended that this server did not suspend, and notifies people.
func (m *Manager) fellAsleepFor(ctx context.Context, rec executors.Record) (executors.PausedFor, string) {
	if e, ok := m.cfg.Executors.Find(ctx, rec.Handle.Kind); ok {
		if x, ok := e.(executors.Explainer); ok {
			if words := x.AsleepBecause(rec.Handle.ID); words != "" {
				return executors.ByLease, "Asleep: " + words + " Its files are kept. It wakes when you type."
			}
		}
	}
	if rec.RunEndsAt > 0 && m.now() >= rec.RunEndsAt-time.Minute.Milliseconds() {
		return executors.ByCeiling, "Asleep: its place limits how long a run may last. It wakes when you type."
	}
	return executors.ByLease, "Asleep: its place paused it, because this server had not extended its lease. It wakes when you type."
}

// fellAsleep records that a live sandbox is suspended although this server did not suspend it. If somebody worked in it, it wakes the
// sandbox. The caller holds the slot's turn.
func (s *slot) fellAsleep(ctx context.Context, p *place) {
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	why, reason := s.m.fellAsleepFor(ctx, rec)
	p.MarkSuspended(reason)
	p.setPaused(&reason)
	s.m.cfg.Metering.FoundStopped(ctx, rec)
	if err := s.mark(context.WithoutCancel(ctx), p, executors.Paused, reason, why); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as asleep", "sandbox_id", p.SandboxID, "error", err)
	}
	s.m.cfg.Log.Warn("a sandbox was suspended by its executor", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "for", why)
	p.wakeWorking(ctx)
}

// wakeWorking wakes a sandbox that its executor suspended while somebody worked in it.
func (p *place) wakeWorking(ctx context.Context) {
	if !p.m.attached().useOf(p.WorkspaceID).Working {
		return
	}
	p.notify(ctx, "sandbox.renewed", "The sandbox's place had paused it while an agent worked. It goes on.")
	ctx = context.WithoutCancel(ctx)
	p.m.work.Go(func() {
		if _, err := p.m.Ensure(ctx, p.WorkspaceID); err != nil {
			p.m.cfg.Log.Warn("a sandbox in which an agent worked could not be woken", "sandbox_id", p.SandboxID, "error", err)
		}
	})
}

// wakeUnfinished wakes sandboxes that fell asleep while this server was away and somebody worked in them.
func (m *Manager) wakeUnfinished(ctx context.Context) {
	for _, p := range m.places() {
		s := m.slot(p.WorkspaceID)
		s.mu.Lock()
		slept := p.paused.Load() != nil && (p.record.PausedFor == executors.ByLease || p.record.PausedFor == executors.ByCeiling)
		s.mu.Unlock()
		if slept {
			p.wakeWorking(ctx)
		}
	}
}
