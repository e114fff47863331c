package reclaim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// TrashStore stores what was deleted until it is purged. A purged row stays for the ledger and the audit, but is never shown.
type TrashStore interface {
	// Trash returns a team's deleted projects and workspaces, the newest first; those of all teams with "".
	Trash(ctx context.Context, teamID string) ([]Trashed, error)
	// BeginPurge marks a deleted workspace or project as being purged; fault.NotFound when it is not in the trash, and fault.Conflict for a
	// project with workspaces there. From then on it is not shown.
	BeginPurge(ctx context.Context, kind TrashKind, id string, at int64) error
	// EndPurge marks the purge as complete, and deletes related rows.
	EndPurge(ctx context.Context, kind TrashKind, id string) error
	// CutPurges returns the purges that did not complete.
	CutPurges(ctx context.Context) ([]Trashed, error)
	// TrashedProject returns a deleted project, fault.NotFound when it is not in the trash.
	TrashedProject(ctx context.Context, id string) (workspaces.Project, error)
	// GitDirOf returns where a workspace's repository is, also of one that is no longer shown.
	GitDirOf(ctx context.Context, workspaceID string) (string, error)
	// NoteSize stores the disk use in bytes.
	NoteSize(ctx context.Context, kind TrashKind, id string, bytes int64) error
}

// TrashKind is a kind of deleted thing.
type TrashKind string

// Kinds of deleted things.
const (
	TrashWorkspace TrashKind = "workspace"
	TrashProject   TrashKind = "project"
)

// Trashed is something deleted that can still be restored. Times are ms UTC.
type Trashed struct {
	Kind       TrashKind
	ID, TeamID string
	ProjectID  string // of a workspace; its own id for a project
	Num        int64  // of a workspace
	Name       string
	Private    bool
	CreatedBy  string
	DeletedAt  int64
	DeletedBy  string
	PurgeAt    int64 // when it is purged automatically, 0 = never
	Bytes      int64 // on disk at the last count, -1 = not counted yet
	Restorable bool  // it has a snapshot
}

// Forgetter is an optional ability of Sessions: it deletes the stored data of a workspace's sessions.
type Forgetter interface {
	Forget(ctx context.Context, workspaceID string) error
	// HistoryBytes is the disk use of a workspace's sessions.
	HistoryBytes(ctx context.Context, workspaceID string) (int64, error)
}

// Trashed returns the contents of a team's trash, or of all with "", the newest first.
func (s *Service) Trashed(ctx context.Context, teamID string) ([]Trashed, error) {
	all, err := s.cfg.Trash.Trash(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the trash: %w", err)
	}
	for i := range all {
		if s.cfg.TrashKeep > 0 {
			all[i].PurgeAt = all[i].DeletedAt + s.cfg.TrashKeep.Milliseconds()
		}
	}
	return all, nil
}

// TrashedProject returns a project that is in the trash.
func (s *Service) TrashedProject(ctx context.Context, id string) (workspaces.Project, error) {
	return s.cfg.Trash.TrashedProject(ctx, id)
}

// NoteSize stores the disk use of something in the trash.
func (s *Service) NoteSize(ctx context.Context, kind TrashKind, id string, bytes int64) error {
	return s.cfg.Trash.NoteSize(ctx, kind, id, bytes)
}

// Purge permanently deletes something in the trash: snapshots, saved branches, the agents' home, the history of its sessions. Its number,
// its name and its cost stay known. Errors: not_found, project_in_use.
func (s *Service) Purge(ctx context.Context, kind TrashKind, id string) error {
	if kind == TrashWorkspace {
		_, release, err := s.lifecycle.Acquire(ctx, id)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := s.cfg.Trash.BeginPurge(ctx, kind, id, s.records.Millis()); err != nil {
		return err
	}
	failpoint.Reach(failpoint.PurgeBegun)
	// From here on it completes even if the caller leaves; after a crash the next server continues it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	return s.purge(ctx, kind, id)
}

func (s *Service) purge(ctx context.Context, kind TrashKind, id string) error {
	var err error
	if kind == TrashProject {
		err = errors.Join(s.repo.RemoveFolder(s.transfer.ProjectDir(id)), s.repo.RemoveFolder(string(s.sandboxes.SharedStore(id))))
	} else {
		err = s.purgeWorkspace(ctx, id)
	}
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.PurgeRemoved)
	return s.cfg.Trash.EndPurge(ctx, kind, id)
}

