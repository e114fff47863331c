package ingest

import (
	"context"
	"path/filepath"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// PrepareSandbox prepares what an isolating place is given of the host, or finds it prepared. Called before each making of such a place, when
// the workspace has none. What is there of an earlier place is kept as it is.
func (s *Service) PrepareSandbox(ctx context.Context, workspaceID string) (executors.MountSpec, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return executors.MountSpec{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return executors.MountSpec{}, err
	}
	if err := s.RestoreWorktree(ctx, w, ""); err != nil {
		return executors.MountSpec{}, err
	}
	uid := -1
	if s.cfg.Chown {
		n, err := s.store.BoxUser(ctx, w.ID)
		if err != nil {
			return executors.MountSpec{}, err
		}
		uid = sandboxgit.FirstSandboxUser + int(n)
	}
	dir := s.sandboxes.SandboxDir(w.ID)
	if err := git.MakeFolders(dir); err != nil {
		return executors.MountSpec{}, git.DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.sandboxes.GitFile(p, w); err != nil {
		return executors.MountSpec{}, err
	}
	home := filepath.Join(dir, "home")
	if err := s.sandboxes.MakeHomeFolder(home); err != nil {
		return executors.MountSpec{}, git.DiskFault(err, "Preparing the workspace's sandbox")
	}
	gitDir := s.sandboxes.PrivateGit(w.ID)
	if !git.FolderExists(gitDir) {
		if err := s.sandboxes.MakePrivateGit(ctx, p, w); err != nil {
			return executors.MountSpec{}, err
		}
	} else if err := s.sandboxes.ShareObjects(ctx, p, w); err != nil { // of an earlier version it has no store
		return executors.MountSpec{}, err
	}
	gitfile := filepath.Join(dir, "gitfile")
	if err := sandboxgit.WriteOnce(gitfile, "gitdir: "+gitDir+"\n"); err != nil {
		return executors.MountSpec{}, git.DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.sandboxes.GiveToSandbox(ctx, w, uid); err != nil {
		return executors.MountSpec{}, git.DiskFault(err, "Giving the workspace's files to its sandbox")
	}
	b := executors.MountSpec{Home: sandboxgit.AgentHome, UID: uid, GID: uid, Mounts: []executors.Mount{
		{Source: w.Path, Target: w.Path},
		{Source: gitfile, Target: filepath.Join(w.Path, ".git"), ReadOnly: true},
		{Source: gitDir, Target: gitDir},
		{Source: home, Target: sandboxgit.AgentHome},
		{Source: s.sandboxes.OwnStore(w.ID).Objects(), Target: filepath.Join(p.GitDir, "objects"), ReadOnly: true},
		{Source: s.sandboxes.SharedStore(p.ID).Objects(), Target: s.sandboxes.SharedStore(p.ID).Objects(), ReadOnly: true}}}
	return b, nil
}

// PrepareRemote prepares for a place with a disk of its own: the linked worktree says where the work stands. Called before each making of one.
func (s *Service) PrepareRemote(ctx context.Context, workspaceID string) error {
	return s.ReleaseSandbox(ctx, workspaceID)
}

// RestoreWorktree leads the linked worktree of a far workspace, whose sandbox has ended, to where that was. sandboxID is the sandbox it is
// about, "" = whichever it was. Killed in between it is done again.
func (s *Service) RestoreWorktree(ctx context.Context, w workspaces.Workspace, sandboxID string) error {
	if !s.sandboxes.Remote(w.ID) {
		return nil
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	f, ok := s.sandboxes.ReadRemote(w.ID)
	if !ok || sandboxID != "" && f.Sandbox != sandboxID {
		return nil
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Put the workspace away and restore it.")
	}
	if home := s.sandboxes.ReadSyncState(w.ID); f.Lived && home.Head != "" {
		if err := s.sandboxes.RestoreWorktree(ctx, p, w, admin, home); err != nil {
			return err
		}
		if err := sandboxgit.DropOperation(admin); err != nil {
			return git.DiskFault(err, "Bringing the worktree up to date")
		}
	}
	if err := s.transfer.FetchIgnored(ctx, p, w); err != nil {
		return err
	}
	if err := s.transfer.ForgetIgnored(ctx, p, w.ID); err != nil {
		return err
	}
	if err := s.sandboxes.ForgetRemote(w.ID); err != nil {
		return err
	}
	s.records.PublishWorkspace(ctx, w)
	return nil
}

// Awoke says that a workspace's sandbox became live: it may hold what is not home.
func (s *Service) Awoke(workspaceID string) {
	s.sandboxes.Stirred(workspaceID)
	s.HeadMoved(workspaceID)
}

// SandboxEnded says that a sandbox of the workspace has ended, however that was. What it had is led home under Run.
func (s *Service) SandboxEnded(workspaceID, sandboxID string) {
	s.transfer.Unpack(sandboxID)
	if dir := s.transfer.BundleDir(sandboxID); git.FolderExists(dir) {
		if err := s.repo.RemoveFolder(dir); err != nil {
			s.cfg.Log.Warn("bundle could not be removed", "sandbox_id", sandboxID, "error", err)
		}
	}
	if s.sandboxes.Remote(workspaceID) {
		s.moved.add(workspaceID)
	}
}

// resumeRemote has what ended while the server was away, or half-way through being led home, be looked at.
func (s *Service) resumeRemote() {
	marks, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "boxes", "*", "far"))
	for _, m := range marks {
		s.moved.add(filepath.Base(filepath.Dir(m)))
	}
}

// endRemote leads a far workspace home whose sandbox has ended; done says that there is nothing more to do for it now.
func (s *Service) endRemote(ctx context.Context, w workspaces.Workspace) (done bool, err error) {
	f, ok := s.sandboxes.ReadRemote(w.ID)
	a := s.records.RemoteSandboxes()
	if !ok || a == nil {
		return false, nil
	}
	stands, err := a.Stands(ctx, w.ID, f.Sandbox)
	switch {
	case err != nil:
		return true, err
	case stands:
		return !a.Awake(w.ID), nil
	case !git.FolderExists(w.Path):
		return true, nil // it is put away
	}
	return true, s.RestoreWorktree(ctx, w, f.Sandbox)
}

// ReleaseSandbox makes a workspace that was boxed an ordinary one again, for a place that does not isolate: git's own folder of the linked
// worktree learns where HEAD and index are, the files become the server's, and the private git dir goes. Commits that are not home
// yet keep it from happening.
func (s *Service) ReleaseSandbox(ctx context.Context, workspaceID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if err := s.RestoreWorktree(ctx, w, ""); err != nil {
		return err
	}
	if !s.sandboxes.OwnGitDir(w.ID) {
		return s.sandboxes.ReleaseSandbox(ctx, w)
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	home := s.sandboxes.ReadSyncState(w.ID)
	if stamp := s.sandboxes.Stamp(w.ID); home.Stamp == "" || stamp != home.Stamp {
		return fault.New(fault.Conflict, "box_not_home",
			"Commits of %s are still in the sandbox it worked in and have not come home. Start it there once more, then change its place.", w.Key())
	}
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Put the workspace away and restore it.")
	}
	if err := s.sandboxes.RestoreWorktree(ctx, p, w, admin, home); err != nil {
		return err
	}
	// A merge that was under way when the sandbox was made was ended there.
	if err := sandboxgit.DropOperation(admin); err != nil {
		return git.DiskFault(err, "Bringing the worktree up to date")
	}
	if err := s.repo.RemoveFolder(s.sandboxes.PrivateGit(w.ID)); err != nil {
		return git.DiskFault(err, "Putting the sandbox's git folder away")
	}
	return s.sandboxes.ReleaseSandbox(ctx, w)
}
