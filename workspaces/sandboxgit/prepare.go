package sandboxgit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// An isolated workspace is one whose agents work in a sandbox of an isolating executor. Its worktree is the linked one every workspace has,
// but inside the sandbox the worktree's .git file names a private git dir below SandboxDir, which uses the objects it may read through
// alternates. git's own folder of the linked worktree, and the repository itself, are never visible inside. Once the private git dir is
// handed over, the host runs no git in it and trusts nothing in it: commits come back as a pack, see FetchCommits.

// AgentHome is the agents' home in every isolating sandbox.
const AgentHome = "/home/agent"

// FirstSandboxUser is the id before that of the first workspace's user: far above those that systems, people and containers use.
const FirstSandboxUser = 600_100_000

// SandboxDir is the folder of an isolated workspace besides its worktree. It belongs to the server; its content to the workspace's user.
func (s *Store) SandboxDir(workspaceID string) string {
	return filepath.Join(s.cfg.DataDir, "boxes", workspaceID)
}

// PrivateGit is the git dir that the workspace's sandbox uses.
func (s *Store) PrivateGit(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "git")
}

// OwnGitDir reports whether the workspace's commits are made in a private git dir.
func (s *Store) OwnGitDir(workspaceID string) bool {
	return git.FolderExists(s.PrivateGit(workspaceID))
}

// MakeHomeFolder makes the agents' home, with a default name for git, which requires one for commits.
func (s *Store) MakeHomeFolder(home string) error {
	if git.FolderExists(home) {
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

// WriteOnce writes a small file of the server unless it has that content already.
func WriteOnce(path, text string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == text {
		return nil
	}
	return atomicfile.Write(path, []byte(text), 0o644)
}

// GitFile makes sure that the worktree has its .git file, over which the sandbox's own is mounted.
func (s *Store) GitFile(p workspaces.Project, w workspaces.Workspace) error {
	broken := fault.New(fault.Conflict, "worktree_unreadable",
		"The workspace's folder is no longer the top of its git worktree: its .git file was removed or replaced. Archive the workspace and restore it.")
	admin := git.LinkedDir(p, w)
	if admin == "" {
		return broken
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return fault.Wrap(err, fault.Conflict, "worktree_missing", "The workspace's folder cannot be opened. Archive the workspace and restore it.")
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

// OwnerMark records the user to which the workspace's files were last given.
func (s *Store) OwnerMark(workspaceID string) string {
	return filepath.Join(s.SandboxDir(workspaceID), "owner")
}

// Owner is the user who owns the workspace's files, -1 for the server's own.
func (s *Store) Owner(workspaceID string) int {
	b, err := os.ReadFile(s.OwnerMark(workspaceID))
	if err != nil {
		return -1
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return uid
}

// GiveToSandbox gives everything the sandbox may write to its user. It is done once, until giveBack: from then on only that user writes
// there.
func (s *Store) GiveToSandbox(ctx context.Context, w workspaces.Workspace, uid int) error {
	if uid < 0 {
		return nil
	}
	mark := s.OwnerMark(w.ID)
	if s.Owner(w.ID) == uid {
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
	return WriteOnce(mark, strconv.Itoa(uid)+"\n")
}

// giveBack gives the worktree back to the server's user.
func (s *Store) giveBack(ctx context.Context, w workspaces.Workspace) error {
	if _, err := os.Lstat(s.OwnerMark(w.ID)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := chownTree(ctx, w.Path, os.Geteuid(), ""); err != nil {
		return err
	}
	if err := os.Remove(s.OwnerMark(w.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the sandbox's user: %w", err)
	}
	return nil
}
