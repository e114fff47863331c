package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// A boxed workspace is one whose agents work in a place that isolates. Its worktree is the linked one every workspace has, but
// inside the place the worktree's .git file names a git dir of its own, below boxDir, which stands on the objects it may read (see lend).
// git's own folder of the linked worktree, and the repository itself, are never shown inside. From the moment the private git dir is
// handed over, the host runs no git on it and believes nothing in it: commits come home as a pack, see bringHome.

// boxHome is the agents' home inside every isolating place.
const boxHome = "/home/agent"

// FirstSandboxUser is the id before that of the first workspace's user: far from what systems, people and containers use.
const FirstSandboxUser = 600_100_000

// SandboxDir holds what a boxed workspace has beside its worktree. It belongs to the server; what is in it, to the workspace's user.
func (s *Service) SandboxDir(workspaceID string) string {
	return filepath.Join(s.cfg.DataDir, "boxes", workspaceID)
}

func (s *Service) privateGit(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "git")
}

// OwnGitDir reports whether the workspace's commits are made in a git dir of its own.
func (s *Service) OwnGitDir(workspaceID string) bool { return folderExists(s.privateGit(workspaceID)) }

// Box prepares what an isolating place is given of the host, or finds it prepared. Called before each making of such a place, when
// the workspace has none. What is there of an earlier place is kept as it is.
func (s *Service) Box(ctx context.Context, workspaceID string) (executors.Box, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return executors.Box{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return executors.Box{}, err
	}
	if err := s.ReturnHome(ctx, w, ""); err != nil {
		return executors.Box{}, err
	}
	uid := -1
	if s.cfg.Chown {
		n, err := s.store.BoxUser(ctx, w.ID)
		if err != nil {
			return executors.Box{}, err
		}
		uid = FirstSandboxUser + int(n)
	}
	dir := s.SandboxDir(w.ID)
	if err := MakeFolders(dir); err != nil {
		return executors.Box{}, DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.gitFile(p, w); err != nil {
		return executors.Box{}, err
	}
	home := filepath.Join(dir, "home")
	if err := s.makeHome(home); err != nil {
		return executors.Box{}, DiskFault(err, "Preparing the workspace's sandbox")
	}
	gitDir := s.privateGit(w.ID)
	if !folderExists(gitDir) {
		if err := s.makePrivateGit(ctx, p, w); err != nil {
			return executors.Box{}, err
		}
	} else if err := s.lend(ctx, p, w); err != nil { // of an earlier version it has no store
		return executors.Box{}, err
	}
	gitfile := filepath.Join(dir, "gitfile")
	if err := writeOnce(gitfile, "gitdir: "+gitDir+"\n"); err != nil {
		return executors.Box{}, DiskFault(err, "Preparing the workspace's sandbox")
	}
	if err := s.giveBox(ctx, w, uid); err != nil {
		return executors.Box{}, DiskFault(err, "Giving the workspace's files to its sandbox")
	}
	b := executors.Box{Home: boxHome, UID: uid, GID: uid, Mounts: []executors.Mount{
		{Source: w.Path, Target: w.Path},
		{Source: gitfile, Target: filepath.Join(w.Path, ".git"), ReadOnly: true},
		{Source: gitDir, Target: gitDir},
		{Source: home, Target: boxHome},
		{Source: s.ownStore(w.ID).objects(), Target: filepath.Join(p.GitDir, "objects"), ReadOnly: true},
		{Source: s.sharedStore(p.ID).objects(), Target: s.sharedStore(p.ID).objects(), ReadOnly: true}}}
	return b, nil
}

// makeHome makes the agents' home. git asks for a name before it commits: until somebody gives a better one it has one.
func (s *Service) makeHome(home string) error {
	if folderExists(home) {
		return nil
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "new-home-")
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(fresh, ".gitconfig"), []byte("[user]\n\tname = Agent\n\temail = agent@localhost\n"), 0o600); err == nil {
		err = os.Rename(fresh, home)
	}
	if err != nil {
		_ = os.RemoveAll(fresh)
	}
	return err
}

// writeOnce writes a small file of ours unless it says the same already.
func writeOnce(path, text string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == text {
		return nil
	}
	return atomicfile.Write(path, []byte(text), 0o644)
}

// gitFile makes sure that the worktree has its .git file: it is what the sandbox's own is laid over.
func (s *Service) gitFile(p Project, w Workspace) error {
	broken := fault.New(fault.Conflict, "worktree_unreadable",
		"The workspace's folder is no longer the top of its git worktree: its .git file was removed or replaced. Put the workspace away and restore it.")
	admin := linkedDir(p, w)
	if admin == "" {
		return broken
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return fault.Wrap(err, fault.Conflict, "worktree_missing", "The workspace's folder cannot be opened. Put the workspace away and restore it.")
	}
	defer root.Close()
	fi, err := root.Lstat(".git")
	if errors.Is(err, fs.ErrNotExist) {
		return root.WriteFile(".git", []byte("gitdir: "+admin+"\n"), 0o644)
	}
	if err != nil || !fi.Mode().IsRegular() {
		return broken
	}
	return nil
}

// ownerMark says to which user the workspace's files were given last.
func (s *Service) ownerMark(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "owner")
}

// boxOwner is the user the workspace's files were given to, -1 when they are the server's.
func (s *Service) boxOwner(workspaceID string) int {
	b, err := os.ReadFile(s.ownerMark(workspaceID))
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return uid
}

// giveBox gives everything the sandbox may write to its user. Once that is done it stays so until giveBack: who writes there from
// then on is that user.
func (s *Service) giveBox(ctx context.Context, w Workspace, uid int) error {
	if uid < 0 {
		return nil
	}
	mark := s.ownerMark(w.ID)
	if s.boxOwner(w.ID) == uid {
		return nil
	}
	dir := s.SandboxDir(w.ID)
	if err := os.Lchown(filepath.Join(dir, "gitfile"), uid, uid); err != nil {
		return err
	}
	for _, sub := range [...]string{"home", "git"} {
		if err := chownTree(ctx, filepath.Join(dir, sub), uid, ""); err != nil {
			return err
		}
	}
	// The worktree's own .git file stays the server's.
	if err := chownTree(ctx, w.Path, uid, ".git"); err != nil {
		return err
	}
	return writeOnce(mark, strconv.Itoa(uid)+"\n")
}

// giveBack gives the worktree back to the server's user.
func (s *Service) giveBack(ctx context.Context, w Workspace) error {
	if _, err := os.Lstat(s.ownerMark(w.ID)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := chownTree(ctx, w.Path, os.Geteuid(), ""); err != nil {
		return err
	}
	if err := os.Remove(s.ownerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the sandbox's user: %w", err)
	}
	return nil
}
