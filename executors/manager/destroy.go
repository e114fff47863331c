package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Destroy ends the workspace's sandbox and everything in it, and cancels a making under way. Idempotent: without a sandbox there is nothing
// to do. When the executor cannot destroy the sandbox now, the sandbox stays stored as stopping, and the health check tries again.
func (m *Manager) Destroy(ctx context.Context, workspaceID string) error {
	s := m.slot(workspaceID)
	s.cancelMaking()
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	// From here on the destruction continues even if the caller leaves: a half-destroyed sandbox helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	p := s.current()
	if p == nil {
		if err := s.adoptOpen(ctx); err != nil {
			return err
		}
	}
	if why := m.Away(ctx, workspaceID); why != nil {
		if !executors.Discarding(ctx) {
			return why
		}
		s.leaveBehind(ctx, why)
		return nil
	}
	if p == nil {
		return s.destroyStray(ctx)
	}
	if err := s.mustBeHome(ctx, p); err != nil {
		return err
	}
	ctx, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout) // copying files to the server may have taken long
	defer cancelEnd()
	return s.end(ctx, p, "It was destroyed.")
}

// cancelMaking cancels a making under way: callers that wait for the sandbox get an error that says so.
func (s *slot) cancelMaking() {
	s.mu.Lock()
	f := s.flight
	s.mu.Unlock()
	if f != nil {
		f.cancel(errMakingCancelled)
	}
}

// stop ends this sandbox of the workspace, and none that came after it, and records the reason that its people read: "stopped: ...".
func (m *Manager) stop(ctx context.Context, workspaceID, sandboxID, words string) error {
	s := m.slot(workspaceID)
	release, err := s.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	p := s.current()
	if p == nil || p.SandboxID != sandboxID {
		return nil
	}
	m.noteEnd(sandboxID, words)
	return s.end(ctx, p, sentence(words))
}

// end ends a live sandbox on purpose. The caller holds the slot's turn.
func (s *slot) end(ctx context.Context, p *place, reason string) error {
	if p.paused.Load() != nil { // a suspended sandbox can neither copy its files nor exit
		if err := s.wake(ctx, p); errors.Is(err, executors.ErrGone) {
			return nil
		} else if err != nil {
			s.m.cfg.Log.Warn("paused sandbox could not be woken to be ended", "sandbox_id", p.SandboxID, "error", err)
		}
	}
	s.mu.Lock()
	p.closing = true
	p.record.State, p.record.Reason = executors.Stopping, ""
	rec := p.record
	s.mu.Unlock()
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as stopping", "sandbox_id", p.SandboxID, "error", err)
	}
	s.m.publish(ctx, rec)
	p.takeLeave(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout) // copying files to the server may have taken long
	defer cancel()
	if err := p.box().Destroy(ctx); err != nil {
		s.mu.Lock()
		s.place, s.stray = nil, &rec
		p.setPaused(nil)
		s.mu.Unlock()
		p.close("It is being destroyed.")
		return fault.Wrap(err, fault.Unavailable, "destroy_failed",
			"The sandbox could not be destroyed completely. The server tries again in a moment.")
	}
	s.endPlace(ctx, p, executors.Gone, reason)
	return nil
}

// destroyStray destroys a sandbox that is stored as open but has no Place.
func (s *slot) destroyStray(ctx context.Context) error {
	if err := s.adoptOpen(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	stray := s.stray
	s.mu.Unlock()
	if stray == nil {
		return nil
	}
	rec := *stray
	rec.State = executors.Stopping
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		return fmt.Errorf("storing sandbox %s as stopping: %w", rec.Handle.ID, err)
	}
	e, ok := s.m.cfg.Executors.Find(ctx, rec.Handle.Kind)
	if !ok {
		return fault.New(fault.Unavailable, "executor_unavailable",
			"The sandbox belongs to executor %q, which is not configured. Configure it again to destroy the sandbox.",
			rec.Handle.Kind)
	}
	err := s.m.reaper.destroyHandle(ctx, e, rec.Handle)
	gone := err == nil || errors.Is(err, executors.ErrGone)
	s.mu.Lock()
	s.stray = &rec
	if gone {
		s.stray = nil
	}
	s.mu.Unlock()
	if !gone {
		return fault.Wrap(err, fault.Unavailable, "destroy_failed",
			"The sandbox could not be destroyed completely. The server tries again in a moment.")
	}
	if errors.Is(err, executors.ErrGone) {
		s.m.cfg.Metering.FoundStopped(ctx, rec)
	}
	s.m.finish(ctx, rec, executors.Gone, "It was destroyed.")
	return nil
}
