package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// maxLossPaths is how many paths a Loss lists.
const maxLossPaths = 100

// Loss returns what archiving or deleting the workspace would remove.
func (s *Service) Loss(ctx context.Context, workspaceID string) (workspaces.Loss, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.Loss{}, err
	}
	l := workspaces.Loss{Restorable: true, Uncommitted: []string{}}
	if w.State == workspaces.Creating || w.State == workspaces.SettingUp || w.State == workspaces.Failed {
		return l, nil
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.Loss{}, err
	}
	_, sessions, err := s.records.Connected()
	if err != nil {
		return workspaces.Loss{}, err
	}
	var paths []string
	head := ""
	switch {
	case w.Snapshot != nil && (w.State == workspaces.Archived || w.DeletedAt != 0):
		head = w.Snapshot.Head
		paths, err = s.snapshots.SnapshotPaths(ctx, p, *w.Snapshot)
	case !git.FolderExists(w.Path):
		head, err = s.repo.BranchTip(ctx, p, w)
	default:
		if l.RunningSessions, err = sessions.Running(ctx, workspaceID); err != nil {
			return workspaces.Loss{}, err
		}
		if s.sandboxes.Asleep(ctx, w) {
			if head, err = s.sandboxes.LocalHead(ctx, p, w); err == nil {
				paths, err = s.sandboxes.LocalChanges(ctx, p, w)
			}
			break
		}
		var b *sandboxgit.Sandbox
		if b, err = s.sandboxes.Open(ctx, w); err != nil {
			return workspaces.Loss{}, err
		}
		if head, _, err = b.Head(ctx); err != nil {
			return workspaces.Loss{}, err
		}
		if err := s.sandboxes.FetchCommits(ctx, p, w, b); err != nil {
			return workspaces.Loss{}, err
		}
		paths, err = b.Uncommitted(ctx, "all")
	}
	if err != nil {
		return workspaces.Loss{}, err
	}
	l.UncommittedCount = len(paths)
	l.Uncommitted = append(l.Uncommitted, paths[:min(len(paths), maxLossPaths)]...)
	if head != "" {
		l.UnmergedCommits, err = s.snapshots.CountUnmerged(ctx, p, w, head)
	}
	return l, err
}

// Archive archives a workspace: it stops the sessions, stores everything in hidden refs, and removes sandbox and worktree. The branch
// stays.
func (s *Service) Archive(ctx context.Context, actor accounts.Actor, workspaceID string) (workspaces.Workspace, error) {
	return s.putAway(ctx, actor, workspaceID, false)
}

// Delete does what Archive does, also removes the branch, and puts the workspace into the trash, from where Restore brings it back. It
// first cancels a creation in progress.
func (s *Service) Delete(ctx context.Context, actor accounts.Actor, workspaceID string) (workspaces.Workspace, error) {
	return s.putAway(ctx, actor, workspaceID, true)
}

