package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Destroy ends the workspace's sandbox and everything in it; one that is being made is given up. Idempotent: without a sandbox there is nothing to do. When the
// place cannot be destroyed now it stays stored as stopping, and is tried again by the health check.
func (m *Manager) Destroy(ctx context.Context, workspaceID string) error {
	r := m.room(workspaceID)
	r.cancelMaking()
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	// From here on the deed goes on although the caller leaves: half a destruction helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	p := r.current()
	if p == nil {
		if err := m.adoptOpen(ctx, r, workspaceID); err != nil {
			return err
		}
	}
	if why := m.Away(ctx, workspaceID); why != nil {
		if !executors.Discarding(ctx) {
			return why
		}
		m.leaveBehind(ctx, r, why)
		return nil
	}
	if p == nil {
		return m.destroyStray(ctx, r, workspaceID)
	}
	if err := m.mustBeHome(ctx, r, p); err != nil {
		return err
	}
	ctx, cancelEnd := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout) // bringing much home took what it took
	defer cancelEnd()
	return m.end(ctx, r, p, "It was destroyed.")
}

// cancelMaking has a making under way given up: who waits for its place is told so.
func (r *room) cancelMaking() {
	r.mu.Lock()
	f := r.flight
	r.mu.Unlock()
	if f != nil {
		f.cancel(errMakingCancelled)
	}
}

// stop ends this sandbox of the workspace, and none that came after it, for the reason its people are told: "stopped: ...".
func (m *Manager) stop(ctx context.Context, workspaceID, sandboxID, words string) error {
	r := m.room(workspaceID)
	release, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	p := r.current()
	if p == nil || p.SandboxID != sandboxID {
		return nil
	}
	m.noteEnd(sandboxID, words)
	return m.end(ctx, r, p, sentence(words))
}

// end ends a live place on purpose. The caller holds the room's turn.
func (m *Manager) end(ctx context.Context, r *room, p *place, reason string) error {
	if p.paused.Load() != nil { // what stands still can neither bring anything home nor end by itself
		if err := m.wake(ctx, r, p); errors.Is(err, executors.ErrGone) {
			return nil
		} else if err != nil {
			m.cfg.Log.Warn("paused sandbox could not be woken to be ended", "sandbox_id", p.SandboxID, "error", err)
		}
	}
	r.mu.Lock()
	p.closing = true
	p.record.State, p.record.Reason = executors.Stopping, ""
	rec := p.record
	r.mu.Unlock()
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Warn("stopping of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	m.publish(ctx, rec)
	m.takeLeave(ctx, p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout) // bringing much home took what it took
	defer cancel()
	if err := p.box().Destroy(ctx); err != nil {
		r.mu.Lock()
		r.place, r.stray = nil, &rec
		m.setPaused(p, nil)
		r.mu.Unlock()
		p.close("It is being destroyed.")
		return fault.Wrap(err, fault.Unavailable, "destroy_failed",
			"The sandbox could not be destroyed completely. It is tried again in a moment.")
	}
	m.endPlace(ctx, r, p, executors.Gone, reason)
	return nil
}

// destroyStray destroys a sandbox that is stored as open but has no live place.
func (m *Manager) destroyStray(ctx context.Context, r *room, workspaceID string) error {
	if err := m.adoptOpen(ctx, r, workspaceID); err != nil {
		return err
	}
	r.mu.Lock()
	stray := r.stray
	r.mu.Unlock()
	if stray == nil {
		return nil
	}
	rec := *stray
	rec.State = executors.Stopping
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		return fmt.Errorf("storing sandbox %s as stopping: %w", rec.Handle.ID, err)
	}
	e, ok := m.cfg.Executors.Find(ctx, rec.Handle.Kind)
	if !ok {
		return fault.New(fault.Unavailable, "executor_unavailable",
			"The sandbox belongs to executor %q, which is not configured. Configure it again to destroy the sandbox.",
			rec.Handle.Kind)
	}
	err := m.destroyHandle(ctx, e, rec.Handle)
	gone := err == nil || errors.Is(err, executors.ErrGone)
	r.mu.Lock()
	r.stray = &rec
	if gone {
		r.stray = nil
	}
	r.mu.Unlock()
	if !gone {
		return fault.Wrap(err, fault.Unavailable, "destroy_failed",
			"The sandbox could not be destroyed completely. It is tried again in a moment.")
	}
	if errors.Is(err, executors.ErrGone) {
		m.cfg.Metering.FoundStopped(ctx, rec)
	}
	m.finish(ctx, rec, executors.Gone, "It was destroyed.")
	return nil
}
