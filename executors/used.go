package executors

import "context"

// EnsureFor is Ensure for a purpose of a user.
func (m *Manager) EnsureFor(ctx context.Context, workspaceID string, p Purpose, userID string) (*Place, error) {
	return m.Ensure(As(ctx, p, userID), workspaceID)
}

// usedFor notes a use of a live place; a stronger one than before is stored.
func (m *Manager) usedFor(ctx context.Context, r *room, p *place, a Asker) {
	if a.Purpose == "" {
		return
	}
	r.mu.Lock()
	stronger := r.place == p && a.Purpose.rank() > p.record.Purpose.rank()
	if stronger {
		p.record.Purpose = a.Purpose
	}
	rec := p.record
	r.mu.Unlock()
	if !stronger {
		return
	}
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		m.cfg.Log.Warn("use of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	m.publish(ctx, rec)
}
