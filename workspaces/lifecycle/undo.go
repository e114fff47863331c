package lifecycle

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/projects"
)

// failCreate removes everything a creation made and marks the row as failed, with the reason and the steps.
func (s *Service) failCreate(ctx context.Context, workspaceID string, cause error) {
	ctx, cancel := context.WithTimeout(ctx, projects.CleanupTime)
	defer cancel()
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "failed creation could not be read", "workspace_id", workspaceID, "error", err)
		return
	}
	why := git.Reason(cause)
	s.cfg.Log.InfoContext(ctx, "creation failed", "workspace_id", workspaceID, "error", why)
	if err := s.undo(ctx, w); err != nil {
		s.cfg.Log.ErrorContext(ctx, "creation could not be cleaned up", "workspace_id", workspaceID, "error", err)
		why += " Not everything it created could be removed: " + git.Reason(err)
	}
	ended := StepFailed
	if errors.Is(cause, workspaces.ErrCancelled) || errors.Is(cause, workspaces.ErrShutdown) {
		ended = StepCancelled
	}
	_, err = s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		w.State, w.StateReason = workspaces.Failed, why
		for i := range w.Steps {
			switch st := &w.Steps[i]; st.State {
			case StepRunning:
				st.State, st.EndedAt = ended, s.records.Millis()
				if ended == StepCancelled {
					st.Detail = ""
				}
			case StepPending:
				st.State = StepSkipped
			}
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "failed creation could not be stored", "workspace_id", workspaceID, "error", err)
		return
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.failed", Text: why})
}

// undo removes sandbox, worktree and branch of a failed creation or restore. It removes the branch only if it has the operation's mark.
func (s *Service) undo(ctx context.Context, w workspaces.Workspace) error {
	var errs []error
	reached := func(step string) bool {
		for _, st := range w.Steps {
			if st.Name == step {
				return st.State != StepPending
			}
		}
		return false
	}
	if places, sessions, err := s.records.Connected(); err == nil && reached(stepSandbox) {
		if reached(stepSetup) {
			errs = append(errs, sessions.StopAll(ctx, w.ID))
		}
		errs = append(errs, places.Destroy(executors.Discard(ctx), w.ID)) // what a creation made is given up with it
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := s.repo.RemoveFolder(s.repo.WorkspaceDir(w.ID)); err != nil {
		errs = append(errs, err)
	}
	creating := w.State == workspaces.Creating || w.State == workspaces.SettingUp
	if creating {
		errs = append(errs, s.repo.RemoveFolder(s.sandboxes.SandboxDir(w.ID)))
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer unlock()
	errs = append(errs, git.ForgetWorktree(p.GitDir, w.Path))
	mark, err := s.repo.CommitOf(ctx, p.GitDir, git.CreatingRef(w.ID))
	if err != nil || mark == "" {
		return errors.Join(append(errs, err)...)
	}
	edits := []git.RefEdit{git.RefDelete(git.CreatingRef(w.ID), mark)}
	if creating {
		edits = append(edits, git.RefDrop(git.BaseRef(w.ID)))
	}
	tip, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	switch {
	case tip == "":
	case tip == mark:
		edits = append(edits, git.RefDelete(git.HeadsPrefix+w.Branch, tip))
	case creating: // a setup script that commits
		edits = append(edits, git.RefSet(git.TrashHead(w.ID), tip), git.RefDelete(git.HeadsPrefix+w.Branch, tip))
	}
	errs = append(errs, err, s.repo.UpdateRefs(ctx, p.GitDir, "undo "+w.Key(), edits...))
	return errors.Join(errs...)
}
