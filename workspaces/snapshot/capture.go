package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// Snapshot stores everything of a workspace in hidden refs of its repository: its worktree's HEAD (head), all its files, untracked ones
// included and ignored ones not (tree, a commit on head), and nested repositories (nested). It is taken in the sandbox; if that is
// impossible, the host takes it without running anything of the worktree's. It never succeeds partly: on an error nothing may be removed.
// behind reports that the host took it although a remote sandbox has the files: unsynced changes are missing.
func (s *Service) Snapshot(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (_ *workspaces.Snapshot, behind bool, _ error) {
	if fi, err := os.Lstat(w.Path); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		snap, err := s.snapshotOfNothing(ctx, p, w)
		return snap, false, err
	} else if err != nil {
		return nil, false, git.DiskFault(err, "Reading the workspace's folder")
	}
	made, err := sandboxgit.Captured{}, errAsleep
	if !s.sandboxes.Asleep(ctx, w) || s.sandboxes.Unsynced(ctx, w.ID) {
		made, err = s.captureInSandbox(ctx, p, w)
	}
	if err == nil {
		err = s.checkSnapshot(ctx, p, made)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if fault.Is(err, fault.Timeout) { // the host would block on the same
			return nil, false, err
		}
		if !errors.Is(err, errAsleep) {
			s.cfg.Log.WarnContext(ctx, "snapshot in the sandbox failed, the host takes it", "workspace_id", w.ID, "error", err)
			behind = s.sandboxes.Remote(w.ID)
		}
		if made, err = s.sandboxes.CaptureOnHost(ctx, p, w); err != nil {
			return nil, false, notKept(err, "The workspace's files")
		}
	}
	nested, err := s.sandboxes.SnapshotNested(ctx, p, w, made)
	if err != nil {
		return nil, false, notKept(err, "Repositories inside the workspace")
	}
	snap, err := s.keepSnapshot(ctx, p, w, made, nested)
	return snap, behind, err
}

// notKept is the error that a workspace cannot be archived or deleted because no snapshot of it could be taken.
func notKept(err error, what string) error {
	if git.DiskIsFull(err) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "%s could not be saved, so nothing was removed: the server's disk is full. Free some space, then try again.", what)
	}
	return fault.Wrap(err, fault.Unavailable, "snapshot_failed", "%s could not be saved, so nothing was removed: %s", what, git.Reason(err))
}

// errAsleep means that a sandbox is not started or woken for what the host can do.
var errAsleep = errors.New("the sandbox is asleep")

// captureInSandbox makes the tree where the agent works.
func (s *Service) captureInSandbox(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (sandboxgit.Captured, error) {
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return sandboxgit.Captured{}, err
	}
	defer b.Close(ctx)
	t, err := Everything(ctx, b, "parawork: snapshot of "+w.Key())
	if err == nil {
		err = s.sandboxes.FetchCommits(ctx, p, w, b, t.Head, t.Commit)
	}
	return t, err
}

// Everything makes a commit of all current files of the worktree, on the worktree's commit. The caller closes the sandbox.
func Everything(ctx context.Context, b *sandboxgit.Sandbox, message string) (sandboxgit.Captured, error) {
	for _, role := range [...]string{"AUTHOR", "COMMITTER"} {
		b.Env["GIT_"+role+"_NAME"], b.Env["GIT_"+role+"_EMAIL"] = "Parawork", "parawork@localhost"
	}
	head, _, err := b.Head(ctx)
	if err != nil {
		return sandboxgit.Captured{}, err
	}
	if err := b.Fresh(ctx); err != nil {
		return sandboxgit.Captured{}, err
	}
	if err := b.AddForced(ctx); err != nil {
		return sandboxgit.Captured{}, err
	}
	if err := unhide(ctx, b); err != nil {
		return sandboxgit.Captured{}, err
	}
	if _, err := b.IndexGit(ctx, nil, "add", "--all"); err != nil {
		return sandboxgit.Captured{}, git.SandboxFault(err, "snapshot_failed", "Collecting the files")
	}
	tree, err := b.IndexGit(ctx, nil, "write-tree")
	if err != nil {
		return sandboxgit.Captured{}, git.SandboxFault(err, "snapshot_failed", "Writing the tree")
	}
	if tree = strings.TrimSpace(tree); !git.IsCommitID(tree) {
		return sandboxgit.Captured{}, fmt.Errorf("sandbox: write-tree answered %q", tree)
	}
	commit, err := b.CommitTree(ctx, tree, head, message)
	return sandboxgit.Captured{Head: head, Commit: commit}, err
}

