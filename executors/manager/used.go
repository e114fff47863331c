package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// EnsureFor is Ensure for a purpose of a user.
func (m *Manager) EnsureFor(ctx context.Context, workspaceID string, p executors.Purpose, userID string) (*executors.Place, error) {
	return m.Ensure(executors.As(ctx, p, userID), workspaceID)
}

// usedFor records a use of a live sandbox; a purpose stronger than the stored one is stored.
func (s *slot) usedFor(ctx context.Context, p *place, a executors.Asker) {
	if a.Purpose == "" {
		return
	}
	s.mu.Lock()
	stronger := s.place == p && a.Purpose.Rank() > p.record.Purpose.Rank()
	if stronger {
		p.record.Purpose = a.Purpose
	}
	rec := p.record
	s.mu.Unlock()
	if !stronger {
		return
	}
	s.m.cfg.Metering.UsedFor(p.SandboxID, a.Purpose)
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		s.m.cfg.Log.Warn("the purpose of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
	s.m.publish(ctx, rec)
}
