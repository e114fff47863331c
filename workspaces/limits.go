package workspaces

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
)

// Limits returns what a workspace says of its sandbox's limits itself, and what its project says.
func (s *Service) Limits(ctx context.Context, workspaceID string) (own, project executors.Limits, err error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return own, project, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return own, project, err
	}
	return w.Limits, p.Limits, nil
}

// SetLimits changes what a workspace says itself. Errors: invalid_limit, limit_above_maximum.
func (s *Service) SetLimits(ctx context.Context, actor accounts.Actor, workspaceID string, l executors.Limits) (Workspace, error) {
	if err := l.Check(s.cfg.MaxLimits); err != nil {
		return Workspace{}, err
	}
	w, err := s.Edit(ctx, workspaceID, func(w *Workspace) error { w.Limits = l; return nil })
	if err != nil {
		return w, err
	}
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.limits", Text: "Changed the limits: " + l.Words()})
	return w, nil
}

// Tell writes into a workspace's timeline what was done to it that nobody asked for, and has those look who show it.
func (s *Service) Tell(ctx context.Context, workspaceID, kind, text string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if err := s.Record(context.WithoutCancel(ctx), Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: kind, Text: text}); err != nil {
		return err
	}
	s.PublishWorkspace(ctx, w)
	return nil
}

// Folder is the folder of the server that a workspace's worktree is in.
func (s *Service) Folder(workspaceID string) string { return s.workspaceDir(workspaceID) }

// WorkspacesOf returns the workspaces of a project that are not deleted.
func (s *Service) WorkspacesOf(ctx context.Context, projectID string) ([]Workspace, error) {
	return s.store.WorkspacesOf(ctx, projectID)
}