// purgeWorkspace removes everything of a workspace except its rows. It is idempotent.
func (s *Service) purgeWorkspace(ctx context.Context, id string) error {
	gitDir, err := s.cfg.Trash.GitDirOf(ctx, id)
	if err != nil {
		return fmt.Errorf("reading where the repository is: %w", err)
	}
	if git.FolderExists(gitDir) {
		if err := s.repo.DropRefsOf(ctx, gitDir, id); err != nil {
			return err
		}
	}
	s.snapshots.ForgetSnapshots(id)
	var errs []error
	for _, dir := range [...]string{s.repo.WorkspaceDir(id), s.sandboxes.SandboxDir(id), filepath.Join(s.cfg.DataDir, "sync", id), filepath.Join(s.cfg.DataDir, "kept", id)} {
		errs = append(errs, s.repo.RemoveFolder(dir))
	}
	if _, sessions, err := s.records.Connected(); err == nil {
		if f, ok := sessions.(Forgetter); ok {
			errs = append(errs, f.Forget(ctx, id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return git.DiskFault(err, "Removing the hidden refs")
	}
	return nil
}

// RestoreProject brings a deleted project back as it was; its workspaces are restored separately. Errors: not_found, snapshot_gone.
func (s *Service) RestoreProject(ctx context.Context, projectID string) (workspaces.Project, error) {
	if err := s.store.UndeleteProject(ctx, projectID); err != nil {
		return workspaces.Project{}, err
	}
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return workspaces.Project{}, err
	}
	s.records.PublishProject(ctx, p)
	return s.records.WithProgress(p), nil
}

// retainEvery is how often the trash is checked.
const retainEvery = time.Hour

// Run purges what has been in the trash for its retention time, and finishes interrupted purges, until ctx is done.
func (s *Service) Run(ctx context.Context) {
	if s.cfg.Trash == nil {
		return
	}
	ctx = tenant.All(ctx, "the trash of every team is emptied in time")
	for {
		s.Retain(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.cfg.After(retainEvery):
		}
	}
}

// Retain purges what has been in the trash for its retention time, workspaces before their projects.
func (s *Service) Retain(ctx context.Context) {
	cut, err := s.cfg.Trash.CutPurges(ctx)
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "unfinished purges could not be read", "error", err)
		return
	}
	for _, t := range cut {
		if err := s.purge(ctx, t.Kind, t.ID); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "an unfinished purge failed again", "kind", t.Kind, "id", t.ID, "error", err)
		}
	}
	if s.cfg.TrashKeep <= 0 {
		return
	}
	all, err := s.Trashed(ctx, "")
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "the trash could not be read", "error", err)
		return
	}
	for _, kind := range [...]TrashKind{TrashWorkspace, TrashProject} {
		for _, t := range all {
			if ctx.Err() != nil {
				return
			}
			if t.Kind != kind || t.PurgeAt > s.records.Millis() || git.FolderExists(filepath.Join(s.cfg.DataDir, "kept", t.ID)) { // files that were moved aside wait for a person
				continue
			}
			switch err := s.Purge(ctx, kind, t.ID); {
			case err == nil:
				s.cfg.Log.InfoContext(ctx, "purged: its time in the trash is over", "kind", kind, "id", t.ID, "team_id", t.TeamID)
			case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound): // another caller was faster, or it waits for one of its workspaces
			default:
				s.cfg.Log.WarnContext(ctx, "something whose time in the trash is over could not be purged", "kind", kind, "id", t.ID, "error", err)
			}
		}
	}
}
