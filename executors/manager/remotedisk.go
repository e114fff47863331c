package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// RemoteDisk reports whether the workspace lives in an executor with a disk of its own, and the state of its sandbox there: "" = it has none
// now. It makes or wakes nothing.
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
	return err == nil && c.OwnDisk, "", nil // where no executor can be picked, Ensure says why
}

// Permit says why nothing new may start in the workspace's current sandbox: its isolation has become weaker than the team allows. Running
// programs are left alone. Without a sandbox it returns nil: Ensure decides.
func (m *Manager) Permit(ctx context.Context, workspaceID string) error {
	p, ok := m.live(workspaceID)
	if !ok {
		return nil
	}
	return m.cfg.Choice.PermitIn(ctx, p.TeamID, p.Kind)
}
