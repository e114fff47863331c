package workspaces

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
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/killpoint"
)

// maxLossPaths is how many paths a loss names.
const maxLossPaths = 100

// Loss says what archiving or deleting the workspace would take away.
func (s *Service) Loss(ctx context.Context, workspaceID string) (Loss, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Loss{}, err
	}
	l := Loss{Restorable: true, Uncommitted: []string{}}
	if w.State == Creating || w.State == SettingUp || w.State == Failed {
		return l, nil
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Loss{}, err
	}
	_, sessions, err := s.Rooms()
	if err != nil {
		return Loss{}, err
	}
	var paths []string
	head := ""
	switch {
	case w.Snapshot != nil && (w.State == Archived || w.DeletedAt != 0):
		head = w.Snapshot.Head
		paths, err = s.snapshotPaths(ctx, p, *w.Snapshot)
	case !folderExists(w.Path):
		head, err = s.branchTip(ctx, p, w)
	default:
		if l.RunningSessions, err = sessions.Running(ctx, workspaceID); err != nil {
			return Loss{}, err
		}
		if s.asleep(ctx, w) {
			if head, err = s.LocalHead(ctx, p, w); err == nil {
				paths, err = s.LocalChanges(ctx, p, w)
			}
			break
		}
		var b *Sandbox
		if b, err = s.openBox(ctx, w); err != nil {
			return Loss{}, err
		}
		if head, _, err = b.head(ctx); err != nil {
			return Loss{}, err
		}
		if err := s.bringHome(ctx, p, w, b); err != nil {
			return Loss{}, err
		}
		paths, err = b.uncommitted(ctx, "all")
	}
	if err != nil {
		return Loss{}, err
	}
	l.UncommittedCount = len(paths)
	l.Uncommitted = append(l.Uncommitted, paths[:min(len(paths), maxLossPaths)]...)
	if head != "" {
		l.UnmergedCommits, err = s.countUnmerged(ctx, p, w, head)
	}
	return l, err
}

// Archive puts a workspace away: sessions stopped, everything kept in hidden refs, sandbox and worktree removed. Its branch
// stays.
func (s *Service) Archive(ctx context.Context, actor accounts.Actor, workspaceID string) (Workspace, error) {
	return s.putAway(ctx, actor, workspaceID, false)
}

// Delete does what Archive does, removes the branch too, and puts the workspace into the trash, from where Restore brings it
// back. A creation under way is cancelled first.
func (s *Service) Delete(ctx context.Context, actor accounts.Actor, workspaceID string) (Workspace, error) {
	return s.putAway(ctx, actor, workspaceID, true)
}

func (s *Service) putAway(ctx context.Context, actor accounts.Actor, workspaceID string, remove bool) (Workspace, error) {
	if _, err := s.store.Workspace(ctx, workspaceID); err != nil {
		return Workspace{}, err
	}
	if remove {
		if done := s.jobs.Cancel(workspaceID, ErrCancelled); done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return Workspace{}, context.Cause(ctx)
			}
		}
	}
	w, release, err := s.Acquire(ctx, workspaceID)
	if err != nil {
		return Workspace{}, err
	}
	defer release()
	switch {
	case w.DeletedAt != 0:
		return Workspace{}, fault.New(fault.Conflict, "already_deleted", "%s is deleted already.", w.Key())
	case w.State == Archived && !remove:
		return Workspace{}, fault.New(fault.Conflict, "already_archived", "%s is archived already.", w.Key())
	case w.State == Creating || w.State == SettingUp:
		return Workspace{}, fault.New(fault.Conflict, "still_creating", "%s is still being created. Cancel that first.", w.Key())
	case w.State == Failed && !remove:
		return Workspace{}, fault.New(fault.Conflict, "workspace_failed", "The creation of %s failed: there is nothing to archive. Try again or delete it.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Workspace{}, err
	}
	// From here on it goes to its end, whoever asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), PutAwayTime)
	defer cancel()
	doomed := ""
	if w.State != Archived && w.State != Failed {
		if w, doomed, err = s.clear(ctx, p, w, &Going{Delete: remove, By: actor.User.ID}); err != nil {
			s.stay(ctx, w)
			return Workspace{}, err
		}
	}
	return s.putAwayRest(ctx, actor.User.ID, p, w, doomed, remove)
}

