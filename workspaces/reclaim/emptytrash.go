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

// TrashStore keeps what was deleted until it is removed for good. A row stays for the ledger and the audit; nothing shows it any more.
type TrashStore interface {
	// Trash returns a team's deleted projects and workspaces, the newest first; those of all teams with "".
	Trash(ctx context.Context, teamID string) ([]Trashed, error)
	// BeginPurge notes that a deleted workspace or project is being removed for good, fault.NotFound when it is not in the trash, and
	// fault.Conflict of a project that has workspaces there. From then on nobody sees it.
	BeginPurge(ctx context.Context, kind TrashKind, id string, at int64) error
	// EndPurge notes that nothing of it is left, and forgets what the database holds beside its row.
	EndPurge(ctx context.Context, kind TrashKind, id string) error
	// CutPurges returns what began to be removed and did not end.
	CutPurges(ctx context.Context) ([]Trashed, error)
	// TrashedProject returns a deleted project, fault.NotFound when it is not in the trash.
	TrashedProject(ctx context.Context, id string) (workspaces.Project, error)
	// GitDirOf returns where a workspace's repository is, also of one nobody sees any more.
	GitDirOf(ctx context.Context, workspaceID string) (string, error)
	// NoteSize stores how many bytes on disk it takes.
	NoteSize(ctx context.Context, kind TrashKind, id string, bytes int64) error
}

// TrashKind says what lies in the trash.
type TrashKind string

// What lies in the trash.
const (
	TrashWorkspace TrashKind = "workspace"
	TrashProject   TrashKind = "project"
)

// Trashed is something that was deleted and can still be restored. Times are ms UTC.
type Trashed struct {
	Kind       TrashKind
	ID, TeamID string
	ProjectID  string // of a workspace, and the project's own
	Num        int64  // of a workspace
	Name       string
	Private    bool
	CreatedBy  string
	DeletedAt  int64
	DeletedBy  string
	PurgeAt    int64 // when it is removed by itself, 0 = never
	Bytes      int64 // on disk when it was last counted, -1 = not yet
	Restorable bool  // something of it was kept
}

// Forgetter is an optional ability of Sessions: it removes what it keeps of a workspace's sessions.
type Forgetter interface {
	Forget(ctx context.Context, workspaceID string) error
	// HistoryBytes is what it keeps of a workspace's sessions on disk.
	HistoryBytes(ctx context.Context, workspaceID string) (int64, error)
}

// Trashed returns what the trash of a team holds, or of all with "", the newest first.
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

// NoteSize remembers how many bytes on disk something in the trash takes.
func (s *Service) NoteSize(ctx context.Context, kind TrashKind, id string, bytes int64) error {
	return s.cfg.Trash.NoteSize(ctx, kind, id, bytes)
}

// Purge removes what is in the trash for good: snapshots, branches kept, the agents' home, the history of its sessions. Its number, its name
// and what it cost stay known. Errors: not_found, project_in_use.
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
	// From here on it goes to its end, whoever asked; what a crash cuts is taken up again.
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

// purgeWorkspace removes everything of a workspace but its rows. It may be done again.
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
		return git.DiskFault(err, "Removing what was kept")
	}
	return nil
}

// RestoreProject brings a deleted project back as it was; its workspaces are restored one by one. Errors: not_found, snapshot_gone.
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

// retainEvery is how often the trash is looked after.
const retainEvery = time.Hour

// Run removes what lay in the trash for long enough, and finishes what a crash cut, until ctx is done.
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

// Retain removes for good what lay in the trash for long enough, workspaces before the projects they are of.
func (s *Service) Retain(ctx context.Context) {
	cut, err := s.cfg.Trash.CutPurges(ctx)
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "what was being removed could not be read", "error", err)
		return
	}
	for _, t := range cut {
		if err := s.purge(ctx, t.Kind, t.ID); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "what was being removed for good is not gone yet", "kind", t.Kind, "id", t.ID, "error", err)
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
			if t.Kind != kind || t.PurgeAt > s.records.Millis() || git.FolderExists(filepath.Join(s.cfg.DataDir, "kept", t.ID)) { // what was set aside waits for a person
				continue
			}
			switch err := s.Purge(ctx, kind, t.ID); {
			case err == nil:
				s.cfg.Log.InfoContext(ctx, "removed for good: it lay in the trash for long enough", "kind", kind, "id", t.ID, "team_id", t.TeamID)
			case fault.Is(err, fault.Conflict), fault.Is(err, fault.NotFound): // somebody was faster, or it waits for a workspace of its own
			default:
				s.cfg.Log.WarnContext(ctx, "what lay in the trash for long enough could not be removed", "kind", kind, "id", t.ID, "error", err)
			}
		}
	}
}