func (s *Service) putAway(ctx context.Context, actor accounts.Actor, workspaceID string, remove bool) (workspaces.Workspace, error) {
	if _, err := s.store.Workspace(ctx, workspaceID); err != nil {
		return workspaces.Workspace{}, err
	}
	if remove {
		if done := s.jobs.Cancel(workspaceID, workspaces.ErrCancelled); done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return workspaces.Workspace{}, context.Cause(ctx)
			}
		}
	}
	w, release, err := s.Acquire(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	defer release()
	switch {
	case w.DeletedAt != 0:
		return workspaces.Workspace{}, fault.New(fault.Conflict, "already_deleted", "%s is already deleted.", w.Key())
	case w.State == workspaces.Archived && !remove:
		return workspaces.Workspace{}, fault.New(fault.Conflict, "already_archived", "%s is already archived.", w.Key())
	case w.State == workspaces.Creating || w.State == workspaces.SettingUp:
		return workspaces.Workspace{}, fault.New(fault.Conflict, "still_creating", "%s is still being created. Cancel that first.", w.Key())
	case w.State == workspaces.Failed && !remove:
		return workspaces.Workspace{}, fault.New(fault.Conflict, "workspace_failed", "The creation of %s failed: there is nothing to archive. Try again or delete it.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	// From here on it completes even if the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	doomed := ""
	if w.State != workspaces.Archived && w.State != workspaces.Failed {
		if w, doomed, err = s.clear(ctx, p, w, &workspaces.Going{Delete: remove, By: actor.User.ID}); err != nil {
			s.stay(ctx, w)
			return workspaces.Workspace{}, err
		}
	}
	return s.putAwayRest(ctx, actor.User.ID, p, w, doomed, remove)
}

// putAwayRest does what remains once sandbox and worktree are gone. It is idempotent, for a retry after a crash.
func (s *Service) putAwayRest(ctx context.Context, by string, p workspaces.Project, w workspaces.Workspace, doomed string, remove bool) (workspaces.Workspace, error) {
	if remove {
		if err := s.repo.RemoveFolder(filepath.Join(s.sandboxes.SandboxDir(w.ID), "home")); err != nil {
			s.cfg.Log.WarnContext(ctx, "home could not be removed", "workspace_id", w.ID, "error", err)
		}
		if err := s.dropBranch(ctx, p, w); err != nil {
			s.cfg.Log.WarnContext(ctx, "branch could not be removed", "workspace_id", w.ID, "error", err)
		}
	}
	failpoint.Reach(failpoint.PutAwayCleared)
	now := s.records.Millis()
	w, err := s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error {
		if w.Snapshot != nil && w.Snapshot.Commit == "" { // it is only meaningful while the workspace is being removed
			w.Snapshot = nil
		} else if w.Snapshot != nil {
			w.Snapshot.Going = nil
		}
		if remove {
			w.DeletedAt, w.DeletedBy = now, by
		} else {
			w.State, w.StateReason, w.ArchivedAt = workspaces.Archived, "", now
		}
		return nil
	})
	if err != nil {
		return workspaces.Workspace{}, fmt.Errorf("storing that the workspace was archived or deleted: %w", err)
	}
	s.repo.ForgetBase(w.ID)
	if doomed != "" {
		if err := git.RemoveTree(doomed); err != nil { // removed at the next start
			s.cfg.Log.WarnContext(ctx, "folder could not be removed", "workspace_id", w.ID, "error", err)
		}
	}
	kind, text := "workspace.archived", "Archived"
	if remove {
		kind, text = "workspace.deleted", "Deleted"
	}
	if sn := w.Snapshot; sn != nil && sn.Uncommitted+sn.Unmerged > 0 {
		text += fmt.Sprintf("; saved %s and %s", git.Plural(sn.Uncommitted, "uncommitted change", "uncommitted changes"), git.Plural(sn.Unmerged, "unmerged commit", "unmerged commits"))
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: by, Kind: kind, Text: text})
	return w, nil
}

// Acquire reserves the workspace for one operation.
func (s *Service) Acquire(ctx context.Context, workspaceID string) (workspaces.Workspace, func(), error) {
	release, ok := s.locks.Busy.TryLock(workspaceID)
	w, err := s.store.Workspace(ctx, workspaceID)
	if err == nil && !ok {
		err = sandboxgit.BusyFault(w)
	}
	if err != nil {
		if ok {
			release()
		}
		return workspaces.Workspace{}, nil, err
	}
	return w, release, nil
}

// clear stops what runs, takes a snapshot, and removes sandbox and worktree. It removes nothing before the snapshot is stored.
func (s *Service) clear(ctx context.Context, p workspaces.Project, w workspaces.Workspace, going *workspaces.Going) (workspaces.Workspace, string, error) {
	places, sessions, err := s.records.Connected()
	if err != nil {
		return w, "", err
	}
	if err := s.fits(ctx, sessions, p, w); err != nil {
		return w, "", err
	}
	if err := sessions.StopAll(ctx, w.ID); err != nil {
		return w, "", fmt.Errorf("stopping the sessions: %w", err)
	}
	if !git.FolderExists(p.GitDir) {
		return s.clearWithoutRepository(ctx, places, w, going)
	}
	snap, behind, err := s.snapshots.Snapshot(ctx, p, w)
	if err == nil && behind {
		snap, err = s.snapshotAfterEnd(ctx, places, p, w, snap)
	}
	if err != nil {
		return w, "", err
	}
	why := "archive"
	if going.Delete {
		why = "delete"
	}
	if err := s.snapshots.KeepAway(ctx, p, w, snap, why); err != nil {
		return w, "", err
	}
	failpoint.Reach(failpoint.PutAwayKept)
	snap.Going = going
	if w, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.Snapshot = snap; return nil }); err != nil {
		return w, "", fmt.Errorf("storing the snapshot: %w", err)
	}
	failpoint.Reach(failpoint.PutAwayStored)
	doomed, err := s.takeAway(ctx, places, p, w)
	return w, doomed, err
}

