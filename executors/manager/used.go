package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// EnsureFor is Ensure for a purpose of a user.
func (m *Manager) EnsureFor(ctx context.Context, workspaceID string, p executors.Purpose, userID string) (*executors.Place, error) {
	return m.Ensure(executors.As(ctx, p, userID), workspaceID)
}

// usedFor notes a use of a live place; a stronger one than before is stored.
func (m *Manager) usedFor(ctx context.Context, r *room, p *place, a executors.Asker) {
	if a.Purpose == "" {
		return
	}
	r.mu.Lock()
	stronger := r.place == p && a.Purpose.Rank() > p.record.Purpose.Rank()
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
