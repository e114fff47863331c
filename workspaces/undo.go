package workspaces

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
)

// failCreate removes everything a creation made and keeps the row, failed, with the reason and the steps.
func (s *Service) failCreate(ctx context.Context, workspaceID string, cause error) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "failed creation could not be read", "workspace_id", workspaceID, "error", err)
		return
	}
	why := Reason(cause)
	s.cfg.Log.InfoContext(ctx, "creation failed", "workspace_id", workspaceID, "error", why)
	if err := s.undo(ctx, w); err != nil {
		s.cfg.Log.ErrorContext(ctx, "creation could not be cleaned up", "workspace_id", workspaceID, "error", err)
		why += " Not everything it made could be removed: " + Reason(err)
	}
	ended := StepFailed
	if errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrShutdown) {
		ended = StepCancelled
	}
	_, err = s.Edit(ctx, workspaceID, func(w *Workspace) error {
		w.State, w.StateReason = Failed, why
		for i := range w.Steps {
			switch st := &w.Steps[i]; st.State {
			case StepRunning:
				st.State, st.EndedAt = ended, s.Millis()
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
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.failed", Text: why})
}

// undo removes sandbox, worktree and branch of a creation or restore that did not end well. Only a branch that carries the
// mark of it is removed.
func (s *Service) undo(ctx context.Context, w Workspace) error {
	var errs []error
	reached := func(step string) bool {
		for _, st := range w.Steps {
			if st.Name == step {
				return st.State != StepPending
			}
		}
		return false
	}
	if places, sessions, err := s.Rooms(); err == nil && reached(stepSandbox) {
		if reached(stepSetup) {
			errs = append(errs, sessions.StopAll(ctx, w.ID))
		}
		errs = append(errs, places.Destroy(executors.Discard(ctx), w.ID)) // what a creation made is given up with it
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := s.RemoveFolder(s.workspaceDir(w.ID)); err != nil {
		errs = append(errs, err)
	}
	creating := w.State == Creating || w.State == SettingUp
	if creating {
		errs = append(errs, s.RemoveFolder(s.SandboxDir(w.ID)))
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer unlock()
	errs = append(errs, forgetWorktree(p.GitDir, w.Path))
	mark, err := s.CommitOf(ctx, p.GitDir, creatingRef(w.ID))
	if err != nil || mark == "" {
		return errors.Join(append(errs, err)...)
	}
	edits := []RefEdit{refDelete(creatingRef(w.ID), mark)}
	if creating {
		edits = append(edits, refDrop(BaseRef(w.ID)))
	}
	tip, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch)
	switch {
	case tip == "":
	case tip == mark:
		edits = append(edits, refDelete(HeadsPrefix+w.Branch, tip))
	case creating: // a setup script that commits
		edits = append(edits, RefSet(trashHead(w.ID), tip), refDelete(HeadsPrefix+w.Branch, tip))
	}
	errs = append(errs, err, s.UpdateRefs(ctx, p.GitDir, "undo "+w.Key(), edits...))
	return errors.Join(errs...)
}
