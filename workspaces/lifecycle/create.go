package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Create stores a workspace in state creating and returns it; Run does the steps, which show in the row.
func (s *Service) Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	name, err := git.CheckName(n.Name, "workspace")
	if err != nil {
		return workspaces.Workspace{}, err
	}
	p, err := s.store.Project(ctx, n.ProjectID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	if p.TeamID != teamID {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "not_found", "There is no such project.")
	}
	if p.State != workspaces.ProjectReady {
		return workspaces.Workspace{}, git.NotReady(p)
	}
	if err := n.Limits.Check(s.cfg.MaxLimits); err != nil {
		return workspaces.Workspace{}, err
	}
	n.Base = cmp.Or(n.Base, p.DefaultBranch)
	if err := s.repo.CheckBase(ctx, n.Base); err != nil {
		return workspaces.Workspace{}, err
	}
	wish := n.Executor
	if n.Executor, err = s.choose(executors.As(ctx, "", actor.User.ID), p, wish, n.FallbackOK); err != nil {
		return workspaces.Workspace{}, err
	}
	if n.Folder, err = transfer.FolderFor(p, n.Executor, n.Folder); err != nil {
		return workspaces.Workspace{}, err
	}
	now := s.records.Millis()
	w := workspaces.Workspace{ID: cmp.Or(n.ID, id.New("ws")), TeamID: teamID, ProjectID: p.ID, Name: name, Branch: n.Branch, Base: n.Base, Executor: n.Executor, Folder: n.Folder, Limits: n.Limits, FallbackOK: n.FallbackOK, Private: n.Private,
		State: workspaces.Creating, Steps: newSteps(), CreatedBy: actor.User.ID, CreatedAt: now, UpdatedAt: now}
	w.Path = filepath.Join(s.repo.WorkspaceDir(w.ID), workspaces.PathSlug(name))

	w, err = s.reserve(ctx, p, w, n.Also)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	failpoint.Reach(failpoint.WorkspaceStored)
	if e, ok := s.records.Chooser().(workspaces.Explainer); ok {
		e.KeepWhy(executors.As(ctx, "", actor.User.ID), teamID, w.ID, executors.Kind(w.Executor), executors.Kind(wish), executors.Kind(p.Executor))
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: teamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.created",
		Text: fmt.Sprintf("Created from %s on branch %s%s", hostgit.Clean(w.Base), w.Branch, s.executorWords(ctx, w.Executor)), Data: map[string]any{"base": w.Base, "branch": w.Branch}})
	s.records.PublishWorkspace(ctx, w)
	if err := s.jobs.Add(w.ID, func(ctx context.Context) { s.build(ctx, w.ID) }); err != nil {
		s.failCreate(context.WithoutCancel(ctx), w.ID, err)
		return workspaces.Workspace{}, err
	}
	return w, nil
}

// reserve determines the branch's name and stores the row, which reserves the name until the branch exists.
func (s *Service) reserve(ctx context.Context, p workspaces.Project, w workspaces.Workspace, also func(context.Context, workspaces.Workspace) error) (workspaces.Workspace, error) {
	unlock, err := s.locks.Names.LockContext(ctx, p.ID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	defer unlock()
	if w.Branch == "" {
		w.Branch, err = s.repo.FreeBranch(ctx, p, s.cfg.BranchPrefix+workspaces.Slug(w.Name), "")
	} else {
		err = s.repo.ClaimBranch(ctx, p, w.Branch, "")
	}
	if err != nil {
		return workspaces.Workspace{}, err
	}
	if also == nil {
		w, err = s.store.InsertWorkspace(ctx, w)
	} else {
		row := w
		err = s.store.Tx(ctx, func(ctx context.Context) (err error) {
			if w, err = s.store.InsertWorkspace(ctx, row); err != nil {
				return err
			}
			return also(ctx, w)
		})
	}
	if err != nil {
		return w, err
	}
	if err := s.numbers.raise(map[string]int64{w.TeamID: w.Num}); err != nil {
		s.cfg.Log.WarnContext(ctx, "the highest number of a workspace could not be stored outside the database", "error", err)
	}
	return w, nil
}

// All returns every workspace of the team that f lets through, in no order: for callers who know that they are few. Each statement names as
// many IDs as fit on one page, so that none is looked up twice.
func (s *Service) All(ctx context.Context, teamID string, f workspaces.Filter) ([]workspaces.Workspace, error) {
	var out []workspaces.Workspace
	parts := [][]string{nil}
	if len(f.IDs) > 0 {
		parts = slices.Collect(slices.Chunk(f.IDs, page.MaxLimit))
	}
	for _, f.IDs = range parts {
		for pg := (page.Page{Limit: page.MaxLimit}); ; {
			some, next, err := s.records.List(ctx, teamID, f, pg)
			if err != nil {
				return nil, err
			}
			out = append(out, some...)
			if pg.Cursor = next; next == "" {
				break
			}
		}
	}
	return out, nil
}

// Trash returns a page of the team's deleted workspaces that can be restored.
func (s *Service) Trash(ctx context.Context, teamID string, pg page.Page) ([]workspaces.Workspace, string, error) {
	return s.store.Workspaces(ctx, teamID, workspaces.Filter{Show: workspaces.ShowTrash}, pg)
}

// Rename renames a workspace; branch and folder stay.
func (s *Service) Rename(ctx context.Context, workspaceID, name string) (workspaces.Workspace, error) {
	name, err := git.CheckName(name, "workspace")
	if err != nil {
		return workspaces.Workspace{}, err
	}
	return s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error { w.Name = name; return nil })
}