// takeAway removes sandbox and worktree of a workspace that has a snapshot. It is idempotent, for a retry after a crash. doomed is the
// folder's new name, "" when there was none.
func (s *Service) takeAway(ctx context.Context, places workspaces.Places, p workspaces.Project, w workspaces.Workspace) (doomed string, err error) {
	defer s.records.BeginLeaving(w.ID)()                                 // nothing new may start in files that the snapshot has already
	if err := places.Destroy(executors.Discard(ctx), w.ID); err != nil { // the snapshot has what it held
		return "", fmt.Errorf("ending the sandbox: %w", err)
	}
	free, err := s.locks.Snapshots.LockContext(ctx, w.ID) // a running snapshot would take the files for deleted by a user
	if err != nil {
		return "", err
	}
	failpoint.Reach(failpoint.PutAwayEnded)
	doomed, err = git.Doom(s.repo.WorkspaceDir(w.ID))
	free()
	if err != nil {
		return "", git.DiskFault(err, "Removing the workspace's folder")
	}
	failpoint.Reach(failpoint.PutAwayDoomed)
	if err := s.ingest.ClearSandbox(w); err != nil {
		return doomed, err
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return doomed, err
	}
	defer unlock()
	return doomed, git.ForgetWorktree(p.GitDir, w.Path)
}

// snapshotAfterEnd takes the snapshot of a remote sandbox whose own git cannot, for example because a filter's program is missing: it ends
// the sandbox without giving it up, which syncs everything to the host or fails, and then the host takes the snapshot. What is on an
// unreachable machine stays there; then was is all that is known.
func (s *Service) snapshotAfterEnd(ctx context.Context, places workspaces.Places, p workspaces.Project, w workspaces.Workspace, was *workspaces.Snapshot) (*workspaces.Snapshot, error) {
	defer s.records.BeginLeaving(w.ID)()
	err := places.Destroy(ctx, w.ID)
	if fault.CodeOf(err) == "runner_offline" {
		return was, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ending the sandbox: %w", err)
	}
	snap, _, err := s.snapshots.Snapshot(ctx, p, w)
	return snap, err
}

// clearWithoutRepository archives or deletes a workspace whose repository was removed from the server: no snapshot is possible, so it moves
// the files aside instead of removing them.
func (s *Service) clearWithoutRepository(ctx context.Context, places workspaces.Places, w workspaces.Workspace, going *workspaces.Going) (workspaces.Workspace, string, error) {
	w, err := s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.Snapshot = &workspaces.Snapshot{Going: going}; return nil })
	if err != nil {
		return w, "", fmt.Errorf("storing that the workspace is being removed: %w", err)
	}
	defer s.records.BeginLeaving(w.ID)()
	if err := places.Destroy(ctx, w.ID); err != nil {
		return w, "", fmt.Errorf("ending the sandbox: %w", err)
	}
	kept := filepath.Join(s.cfg.DataDir, "kept", w.ID)
	if err := git.MakeFolders(filepath.Dir(kept)); err != nil {
		return w, "", git.DiskFault(err, "Setting the workspace's files aside")
	}
	if err := os.Rename(s.repo.WorkspaceDir(w.ID), kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w, "", git.DiskFault(err, "Setting the workspace's files aside")
	} else if err == nil {
		if err := os.Rename(s.sandboxes.PrivateGit(w.ID), filepath.Join(kept, "git")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w, "", git.DiskFault(err, "Setting the workspace's files aside")
		}
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.kept", Text: "The project's repository is gone; the files were set aside in " + kept})
	}
	return w, "", nil
}