// putAwayRest does what is left when sandbox and worktree are gone. It may be run again after a cut.
func (s *Service) putAwayRest(ctx context.Context, by string, p Project, w Workspace, doomed string, remove bool) (Workspace, error) {
	if remove {
		if err := s.RemoveFolder(filepath.Join(s.SandboxDir(w.ID), "home")); err != nil {
			s.cfg.Log.WarnContext(ctx, "home could not be removed", "workspace_id", w.ID, "error", err)
		}
		if err := s.dropBranch(ctx, p, w); err != nil {
			s.cfg.Log.WarnContext(ctx, "branch could not be removed", "workspace_id", w.ID, "error", err)
		}
	}
	killpoint.Reach(killpoint.PutAwayCleared)
	now := s.Millis()
	w, err := s.Edit(ctx, w.ID, func(w *Workspace) error {
		if w.Snapshot != nil && w.Snapshot.Commit == "" { // it only said that the workspace goes
			w.Snapshot = nil
		} else if w.Snapshot != nil {
			w.Snapshot.Going = nil
		}
		if remove {
			w.DeletedAt, w.DeletedBy = now, by
		} else {
			w.State, w.StateReason, w.ArchivedAt = Archived, "", now
		}
		return nil
	})
	if err != nil {
		return Workspace{}, fmt.Errorf("storing that the workspace was put away: %w", err)
	}
	s.ForgetBase(w.ID)
	if doomed != "" {
		if err := removeTree(doomed); err != nil { // swept at the next start
			s.cfg.Log.WarnContext(ctx, "folder could not be removed", "workspace_id", w.ID, "error", err)
		}
	}
	kind, text := "workspace.archived", "Archived"
	if remove {
		kind, text = "workspace.deleted", "Deleted"
	}
	if sn := w.Snapshot; sn != nil && sn.Uncommitted+sn.Unmerged > 0 {
		text += fmt.Sprintf("; kept %s and %s", Plural(sn.Uncommitted, "uncommitted change", "uncommitted changes"), Plural(sn.Unmerged, "unmerged commit", "unmerged commits"))
	}
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: by, Kind: kind, Text: text})
	return w, nil
}

// Acquire reserves the workspace for one operation.
func (s *Service) Acquire(ctx context.Context, workspaceID string) (Workspace, func(), error) {
	release, ok := s.locks.Busy.TryLock(workspaceID)
	w, err := s.store.Workspace(ctx, workspaceID)
	if err == nil && !ok {
		err = busyFault(w)
	}
	if err != nil {
		if ok {
			release()
		}
		return Workspace{}, nil, err
	}
	return w, release, nil
}

// clear stops what runs, keeps what is there, and takes sandbox and worktree away. Nothing is removed before the snapshot is
// stored.
func (s *Service) clear(ctx context.Context, p Project, w Workspace, going *Going) (Workspace, string, error) {
	places, sessions, err := s.Rooms()
	if err != nil {
		return w, "", err
	}
	if err := s.fits(ctx, sessions, p, w); err != nil {
		return w, "", err
	}
	if err := sessions.StopAll(ctx, w.ID); err != nil {
		return w, "", fmt.Errorf("stopping the sessions: %w", err)
	}
	if !folderExists(p.GitDir) {
		return s.clearWithoutRepository(ctx, places, w, going)
	}
	snap, behind, err := s.snapshot(ctx, p, w)
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
	if err := s.keepAway(ctx, p, w, snap, why); err != nil {
		return w, "", err
	}
	killpoint.Reach(killpoint.PutAwayKept)
	snap.Going = going
	if w, err = s.Edit(ctx, w.ID, func(w *Workspace) error { w.Snapshot = snap; return nil }); err != nil {
		return w, "", fmt.Errorf("storing the snapshot: %w", err)
	}
	killpoint.Reach(killpoint.PutAwayStored)
	doomed, err := s.takeAway(ctx, places, p, w)
	return w, doomed, err
}

