package move

import (
	"context"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// movings are the moves in progress, by workspace id.
type movings struct {
	mu    sync.Mutex
	jobs  map[string]*moveJob
	lacks map[string]map[string]bool // by workspace id and executor: programs that a trial found missing there
}

type moveJob struct {
	m       workspaces.Moving // guarded by movings.mu
	release func()            // unlocks the workspace's busy lock
	lost    bool              // the old executor was unreachable when the move was requested
}

type movingCtx struct{}

// Moving returns why nothing may start in a workspace that is being moved.
func (s *Service) Moving(ctx context.Context, workspaceID string) error {
	if ctx.Value(movingCtx{}) != nil {
		return nil
	}
	m, ok := s.MoveOf(workspaceID)
	if !ok {
		return nil
	}
	return fault.New(fault.Conflict, "workspace_moving", "The workspace is being moved to another place. Wait until that is done, or cancel it.").With("move_id", m.ID)
}

// MoveOf returns the move of a workspace that is in progress.
func (s *Service) MoveOf(workspaceID string) (workspaces.Moving, bool) {
	s.movings.mu.Lock()
	defer s.movings.mu.Unlock()
	j := s.movings.jobs[workspaceID]
	if j == nil {
		return workspaces.Moving{}, false
	}
	return j.m.Clone(), true
}

// shownMoves bounds a list of moves.
const shownMoves = 20

// Moves returns the newest moves of a workspace, the newest first.
func (s *Service) Moves(ctx context.Context, workspaceID string) ([]workspaces.Moving, error) {
	all, err := s.store.Moves(ctx, workspaceID, shownMoves)
	if now, ok := s.MoveOf(workspaceID); ok && err == nil {
		for i := range all {
			if all[i].ID == now.ID {
				all[i] = now
			}
		}
	}
	return all, err
}
