package lifecycle

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
)

// SetLimits changes a workspace's own limits. Errors: invalid_limit, limit_above_maximum.
func (s *Service) SetLimits(ctx context.Context, actor accounts.Actor, workspaceID string, l executors.Limits) (workspaces.Workspace, error) {
	if err := l.Check(s.cfg.MaxLimits); err != nil {
		return workspaces.Workspace{}, err
	}
	w, err := s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error { w.Limits = l; return nil })
	if err != nil {
		return w, err
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.limits", Text: "Changed the limits: " + l.Words()})
	return w, nil
}

// Folder is the folder of the server that a workspace's worktree is in.
func (s *Service) Folder(workspaceID string) string { return s.repo.WorkspaceDir(workspaceID) }
