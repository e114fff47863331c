package merge

import (
	"context"

	"github.com/parawork/parawork/workspaces"
)

// Gate says whether a workspace's branch may be merged: the checks and the approval that a project requires. It is asked before anything is
// computed, and never while the workspace is locked.
type Gate interface {
	// Gate returns why the branch must not be merged now, nil when it may.
	Gate(ctx context.Context, w workspaces.Workspace) error
}

// GateBy sets the gate of merges. It is called once, before Run.
func (s *Service) GateBy(g Gate) {
	s.gate.Store(&g)
}

// gated asks the gate.
func (s *Service) gated(ctx context.Context, workspaceID string) error {
	g := s.gate.Load()
	if g == nil {
		return nil
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	return (*g).Gate(ctx, w)
}