// takeAway removes sandbox and worktree of a workspace that is kept in a snapshot. It may be run again after a cut. doomed is the folder's new
// name, "" when there was none.
func (s *Service) takeAway(ctx context.Context, places Places, p Project, w Workspace) (doomed string, err error) {
	defer s.BeginLeaving(w.ID)()                                         // nothing new may start in what is already kept
	if err := places.Destroy(executors.Discard(ctx), w.ID); err != nil { // the snapshot has what it held
		return "", fmt.Errorf("ending the sandbox: %w", err)
	}
	free, err := s.locks.Snapshots.LockContext(ctx, w.ID) // a snapshot under way would take what goes for removed by somebody
	if err != nil {
		return "", err
	}
	killpoint.Reach(killpoint.PutAwayEnded)
	doomed, err = doom(s.workspaceDir(w.ID))
	free()
	if err != nil {
		return "", DiskFault(err, "Removing the workspace's folder")
	}
	killpoint.Reach(killpoint.PutAwayDoomed)
	if err := s.clearBox(w); err != nil {
		return doomed, err
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return doomed, err
	}
	defer unlock()
	return doomed, forgetWorktree(p.GitDir, w.Path)
}

// snapshotAfterEnd is for files of a sandbox elsewhere whose own git cannot keep them, for want of a filter's program, say: the sandbox
// ends without being given up, which brings everything home or is refused, and then the host takes them. What is on a machine that is
// away stays there, and was is what is known of it.
func (s *Service) snapshotAfterEnd(ctx context.Context, places Places, p Project, w Workspace, was *Snapshot) (*Snapshot, error) {
	defer s.BeginLeaving(w.ID)()
	err := places.Destroy(ctx, w.ID)
	if fault.CodeOf(err) == "runner_offline" {
		return was, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ending the sandbox: %w", err)
	}
	snap, _, err := s.snapshot(ctx, p, w)
	return snap, err
}

// BeginLeaving lets no new sandbox be made for the workspace until the returned func is called.
func (s *Service) BeginLeaving(workspaceID string) func() {
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

// clearWithoutRepository puts a workspace away whose repository was removed from the server: no snapshot can be taken, so its
// files are set aside instead of removed.
func (s *Service) clearWithoutRepository(ctx context.Context, places Places, w Workspace, going *Going) (Workspace, string, error) {
	w, err := s.Edit(ctx, w.ID, func(w *Workspace) error { w.Snapshot = &Snapshot{Going: going}; return nil })
	if err != nil {
		return w, "", fmt.Errorf("storing that the workspace goes: %w", err)
	}
	defer s.BeginLeaving(w.ID)()
	if err := places.Destroy(ctx, w.ID); err != nil {
		return w, "", fmt.Errorf("ending the sandbox: %w", err)
	}
	kept := filepath.Join(s.cfg.DataDir, "kept", w.ID)
	if err := MakeFolders(filepath.Dir(kept)); err != nil {
		return w, "", DiskFault(err, "Setting the workspace's files aside")
	}
	if err := os.Rename(s.workspaceDir(w.ID), kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w, "", DiskFault(err, "Setting the workspace's files aside")
	} else if err == nil {
		if err := os.Rename(s.privateGit(w.ID), filepath.Join(kept, "git")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w, "", DiskFault(err, "Setting the workspace's files aside")
		}
		s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.kept", Text: "The project's repository is gone; the files were set aside in " + kept})
	}
	return w, "", nil
}

// dropBranch removes the workspace's branch where the snapshot holds all of it and nobody has it checked out.
func (s *Service) dropBranch(ctx context.Context, p Project, w Workspace) error {
	if w.Snapshot == nil {
		return nil
	}
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	ref := HeadsPrefix + w.Branch
	tip, err := s.CommitOf(ctx, p.GitDir, ref)
	if err != nil || tip == "" {
		return err
	}
	if kept, err := s.contains(ctx, p.GitDir, w.Snapshot.Head, tip); err != nil || !kept {
		return err
	}
	if at, err := s.checkedOut(ctx, p.GitDir, ref); err != nil || at != nil {
		return err
	}
	return s.UpdateRefs(ctx, p.GitDir, "delete "+w.Key(), refDelete(ref, tip))
}

// Restore brings an archived or deleted workspace back: branch, worktree and the uncommitted state, as uncommitted changes.
func (s *Service) Restore(ctx context.Context, actor accounts.Actor, workspaceID string) (Workspace, error) {
	w, release, err := s.Acquire(ctx, workspaceID)
	if err != nil {
		return Workspace{}, err
	}
	defer release()
	if w.DeletedAt == 0 && w.State != Archived {
		return Workspace{}, fault.New(fault.Conflict, "not_archived", "%s is neither archived nor deleted.", w.Key())
	}
	if w.Snapshot == nil {
		return Workspace{}, fault.New(fault.Conflict, "nothing_to_restore", "Nothing of %s was kept: its creation had failed.", w.Key())
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if fault.Is(err, fault.NotFound) {
		if err = s.store.UndeleteProject(ctx, w.ProjectID); err == nil {
			p, err = s.store.Project(ctx, w.ProjectID)
		}
	}
	if err != nil {
		return Workspace{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), PutAwayTime)
	defer cancel()
	was := w.Branch
	w, err = s.rebuild(ctx, p, w)
	if err != nil {
		if uerr := s.undo(ctx, w); uerr != nil {
			s.cfg.Log.ErrorContext(ctx, "restore could not be cleaned up", "workspace_id", w.ID, "error", uerr)
		}
		return Workspace{}, err
	}
	killpoint.Reach(killpoint.RestoreRebuilt)
	branch := w.Branch
	w, err = s.Edit(ctx, w.ID, func(w *Workspace) error {
		w.State, w.StateReason, w.ArchivedAt, w.DeletedAt, w.Snapshot, w.Branch = Ready, "", 0, 0, nil, branch
		return nil
	})
	if err != nil {
		return Workspace{}, err
	}
	killpoint.Reach(killpoint.RestoreStored)
	if err := s.UpdateRefs(ctx, p.GitDir, "restored "+w.Key(), refDrop(creatingRef(w.ID))); err != nil {
		s.cfg.Log.WarnContext(ctx, "creation mark could not be removed", "workspace_id", w.ID, "error", err)
	}
	text := "Restored"
	if branch != was {
		text += " on branch " + branch + ", because " + was + " is taken"
	}
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "workspace.restored", Text: text})
	s.PublishProject(ctx, p)
	return w, nil
}

