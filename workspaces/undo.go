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
	why := reason(cause)
	s.cfg.Log.InfoContext(ctx, "creation failed", "workspace_id", workspaceID, "error", why)
	if err := s.undo(ctx, w); err != nil {
		s.cfg.Log.ErrorContext(ctx, "creation could not be cleaned up", "workspace_id", workspaceID, "error", err)
		why += " Not everything it made could be removed: " + reason(err)
	}
	ended := stepFailed
	if errors.Is(cause, errCancelled) || errors.Is(cause, errShutdown) {
		ended = stepCancelled
	}
	_, err = s.edit(ctx, workspaceID, func(w *Workspace) error {
		w.State, w.StateReason = Failed, why
		for i := range w.Steps {
			switch st := &w.Steps[i]; st.State {
			case stepRunning:
				st.State, st.EndedAt = ended, s.now()
				if ended == stepCancelled {
					st.Detail = ""
				}
			case stepPending:
				st.State = stepSkipped
			}
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "failed creation could not be stored", "workspace_id", workspaceID, "error", err)
		return
	}
	s.note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.failed", Text: why})
}

// undo removes sandbox, worktree and branch of a creation or restore that did not end well. Only a branch that carries the
// mark of it is removed.
func (s *Service) undo(ctx context.Context, w Workspace) error {
	var errs []error
	reached := func(step string) bool {
		for _, st := range w.Steps {
			if st.Name == step {
				return st.State != stepPending
			}
		}
		return false
	}
	if places, sessions, err := s.rooms(); err == nil && reached(stepSandbox) {
		if reached(stepSetup) {
			errs = append(errs, sessions.StopAll(ctx, w.ID))
		}
		errs = append(errs, places.Destroy(executors.Discard(ctx), w.ID)) // what a creation made is given up with it
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if err := s.discard(s.workspaceDir(w.ID)); err != nil {
		errs = append(errs, err)
	}
	creating := w.State == Creating || w.State == SettingUp
	if creating {
		errs = append(errs, s.discard(s.boxDir(w.ID)))
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer unlock()
	errs = append(errs, forgetWorktree(p.GitDir, w.Path))
	mark, err := s.commitOf(ctx, p.GitDir, creatingRef(w.ID))
	if err != nil || mark == "" {
		return errors.Join(append(errs, err)...)
	}
	edits := []refEdit{refDelete(creatingRef(w.ID), mark)}
	if creating {
		edits = append(edits, refDrop(baseRef(w.ID)))
	}
	tip, err := s.commitOf(ctx, p.GitDir, headsPrefix+w.Branch)
	switch {
	case tip == "":
	case tip == mark:
		edits = append(edits, refDelete(headsPrefix+w.Branch, tip))
	case creating: // a setup script that commits
		edits = append(edits, refSet(trashHead(w.ID), tip), refDelete(headsPrefix+w.Branch, tip))
	}
	errs = append(errs, err, s.updateRefs(ctx, p.GitDir, "undo "+w.Key(), edits...))
	return errors.Join(errs...)
}
