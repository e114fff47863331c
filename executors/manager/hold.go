package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Hold suspends this sandbox of the workspace for a limit, until Wake, after copying its changes to the server. Where its executor cannot
// pause, Hold ends it with the reason that its people read, once the server has all that only the sandbox holds: paused is false then.
// ErrGone when the workspace has another sandbox by now, or none, or a person paused it: Hold leaves that alone. Idempotent.
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
		return false, executors.ErrGone // a person paused it meanwhile: it waits for a person
	}
	if why := m.cfg.Choice.Unreachable(ctx, p.Kind); why != nil {
		return false, why
	}
	if _, ok := p.pauser(ctx); ok {
		return true, s.suspend(ctx, p, executors.ByLimit, reason, nil)
	}
	if err := s.mustBeHome(ctx, p); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	m.noteEnd(sandboxID, "stopped: "+reason)
	return false, s.end(ctx, p, sentence(reason))
}

// Held says whether a limit suspended the workspace's sandbox, and why. For an unreachable sandbox it returns the last known state.
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

// Unhold resumes the workspace's sandbox if a limit suspended it. Otherwise it does nothing: a sandbox paused by a person waits for a
// person. It is an error while the sandbox cannot be reached.
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
	if p == nil { // the health check finds it again, or finds it gone
		return fault.New(fault.Unavailable, "sandbox_unreachable", "The workspace's sandbox exists but cannot be reached now.")
	}
	return s.wakeHeld(ctx, p)
}
