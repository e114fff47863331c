package tasks

import (
	"context"
	"slices"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/tenant"
)

// maxPending is how many workspaces are noted as changed before Run looks at all instead.
const maxPending = 1000

// Run follows the workspaces in which tasks are worked on, until ctx ends: it notes which files change, closes tasks whose workspace
// was merged, and gives back those whose workspace was deleted. It decides by what the database says and not by an event, so that
// nothing is lost when the server dies in between.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "workspaces of all teams")
	s.follow(ctx, nil)
	if s.cfg.Bus == nil {
		<-ctx.Done()
		return nil
	}
	sub := s.cfg.Bus.Subscribe("", 0)
	defer sub.Close()
	pending, all := map[string]bool{}, true // what changed while it subscribed
	settled := s.cfg.After(s.cfg.Settle)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-sub.C:
			all = sub.Missed() || all || len(pending) >= maxPending
			if e.WorkspaceID != "" && (e.Type == "workspace.updated" || e.Type == "changes.updated" || e.Type == "edits.updated") {
				pending[e.WorkspaceID] = true
			}
			if settled == nil && (all || len(pending) > 0) {
				settled = s.cfg.After(s.cfg.Settle)
			}
		case <-settled:
			ids := []string{}
			for id := range pending {
				ids = append(ids, id)
			}
			if all {
				ids = nil
			}
			if ids == nil || len(ids) > 0 {
				s.follow(ctx, ids)
			}
			clear(pending)
			all, settled = false, nil
		}
	}
}

// follow looks at the tasks of these workspaces, or of all where ids is nil.
func (s *Service) follow(ctx context.Context, ids []string) {
	links, err := s.cfg.Store.Links(ctx, ids)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "the workspaces of tasks could not be read", "error", err)
		}
		return
	}
	for _, l := range links {
		if err := s.followOne(tenant.In(ctx, l.Task.TeamID), l); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "a task does not follow its workspace", "task", l.Task.ID, "workspace_id", l.Task.WorkspaceID, "error", err)
		}
	}
}

func (s *Service) followOne(ctx context.Context, l Link) error {
	switch {
	case l.MergedAt > l.Task.LinkedAt:
		_, err := s.close(ctx, l.Task.UID, "merged in "+l.WorkspaceKey, false)
		return err
	case l.DeletedAt != 0:
		_, err := s.edit(ctx, l.Task.UID, func(_ context.Context, t *Task) error {
			if t.WorkspaceID != l.Task.WorkspaceID || t.Status == Closed {
				return nil
			}
			t.WorkspaceID, t.LinkedAt = "", 0
			if t.Status == InProgress {
				t.Status, t.Assignee = Open, ""
			}
			return nil
		})
		return err
	case !l.Private && l.Task.Status == InProgress:
		s.addFiles(ctx, l.Task)
	}
	return nil
}

// addFiles notes which files were changed for a task. They are an addition to a task: what cannot be read is left out.
func (s *Service) addFiles(ctx context.Context, t Task) {
	if t.WorkspaceID == "" || t.Status != InProgress || len(t.Files) >= MaxFiles {
		return
	}
	if w, err := s.cfg.Projects.Workspace(ctx, t.WorkspaceID); err != nil || w.Private || w.TeamID != t.TeamID {
		return
	}
	paths, err := s.changedFor(ctx, t)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the files of a task could not be read", "task", t.ID, "error", err)
		return
	}
	files := slices.Clone(t.Files)
	for _, p := range paths {
		if !slices.Contains(files, p) && len(files) < MaxFiles {
			files = append(files, p)
		}
	}
	if len(files) == len(t.Files) {
		return
	}
	if _, err := s.edit(ctx, t.UID, func(_ context.Context, t *Task) error { t.Files = files; return nil }); err != nil {
		s.cfg.Log.WarnContext(ctx, "the files of a task could not be stored", "task", t.ID, "error", err)
	}
}

// changedFor returns the paths, as in the API, of the files that the session which holds a task has changed since it took the task.
// If a person holds the task, they are all files that differ in the workspace.
func (s *Service) changedFor(ctx context.Context, t Task) ([]string, error) {
	if s.cfg.Edits != nil && t.Assignee != "" {
		// Not the changed files if there is no edit yet: they may be another session's, and the list of edits follows some seconds later.
		if paths, known, err := s.cfg.Edits.EditedPaths(ctx, t.WorkspaceID, t.Assignee, t.ClaimedAt, MaxFiles); err != nil || known {
			return paths, err
		}
	}
	paths, err := s.cfg.Store.ChangedPaths(ctx, t.WorkspaceID, MaxFiles)
	for i, p := range paths {
		paths[i] = guest.EncodePath(p)
	}
	return paths, err
}
