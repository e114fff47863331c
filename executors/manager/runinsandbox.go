package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// RunInSandbox runs a small tool in the workspace's sandbox for another package: bounded in time and output, not recorded. A non-zero exit
// code is no error. Too much output is fault.TooLarge, too much time fault.Timeout.
func (m *Manager) RunInSandbox(ctx context.Context, workspaceID string, b executors.SandboxCommand) (executors.SandboxResult, error) {
	place, err := m.Ensure(ctx, workspaceID)
	if err != nil {
		return executors.SandboxResult{}, err
	}
	return place.Run(ctx, b)
}

// RunLive is RunInSandbox in a live sandbox, and never makes one: for work that accompanies people's requests and must not wait for a
// sandbox whose end itself waits for that work.
func (m *Manager) RunLive(ctx context.Context, workspaceID string, b executors.SandboxCommand) (executors.SandboxResult, error) {
	place, ok := m.Live(workspaceID)
	if !ok {
		return executors.SandboxResult{}, fault.New(fault.Unavailable, "sandbox_not_live", "The workspace has no live sandbox now.")
	}
	return place.Run(ctx, b)
}

// MayReturn reports whether the sandbox is stored as open but could not be reached yet.
func (m *Manager) MayReturn(workspaceID, sandboxID string) bool {
	m.mu.Lock()
	s := m.slots[workspaceID]
	m.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stray != nil && s.stray.Handle.ID == sandboxID
}

// KindOf returns the kind of the workspace's sandbox, or of the one it would get; "" = not known.
func (m *Manager) KindOf(ctx context.Context, workspaceID string) executors.Kind {
	if rec, err := m.cfg.Store.LastSandbox(ctx, workspaceID); err == nil && rec.EndedAt == 0 {
		return rec.Handle.Kind
	}
	_, k, err := m.cfg.Workspaces.Spec(ctx, workspaceID)
	if err != nil {
		return ""
	}
	return k
}

// Spec returns the sandbox a workspace needs, and its kind, according to Workspaces.
func (m *Manager) Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return m.cfg.Workspaces.Spec(ctx, workspaceID)
}
