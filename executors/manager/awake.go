package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Awake reports whether the workspace's sandbox lives and can answer now.
func (m *Manager) Awake(workspaceID string) bool {
	p, ok := m.live(workspaceID)
	return ok && p.paused.Load() == nil && p.away.Load() == nil
}

// Stands reports whether this sandbox of the workspace has not ended, whether or not it can be reached now.
func (m *Manager) Stands(ctx context.Context, workspaceID, sandboxID string) (bool, error) {
	rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil && rec.Handle.ID == sandboxID && rec.EndedAt == 0, err
}

// At returns the Place of the workspace's live sandbox.
func (m *Manager) At(workspaceID string) (*executors.Place, bool) { return m.Live(workspaceID) }
