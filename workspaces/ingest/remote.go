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

// PrepareSandbox prepares what the host gives to an isolating sandbox, or finds it prepared. It is called before each creation of such a
// sandbox, when the workspace has none, and keeps what an earlier sandbox left.
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
	} else if err := s.sandboxes.ShareObjects(ctx, p, w); err != nil { // an earlier version made no object store
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

// PrepareRemote prepares for a sandbox with its own disk: it records the position of the work from the linked worktree. It is called before
// each creation of one.
func (s *Service) PrepareRemote(ctx context.Context, workspaceID string) error {
	return s.ReleaseSandbox(ctx, workspaceID)
}

// RestoreWorktree moves the linked worktree of a remote workspace whose sandbox has ended to the sandbox's position. sandboxID is that
// sandbox, "" = any. After a crash it is repeated.
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
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Archive the workspace and restore it.")
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

// Awoke notes that a workspace's sandbox became live: it may have unsynced work.
func (s *Service) Awoke(workspaceID string) {
	s.sandboxes.Stirred(workspaceID)
	s.HeadMoved(workspaceID)
}

// SandboxEnded notes that a sandbox of the workspace has ended, for whatever reason. Run syncs the worktree to its position.
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

// resumeRemote queues sandboxes that ended while the server was down, or whose sync was interrupted.
func (s *Service) resumeRemote() {
	marks, _ := filepath.Glob(filepath.Join(hostgit.GlobEscape(s.cfg.DataDir), "boxes", "*", "far"))
	for _, m := range marks {
		s.moved.add(filepath.Base(filepath.Dir(m)))
	}
}

// endRemote restores the worktree of a remote workspace whose sandbox has ended; done means that nothing is left to do for now.
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
		return true, nil // it is archived or deleted
	}
	return true, s.RestoreWorktree(ctx, w, f.Sandbox)
}

// ReleaseSandbox makes an isolated workspace an ordinary one again, for an executor that does not isolate: it copies HEAD and index to
// git's own folder of the linked worktree, gives the files to the server's user, and removes the private git dir. It fails if there are
// commits that were not fetched.
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
		return fault.New(fault.Conflict, "commits_not_synced",
			"Commits of %s are still in the sandbox it worked in and were not copied to the server. Start it there once more, then change its executor.", w.Key())
	}
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return fault.New(fault.Conflict, "worktree_unreadable", "The repository no longer knows the workspace's worktree. Archive the workspace and restore it.")
	}
	if err := s.sandboxes.RestoreWorktree(ctx, p, w, admin, home); err != nil {
		return err
	}
	// A merge in progress when the sandbox was created has ended there.
	if err := sandboxgit.DropOperation(admin); err != nil {
		return git.DiskFault(err, "Bringing the worktree up to date")
	}
	if err := s.repo.RemoveFolder(s.sandboxes.PrivateGit(w.ID)); err != nil {
		return git.DiskFault(err, "Removing the sandbox's git folder")
	}
	return s.sandboxes.ReleaseSandbox(ctx, w)
}
