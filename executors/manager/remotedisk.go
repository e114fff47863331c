package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// RemoteDisk reports whether the workspace lives in a place with a disk of its own, and in which state its sandbox is there: "" = it has none
// now. Nothing is made or woken for that.
func (m *Manager) RemoteDisk(ctx context.Context, workspaceID string) (remoteDisk bool, state executors.State, err error) {
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
		return m.cfg.Choice.OwnDisk(ctx, rec.Handle.Kind), rec.State, nil
	}
	spec, kind, err := m.cfg.Workspaces.Spec(ctx, workspaceID)
	if err != nil {
		return false, "", err
	}
	if kind != "" && kind != executors.Auto {
		return m.cfg.Choice.OwnDisk(ctx, kind), "", nil
	}
	pol, err := m.cfg.Choice.Policy(ctx, spec.TeamID)
	if err != nil {
		return false, "", err
	}
	_, c, err := m.cfg.Choice.Pick(ctx, pol, kind)
	return err == nil && c.OwnDisk, "", nil // where nothing can be picked, asking for a place says why
}

// Permit says why nothing new may start in the workspace's sandbox as it is: its place has become weaker than the team allows. What runs
// there is left alone. Without a sandbox there is nothing to say: Ensure decides.
func (m *Manager) Permit(ctx context.Context, workspaceID string) error {
	p, ok := m.live(workspaceID)
	if !ok {
		return nil
	}
	return m.cfg.Choice.PermitIn(ctx, p.TeamID, p.Kind)
}
