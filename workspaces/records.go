package workspaces

import (
	"context"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/page"
)

// IsLeaving reports whether the workspace is being archived or deleted: no sandbox may be created for it.
func (s *Records) IsLeaving(workspaceID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving[workspaceID]
}

// Chooser returns the Chooser, nil without one.
func (s *Records) Chooser() Chooser {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := s.places.(Chooser)
	return c
}

// SharesCaches reports whether the sandboxes of a workspace share the team's caches: its project may opt out.
func (s *Records) SharesCaches(ctx context.Context, workspaceID string) (bool, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return false, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	return err == nil && !p.NoCaches, err
}

// RemoteSandboxes returns access to sandboxes with their own disk, nil where the server has none.
func (s *Records) RemoteSandboxes() RemoteSandboxes {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, _ := s.places.(RemoteSandboxes)
	return a
}

// Spec returns the sandbox the workspace needs and its executor, for the executors' Manager.
func (s *Records) Spec(ctx context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return executors.Spec{}, "", err
	}
	s.mu.Lock()
	leaving := s.leaving[workspaceID]
	s.mu.Unlock()
	if leaving || w.DeletedAt != 0 || w.State == Archived || w.State == Failed {
		return executors.Spec{}, "", fault.New(fault.Conflict, "workspace_not_active",
			"%s is archived, deleted or failed, so it has no sandbox. Restore it first.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return executors.Spec{}, "", err
	}
	return executors.Spec{TeamID: w.TeamID, WorkspaceID: w.ID, UserID: w.CreatedBy, Key: w.Key(), Root: w.Path, Inside: insideFolder(p), Folder: w.Folder, GitDirs: []string{p.GitDir}},
		executors.Kind(w.Executor), nil
}

// HostGit is this server's git. Everything that works on workspaces runs git through it.
func (s *Records) HostGit() *hostgit.Git { return s.git }

// Millis is the current time in ms UTC.
func (s *Records) Millis() int64 { return s.cfg.Now().UnixMilli() }

// TmpDir is the folder for scratch repositories. Its contents are removed at each start.
func (s *Records) TmpDir() string { return filepath.Join(s.cfg.DataDir, "tmp", "git") }

// Connected returns the sandboxes and the sessions. Before Connect it returns the error starting.
func (s *Records) Connected() (Places, Sessions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil || s.sessions == nil {
		return nil, nil, fault.New(fault.Unavailable, "starting", "The server is still starting. Try again in a moment.")
	}
	return s.places, s.sessions, nil
}

// PublishWorkspace publishes that a workspace has changed.
func (s *Records) PublishWorkspace(ctx context.Context, w Workspace) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "workspace.updated", ID: w.ID, WorkspaceID: w.ID, TeamID: w.TeamID, Version: s.Millis()})
	}
}

// PublishProject publishes that a project has changed.
func (s *Records) PublishProject(ctx context.Context, p Project) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "project.updated", ID: p.ID, TeamID: p.TeamID, Version: s.Millis()})
	}
}

// BeginLeaving prevents new sandboxes for the workspace until the returned func is called.
func (s *Records) BeginLeaving(workspaceID string) func() {
	set := func(v bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if v {
			s.leaving[workspaceID] = true
		} else {
			delete(s.leaving, workspaceID)
		}
	}
	set(true)
	return func() { set(false) }
}

// Edit changes a workspace, sets its update time, and publishes the change to the team.
func (s *Records) Edit(ctx context.Context, workspaceID string, fn func(*Workspace) error) (Workspace, error) {
	w, err := s.store.EditWorkspace(ctx, workspaceID, func(w *Workspace) error {
		w.UpdatedAt = s.Millis()
		return fn(w)
	})
	if err != nil {
		return Workspace{}, err
	}
	s.PublishWorkspace(ctx, w)
	return w, nil
}

// Workspace returns a workspace, also one in the trash.
func (s *Records) Workspace(ctx context.Context, id string) (Workspace, error) {
	return s.store.Workspace(ctx, id)
}

// List returns a page of the team's workspaces, the newest first.
func (s *Records) List(ctx context.Context, teamID string, f Filter, pg page.Page) ([]Workspace, string, error) {
	return s.store.Workspaces(ctx, teamID, f, pg)
}

// Limits returns the sandbox limits set by the workspace and by its project.
func (s *Records) Limits(ctx context.Context, workspaceID string) (own, project executors.Limits, err error) {
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

// WorkspacesOf returns the workspaces of a project that are not deleted.
func (s *Records) WorkspacesOf(ctx context.Context, projectID string) ([]Workspace, error) {
	return s.store.WorkspacesOf(ctx, projectID)
}