// rebuild makes branch, worktree and files anew from the snapshot.
func (s *Service) rebuild(ctx context.Context, p Project, w Workspace) (Workspace, error) {
	if err := s.undo(ctx, w); err != nil { // what an earlier, cut restore left
		return w, err
	}
	snap := *w.Snapshot
	if c, err := s.CommitOf(ctx, p.GitDir, snap.HeadRef); err != nil || c != snap.Head {
		return w, fault.Wrap(err, fault.Gone, "snapshot_gone", "The snapshot of %s is no longer in the repository.", w.Key())
	}
	if err := MakeFolders(filepath.Dir(w.Path)); err != nil {
		return w, DiskFault(err, "Making the workspace's folder")
	}
	if err := os.Remove(s.ownerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) { // the files are made anew
		return w, DiskFault(err, "Making the workspace's folder")
	}
	w, err := s.restoreBranch(ctx, p, w)
	if err != nil {
		return w, err
	}
	if err := s.checkoutTree(ctx, p, w, snap.Commit); err != nil {
		return w, err
	}
	if err := s.restoreNested(ctx, p, w); err != nil {
		return w, err
	}
	if err := s.rebuildIgnored(ctx, p, w); err != nil {
		return w, err
	}
	if _, err := s.buildCopy(ctx, p, w); err != nil { // ignored files are not in the snapshot's tree; those kept beside it are there by now
		s.cfg.Log.WarnContext(ctx, "ignored files could not be copied", "workspace_id", w.ID, "error", err)
	}
	return w, nil
}

// restoreBranch makes the branch where the snapshot's head is, or uses the one that is there; under another name when its own
// is taken by something else.
func (s *Service) restoreBranch(ctx context.Context, p Project, w Workspace) (Workspace, error) {
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
	ref, head := HeadsPrefix+w.Branch, w.Snapshot.Head
	tip, err := s.CommitOf(ctx, p.GitDir, ref)
	if err != nil {
		return w, err
	}
	at, err := s.checkedOut(ctx, p.GitDir, ref)
	if err != nil {
		return w, err
	}
	if tip == head && at == nil {
		return w, s.linkWorktree(ctx, p, w)
	}
	if w.Branch, err = s.freeBranch(ctx, p, strings.TrimSpace(w.Branch), w.ID); err != nil {
		return w, err
	}
	err = s.UpdateRefs(ctx, p.GitDir, "restore "+w.Key(), refCreate(HeadsPrefix+w.Branch, head), RefSet(creatingRef(w.ID), head))
	if err != nil {
		return w, GitFault(err, fault.Conflict, "branch_failed", "Making the branch "+w.Branch)
	}
	return w, s.linkWorktree(ctx, p, w)
}
