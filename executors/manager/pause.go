package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// pauseTimeout bounds suspending and resuming a sandbox.
const pauseTimeout = 15 * time.Second

// errPaused is returned to everybody who needs a guest that is suspended.
func errPaused(reason string) error {
	reason = cmp.Or(reason, "It is paused.")
	return fault.New(fault.Conflict, "workspace_paused", "%s Wake the workspace to go on.", reason).With("reason", reason)
}

// ready refuses a call that would wait for a suspended guest. Callers use it before each call to the guest.
func (p *place) ready() error {
	if away := p.away.Load(); away != nil {
		return *away
	}
	if why, asleep := p.AsleepFor(); asleep {
		return errPaused(why)
	}
	return nil
}

// Paused returns why the workspace's sandbox is suspended, and whether it is. An unreachable sandbox counts as suspended, as far as this
// server knows.
func (m *Manager) Paused(workspaceID string) (reason string, paused bool) {
	if m.still.Load() == 0 {
		return "", false
	}
	p, ok := m.live(workspaceID)
	if !ok {
		return "", false
	}
	if why := p.paused.Load(); why != nil {
		return *why, true
	}
	if away := p.away.Load(); away != nil {
		return executors.ReasonOf(*away), true
	}
	return "", false
}

// Pause suspends everything in the workspace's sandbox until Wake, also across restarts of the server. reason is a sentence that says why.
// Idempotent; the first reason stays.
func (m *Manager) Pause(ctx context.Context, workspaceID, reason string) error {
	s := m.slot(workspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	p := s.current()
	if p == nil {
		return fault.New(fault.Conflict, "sandbox_not_running", "The workspace has no sandbox that runs now, so there is nothing to pause.")
	}
	if p.paused.Load() != nil {
		return s.holdStill(ctx, p, reason)
	}
	if why := m.cfg.Choice.Unreachable(ctx, p.Kind); why != nil {
		return why
	}
	if _, ok := p.pauser(ctx); !ok {
		return fault.New(fault.Unsupported, "pause_unsupported", "%s cannot pause a sandbox. Destroy it instead: the worktree stays.", m.cfg.Choice.NameOf(ctx, p.Kind))
	}
	return s.suspend(ctx, p, executors.ByPerson, reason, nil)
}

// holdStill makes a suspended sandbox that would wake when needed, or when its limit allows, wait for a person instead.
func (s *slot) holdStill(ctx context.Context, p *place, reason string) error {
	s.mu.Lock()
	why := p.record.PausedFor
	s.mu.Unlock()
	if !why.Wakes() && why != executors.ByLimit {
		return nil
	}
	return s.holdAs(ctx, p, reason, executors.ByPerson)
}

// holdAs stores why a sandbox is suspended from here on.
func (s *slot) holdAs(ctx context.Context, p *place, reason string, why executors.PausedFor) error {
	if err := s.mark(ctx, p, executors.Paused, reason, why); err != nil {
		return fmt.Errorf("storing sandbox %s as paused: %w", p.SandboxID, err)
	}
	p.setPaused(&reason)
	p.MarkSuspended(reason)
	return nil
}

// Wake resumes a paused sandbox. Without a paused one it does nothing; it also finds out when the sandbox is gone.
func (m *Manager) Wake(ctx context.Context, workspaceID string) error {
	s := m.slot(workspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	p := s.current()
	if p == nil || p.paused.Load() == nil {
		return nil
	}
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	if rec.PausedFor.Wakes() {
		_, err := s.wakeForUse(ctx, p)
		return err
	}
	return s.wakeHeld(ctx, p)
}

// wakeHeld wakes a sandbox that does not wake when needed. Callers that need its guest meanwhile wait. The caller holds the slot's turn.
func (s *slot) wakeHeld(ctx context.Context, p *place) error {
	p.waking.Store(true)
	defer p.waking.Store(false)
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	if err := s.m.cfg.Metering.Afford(ctx, s.m.cfg.Metering.UsageInterval(rec)); err != nil {
		return err
	}
	if err := s.wake(ctx, p); err != nil {
		s.m.cfg.Metering.Release(ctx, rec.Handle.ID)
		if !errors.Is(err, executors.ErrGone) {
			return err
		}
	}
	return nil
}

// freeze suspends a sandbox whose record already says so. No call to its guest is made from here on.
func (p *place) freeze(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeoutOf(p))
	defer cancel()
	pz, ok := p.box().(executors.Pauser)
	if !ok {
		return fmt.Errorf("sandbox %s cannot pause", p.SandboxID)
	}
	p.MarkSuspended(reason)
	if err := pz.Pause(ctx); err != nil {
		p.MarkResumed()
		_ = pz.Resume(ctx) // half of it may be suspended
		return fmt.Errorf("freezing sandbox %s: %w", p.SandboxID, err)
	}
	p.m.cfg.Metering.Stopped(ctx, p.m.cfg.Metering.UsageInterval(p.record), 0, executors.ByServer)
	return nil
}

// refreeze suspends again the sandboxes that were suspended before a restart: they were resumed to be found, and so that other components
// could reconnect to what runs in them.
func (m *Manager) refreeze(ctx context.Context) {
	for _, p := range m.places() {
		s := m.slot(p.WorkspaceID)
		release, err := s.turn.Lock(ctx)
		if err != nil {
			return
		}
		if why := p.paused.Load(); why != nil && !p.Asleep() && s.current() == p {
			if p.OwnDisk {
				_ = s.syncBeforeSuspend(ctx, p)
			}
			if err := p.freeze(ctx, *why); err != nil {
				m.cfg.Log.Error("a paused sandbox runs on after a restart", "sandbox_id", p.SandboxID, "error", err)
				_ = s.wake(ctx, p) // its row tells the truth
			}
		}
		release()
	}
}

// setPaused records whether a sandbox is paused, and why.
func (p *place) setPaused(reason *string) {
	switch was := p.paused.Swap(reason); {
	case was == nil && reason != nil:
		p.m.still.Add(1)
	case was != nil && reason == nil:
		p.m.still.Add(-1)
	}
}

// mark stores a live sandbox's state and notifies the team.
func (s *slot) mark(ctx context.Context, p *place, state executors.State, reason string, why executors.PausedFor) error {
	s.mu.Lock()
	if state == executors.Paused && p.record.State != executors.Paused {
		p.record.HealthAt = s.m.now()
	}
	p.record.State, p.record.Reason, p.record.PausedFor = state, executors.CleanReason(reason), why
	rec := p.record
	s.mu.Unlock()
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		return err
	}
	s.m.publish(ctx, rec)
	return nil
}

