package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Hold has this sandbox of the workspace stand still for a limit, until Wake, after everything in it was brought home. Where its place cannot
// pause it is ended for the reason its people are told, once everything it alone has is home: paused is false then. ErrGone when the
// workspace has another sandbox by now, or none, or a person had it stand still: that is left alone. Idempotent.
func (m *Manager) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (paused bool, err error) {
	s := m.slot(workspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	p := s.current()
	if p == nil || p.SandboxID != sandboxID {
		return false, executors.ErrGone
	}
	if p.paused.Load() != nil {
		s.mu.Lock()
		why := p.record.PausedFor
		s.mu.Unlock()
		switch {
		case why == executors.ByLimit:
			return true, nil
		case why.Wakes():
			return true, s.holdAs(ctx, p, reason, executors.ByLimit)
		}
		return false, executors.ErrGone // a person had it stand still meanwhile: it waits for a person
	}
	if why := m.cfg.Choice.Unreachable(ctx, p.Kind); why != nil {
		return false, why
	}
	if _, ok := p.pauser(ctx); ok {
		return true, s.lull(ctx, p, executors.ByLimit, reason, nil)
	}
	if err := s.mustBeHome(ctx, p); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	m.noteEnd(sandboxID, "stopped: "+reason)
	return false, s.end(ctx, p, sentence(reason))
}

// Held says whether the workspace's sandbox stands still for a limit, and why. One that cannot be reached now does so as far as anybody
// knows.
func (m *Manager) Held(workspaceID string) (reason string, held bool) {
	m.mu.Lock()
	s := m.slots[workspaceID]
	m.mu.Unlock()
	if s == nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := s.place; {
	case p != nil && p.paused.Load() != nil && p.record.PausedFor == executors.ByLimit:
		return p.record.Reason, true
	case p == nil && s.stray != nil && s.stray.State == executors.Paused && s.stray.PausedFor == executors.ByLimit:
		return s.stray.Reason, true
	}
	return "", false
}

// Unhold has the workspace's sandbox go on that stands still for a limit. Without one it does nothing: what stands still for a person waits
// for a person. It is an error while the sandbox cannot be reached.
func (m *Manager) Unhold(ctx context.Context, workspaceID string) error {
	s := m.slot(workspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, held := m.Held(workspaceID); !held {
		return nil
	}
	p := s.current()
	if p == nil { // the health check finds it, or that it is gone
		return fault.New(fault.Unavailable, "sandbox_unreachable", "The workspace's sandbox exists but cannot be reached now.")
	}
	return s.wakeHeld(ctx, p)
}
