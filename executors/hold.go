package executors

import "context"

// Hold has this sandbox of the workspace stand still for a limit, until Wake, after everything in it was brought home. Where its place cannot
// pause it is ended for the reason its people are told, once everything it alone has is home: paused is false then. ErrGone when the
// workspace has another sandbox by now, or none: that is left alone. Idempotent.
func (m *Manager) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (paused bool, err error) {
	r := m.room(workspaceID)
	release, err := r.take(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	p := r.current()
	if p == nil || p.SandboxID != sandboxID {
		return false, ErrGone
	}
	if p.paused.Load() != nil {
		r.mu.Lock()
		wakes := p.record.PausedFor.wakes()
		r.mu.Unlock()
		if !wakes {
			return true, nil
		}
		return true, m.holdAs(ctx, r, p, reason, ByLimit)
	}
	if why := m.awayWhy(ctx, p.Kind); why != nil {
		return false, why
	}
	if _, ok := m.pauser(ctx, p); ok {
		return true, m.lull(ctx, r, p, ByLimit, reason, nil)
	}
	if err := m.mustBeHome(ctx, r, p); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	m.noteEnd(sandboxID, "stopped: "+reason)
	return false, m.end(ctx, r, p, sentence(reason))
}