// dropBranch removes the workspace's branch if the snapshot has all of it and nobody has it checked out.
func (s *Service) dropBranch(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	if w.Snapshot == nil {
		return nil
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	ref := git.HeadsPrefix + w.Branch
	tip, err := s.repo.CommitOf(ctx, p.GitDir, ref)
	if err != nil || tip == "" {
		return err
	}
	if kept, err := s.repo.Contains(ctx, p.GitDir, w.Snapshot.Head, tip); err != nil || !kept {
		return err
	}
	if at, err := s.repo.CheckedOut(ctx, p.GitDir, ref); err != nil || at != nil {
		return err
	}
	return s.repo.UpdateRefs(ctx, p.GitDir, "delete "+w.Key(), git.RefDelete(ref, tip))
}

// Restore brings an archived or deleted workspace back: branch, worktree and the uncommitted changes.
func (s *Service) Restore(ctx context.Context, actor accounts.Actor, workspaceID string) (workspaces.Workspace, error) {
	w, release, err := s.Acquire(ctx, workspaceID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	defer release()
	if w.DeletedAt == 0 && w.State != workspaces.Archived {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "not_archived", "%s is neither archived nor deleted.", w.Key())
	}
	if w.Snapshot == nil {
		return workspaces.Workspace{}, fault.New(fault.Conflict, "nothing_to_restore", "There is no snapshot of %s: its creation had failed.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if fault.Is(err, fault.NotFound) {
		if err = s.store.UndeleteProject(ctx, w.ProjectID); err == nil {
			p, err = s.store.Project(ctx, w.ProjectID)
		}
	}
	if err != nil {
		return workspaces.Workspace{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workspaces.PutAwayTime)
	defer cancel()
	was := w.Branch
	w, err = s.rebuild(ctx, p, w)
	if err != nil {
		if uerr := s.undo(ctx, w); uerr != nil {
			s.cfg.Log.ErrorContext(ctx, "restore could not be cleaned up", "workspace_id", w.ID, "error", uerr)
		}
		return workspaces.Workspace{}, err
	}
	failpoint.Reach(failpoint.RestoreRebuilt)
	branch := w.Branch
	w, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error {
		w.State, w.StateReason, w.ArchivedAt, w.DeletedAt, w.Snapshot, w.Branch = workspaces.Ready, "", 0, 0, nil, branch
		return nil
	})
	if err != nil {
		return workspaces.Workspace{}, err
	}
	failpoint.Reach(failpoint.RestoreStored)
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "restored "+w.Key(), git.RefDrop(git.CreatingRef(w.ID))); err != nil {
		s.cfg.Log.WarnContext(ctx, "creation mark could not be removed", "workspace_id", w.ID, "error", err)
	}
	text := "Restored"
	if branch != was {
		text += " on branch " + branch + ", because " + was + " is taken"
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.restored", Text: text})
	s.records.PublishProject(ctx, p)
	return w, nil
}

// rebuild recreates branch, worktree and files from the snapshot.
func (s *Service) rebuild(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (workspaces.Workspace, error) {
	if err := s.undo(ctx, w); err != nil { // remains of an earlier, interrupted restore
		return w, err
	}
	snap := *w.Snapshot
	if c, err := s.repo.CommitOf(ctx, p.GitDir, snap.HeadRef); err != nil || c != snap.Head {
		return w, fault.Wrap(err, fault.Gone, "snapshot_gone", "The snapshot of %s is no longer in the repository.", w.Key())
	}
	if err := git.MakeFolders(filepath.Dir(w.Path)); err != nil {
		return w, git.DiskFault(err, "Making the workspace's folder")
	}
	if err := os.Remove(s.sandboxes.OwnerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) { // the files are written again
		return w, git.DiskFault(err, "Making the workspace's folder")
	}
	w, err := s.restoreBranch(ctx, p, w)
	if err != nil {
		return w, err
	}
	if err := s.checkoutTree(ctx, p, w, snap.Commit); err != nil {
		return w, err
	}
	if err := s.sandboxes.RestoreNested(ctx, p, w); err != nil {
		return w, err
	}
	if err := s.transfer.RebuildIgnored(ctx, p, w); err != nil {
		return w, err
	}
	if _, err := s.buildCopy(ctx, p, w); err != nil { // ignored files are not in the snapshot's tree; those snapshotted separately exist by now
		s.cfg.Log.WarnContext(ctx, "ignored files could not be copied", "workspace_id", w.ID, "error", err)
	}
	return w, nil
}

// restoreBranch creates the branch at the snapshot's head, or uses an existing one there; under another name when its own is taken.
func (s *Service) restoreBranch(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (workspaces.Workspace, error) {
	unlockNames, err := s.locks.Names.LockContext(ctx, p.ID)
	if err != nil {
		return w, err
	}
	defer unlockNames()
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return w, err
	}
	defer unlock()
	ref, head := git.HeadsPrefix+w.Branch, w.Snapshot.Head
	tip, err := s.repo.CommitOf(ctx, p.GitDir, ref)
	if err != nil {
		return w, err
	}
	at, err := s.repo.CheckedOut(ctx, p.GitDir, ref)
	if err != nil {
		return w, err
	}
	if tip == head && at == nil {
		return w, s.linkWorktree(ctx, p, w)
	}
	if w.Branch, err = s.repo.FreeBranch(ctx, p, strings.TrimSpace(w.Branch), w.ID); err != nil {
		return w, err
	}
	err = s.repo.UpdateRefs(ctx, p.GitDir, "restore "+w.Key(), git.RefCreate(git.HeadsPrefix+w.Branch, head), git.RefSet(git.CreatingRef(w.ID), head))
	if err != nil {
		return w, git.GitFault(err, fault.Conflict, "branch_failed", "Making the branch "+w.Branch)
	}
	return w, s.linkWorktree(ctx, p, w)
}