// SetPrivate makes a workspace private to its creator, or opens it to the team. Only its creator can make it private; the caller has
// checked that actor sees it at all.
func (s *Service) SetPrivate(ctx context.Context, actor accounts.Actor, workspaceID string, private bool) (workspaces.Workspace, error) {
	was := private
	w, err := s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		if private && !w.Private && w.CreatedBy != actor.User.ID {
			return fault.New(fault.Forbidden, "not_the_owner", "Only the creator of %s can make it private.", w.Key()).With("field", "private")
		}
		was, w.Private = w.Private, private
		return nil
	})
	if err != nil || was == private {
		return w, err
	}
	text := "Opened to the team"
	if private {
		text = "Made private: only its owner sees it"
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.private", Text: text, Data: map[string]any{"private": private}})
	return w, nil
}

// Private returns the private workspaces of a team, those in the trash included; of all teams with "".
func (s *Service) Private(ctx context.Context, teamID string) ([]workspaces.Workspace, error) {
	return s.store.PrivateWorkspaces(ctx, teamID)
}

// Cancel cancels a running creation. It returns when everything the creation made is removed.
func (s *Service) Cancel(ctx context.Context, workspaceID string) (workspaces.Workspace, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	var done <-chan struct{}
	if w.State == workspaces.Creating || w.State == workspaces.SettingUp {
		done = s.jobs.Cancel(workspaceID, workspaces.ErrCancelled)
	}
	if done == nil {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "not_creating", "%s is not being created.", w.Key())
	}
	select {
	case <-done:
		return s.store.Workspace(ctx, workspaceID)
	case <-ctx.Done():
		return workspaces.Workspace{}, context.Cause(ctx)
	}
}

// RetryCreate starts a failed creation again, with the same key, branch and base.
func (s *Service) RetryCreate(ctx context.Context, workspaceID string) (workspaces.Workspace, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	unlock, err := s.locks.Names.LockContext(ctx, p.ID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	defer unlock()
	if w.State != workspaces.Failed || w.DeletedAt != 0 {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "not_failed", "%s is %s: only a failed creation can be tried again.", w.Key(), workspaces.StateWord(w))
	}
	if err := s.repo.ClaimBranch(ctx, p, w.Branch, w.ID); err != nil {
		return workspaces.Workspace{}, err
	}
	w, err = s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		if w.State != workspaces.Failed || w.DeletedAt != 0 {
			return fault.New(fault.Conflict, "not_failed", "%s is %s: only a failed creation can be tried again.", w.Key(), workspaces.StateWord(*w))
		}
		w.State, w.StateReason, w.Steps, w.BaseCommit = workspaces.Creating, "", newSteps(), ""
		return nil
	})
	if err != nil {
		return workspaces.Workspace{}, err
	}
	if err := s.jobs.Add(w.ID, func(ctx context.Context) { s.build(ctx, w.ID) }); err != nil {
		s.failCreate(context.WithoutCancel(ctx), w.ID, err)
		return workspaces.Workspace{}, err
	}
	return w, nil
}
