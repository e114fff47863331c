package manager

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Leave ends the workspace's sandbox so that it can have one in another executor. When the sandbox's executor is no longer configured, or
// cannot be used now, Leave abandons the sandbox, and the reaper removes it once the executor answers again.
func (m *Manager) Leave(ctx context.Context, workspaceID string) error {
	if m.Away(ctx, workspaceID) != nil {
		return m.Destroy(executors.Discard(ctx), workspaceID)
	}
	err := m.Destroy(ctx, workspaceID)
	if err == nil {
		return nil
	}
	s := m.slot(workspaceID)
	if p := s.current(); p != nil && fault.CodeOf(err) == codeNotSynced {
		// A reachable executor first copies to the server what only it holds, unless its people discard that. An unreachable one keeps
		// nobody from leaving.
		if c, ok := m.cfg.Choice.Place(ctx, p.Kind); ok && c.Available {
			return err
		}
		if err = m.Destroy(executors.Discard(ctx), workspaceID); err == nil {
			return nil
		}
	}
	release, terr := s.turn.Lock(ctx)
	if terr != nil {
		return terr
	}
	defer release()
	s.mu.Lock()
	stray := s.stray
	s.mu.Unlock()
	if stray == nil {
		return err
	}
	why := fmt.Sprintf("its place, %s, is no longer part of this server", stray.Handle.Kind)
	if c, ok := m.cfg.Choice.Place(ctx, stray.Handle.Kind); ok {
		if c.Available {
			return err // it can be reached, and is about to be destroyed
		}
		why = fmt.Sprintf("%s cannot be used now", c.Name)
	}
	s.mu.Lock()
	s.stray = nil
	s.mu.Unlock()
	m.cfg.Metering.Stopped(ctx, m.cfg.Metering.UsageInterval(*stray), 0, executors.ByHeartbeat)
	m.finish(ctx, *stray, executors.Gone, "It was left behind: "+why+". The server removes what is left of it once that place answers again.")
	return nil
}

// Lost reports whether the workspace has an open sandbox whose executor is no longer configured or cannot be used now.
func (m *Manager) Lost(ctx context.Context, workspaceID string) bool {
	s := m.slot(workspaceID)
	s.mu.Lock()
	stray := s.stray
	s.mu.Unlock()
	if stray == nil {
		return m.Away(ctx, workspaceID) != nil
	}
	c, ok := m.cfg.Choice.Place(ctx, stray.Handle.Kind)
	return !ok || !c.Available
}
