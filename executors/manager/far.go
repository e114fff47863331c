package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Far reports whether the workspace lives in a place with a disk of its own, and in which state its sandbox is there: "" = it has none
// now. Nothing is made or woken for that.
func (m *Manager) Far(ctx context.Context, workspaceID string) (far bool, state executors.State, err error) {
	if p, ok := m.live(workspaceID); ok {
		if _, paused := m.Paused(workspaceID); paused {
			return p.OwnDisk, executors.Paused, nil
		}
		return p.OwnDisk, executors.Running, nil
	}
	rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, "", err
	}
	if err == nil && rec.EndedAt == 0 {
		return m.ownDisk(ctx, rec.Handle.Kind), rec.State, nil
	}
	spec, kind, err := m.cfg.Workspaces.Spec(ctx, workspaceID)
	if err != nil {
		return false, "", err
	}
	if kind != "" && kind != executors.Auto {
		return m.ownDisk(ctx, kind), "", nil
	}
	pol, err := m.policy(ctx, spec.TeamID)
	if err != nil {
		return false, "", err
	}
	_, c, err := m.pick(ctx, pol, kind)
	return err == nil && c.OwnDisk, "", nil // where nothing can be picked, asking for a place says why
}