// pauser returns a sandbox's Pauser, when it has one.
func (p *place) pauser(ctx context.Context) (executors.Pauser, bool) {
	pz, ok := p.box().(executors.Pauser)
	if !ok {
		return nil, false
	}
	e, ok := p.m.cfg.Executors.Find(ctx, p.Kind)
	return pz, ok && p.m.cfg.Choice.CapabilitiesOf(ctx, e).Pause
}

// places returns all live sandboxes.
func (m *Manager) places() []*place {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*place, 0, len(m.slots))
	for _, s := range m.slots {
		if p := s.current(); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// noteEnd remembers why a sandbox was ended that no person ended, for those whose work ends with it.
func (m *Manager) noteEnd(sandboxID, words string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ends) >= maxEnds {
		clear(m.ends) // everybody interested has asked by then
	}
	m.ends[sandboxID] = words
}

// maxEnds limits how many ended sandboxes are remembered.
const maxEnds = 1000

// EndOf says why a sandbox was ended that no person ended, such as "stopped: its time of 8 hours is up; the work is kept". "" = a person
// ended it, or the reason is not known.
func (m *Manager) EndOf(sandboxID string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ends[sandboxID]
}

// sentence capitalizes words and ends them with a full stop.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + strings.TrimSuffix(words[1:], ".") + "."
}

// startedAt returns when the sandbox was made, ms UTC.
func (p *place) startedAt() int64 { return p.record.StartedAt }

// record0 returns the sandbox's record with the fields that never change.
func (p *place) record0() executors.Record {
	return executors.Record{Handle: executors.Handle{Kind: p.Kind, ID: p.SandboxID}, TeamID: p.TeamID, WorkspaceID: p.WorkspaceID, StartedAt: p.startedAt()}
}