// unhide clears the index flags that make git ignore changed files.
func unhide(ctx context.Context, b *sandboxgit.Sandbox) error {
	out, err := b.IndexGit(ctx, nil, "ls-files", "-v", "-z")
	if err != nil {
		return git.SandboxFault(err, "snapshot_failed", "Reading the index")
	}
	sparse, err := b.Git(ctx, nil, "config", "--type=bool", "--get", "core.sparseCheckout")
	if err != nil && git.ExitCode(err) != 1 {
		return git.SandboxFault(err, "snapshot_failed", "Reading the config")
	}
	var assumed, skipped strings.Builder
	for _, e := range strings.Split(out, "\x00") {
		if len(e) < 3 {
			continue
		}
		if e[0] >= 'a' && e[0] <= 'z' {
			assumed.WriteString(e[2:] + "\x00")
		}
		if (e[0] == 'S' || e[0] == 's') && strings.TrimSpace(sparse) != "true" {
			skipped.WriteString(e[2:] + "\x00")
		}
	}
	for flag, names := range map[string]string{"--no-assume-unchanged": assumed.String(), "--no-skip-worktree": skipped.String()} {
		if names == "" {
			continue
		}
		if _, err := b.IndexGit(ctx, []byte(names), "update-index", flag, "-z", "--stdin"); err != nil {
			return git.SandboxFault(err, "snapshot_failed", "Reading the index")
		}
	}
	return nil
}

// checkSnapshot verifies on the host that the commit a sandbox named exists, is complete, and is on the head it named.
func (s *Service) checkSnapshot(ctx context.Context, p workspaces.Project, t sandboxgit.Captured) error {
	c, err := s.repo.CommitOf(ctx, p.GitDir, t.Commit)
	if err != nil {
		return err
	}
	parent, err := s.repo.CommitOf(ctx, p.GitDir, t.Commit+"^1")
	if err != nil {
		return err
	}
	if c != t.Commit || parent != t.Head {
		return errors.New("the sandbox named a snapshot that is not one")
	}
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-list", "--objects", "--quiet", "--no-walk", t.Commit}})
	if err != nil {
		return fmt.Errorf("the snapshot is not whole: %w", err)
	}
	return nil
}

// snapshotOfNothing is the snapshot of a workspace whose folder was removed manually: its branch, or what an earlier, interrupted deletion
// stored.
func (s *Service) snapshotOfNothing(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (*workspaces.Snapshot, error) {
	if w.Snapshot != nil {
		if c, err := s.repo.CommitOf(ctx, p.GitDir, w.Snapshot.HeadRef); err != nil || c == w.Snapshot.Head {
			return w.Snapshot, err
		}
	}
	for _, name := range [...]string{git.HeadsPrefix + w.Branch, git.BaseRef(w.ID), w.BaseCommit} {
		if name == "" {
			continue
		}
		c, err := s.repo.CommitOf(ctx, p.GitDir, name)
		if err != nil {
			return nil, err
		}
		if c != "" {
			return s.keepSnapshot(ctx, p, w, sandboxgit.Captured{Head: c, Commit: c}, "")
		}
	}
	return nil, nil // nothing is left that could be lost
}

// keepSnapshot makes the hidden refs and describes their content.
func (s *Service) keepSnapshot(ctx context.Context, p workspaces.Project, w workspaces.Workspace, t sandboxgit.Captured, nested string) (*workspaces.Snapshot, error) {
	edits := []git.RefEdit{git.RefSet(git.TrashHead(w.ID), t.Head), git.RefSet(git.TrashTree(w.ID), t.Commit)}
	if nested != "" {
		edits = append(edits, git.RefSet(git.TrashNested(w.ID), nested))
	} else {
		edits = append(edits, git.RefDrop(git.TrashNested(w.ID)))
	}
	if err := s.repo.UpdateRefs(ctx, p.GitDir, "snapshot of "+w.Key(), edits...); err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "snapshot_failed", "Storing the snapshot")
	}
	snap := &workspaces.Snapshot{Ref: git.TrashTree(w.ID), Commit: t.Commit, HeadRef: git.TrashHead(w.ID), Head: t.Head, TakenAt: s.records.Millis(), Missing: t.Missing}
	paths, err := s.SnapshotPaths(ctx, p, *snap)
	if err != nil {
		return nil, err
	}
	snap.Uncommitted = len(paths)
	snap.Unmerged, err = s.CountUnmerged(ctx, p, w, t.Head)
	return snap, err
}

// SnapshotPaths lists the differences between the snapshot's files and its head.
func (s *Service) SnapshotPaths(ctx context.Context, p workspaces.Project, snap workspaces.Snapshot) ([]string, error) {
	if snap.Commit == snap.Head {
		return nil, nil
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", snap.Head, snap.Commit}})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the snapshot")
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

// CountUnmerged counts the commits that the workspace's base lacks.
func (s *Service) CountUnmerged(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string) (int, error) {
	args, err := s.repo.UnmergedArgs(ctx, p, w, head)
	if err != nil {
		return 0, err
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"rev-list", "--count"}, args...)})
	if err != nil {
		return 0, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Counting commits")
	}
	return strconv.Atoi(out)
}
