package ingest

import (
	"context"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// FilesNow is the current state of a workspace's files.
type FilesNow struct {
	Tree  string // git tree of all files, untracked ones included; "" = unknown
	Head  string // head of the branch
	Clean bool   // nothing differs from Head
}

// FilesNow returns the state of the workspace's files, and creates its sandbox if needed. Equal trees mean equal files.
func (s *Service) FilesNow(ctx context.Context, workspaceID string) (FilesNow, error) {
	commit, tree, err := s.BranchNow(ctx, workspaceID)
	if err != nil {
		return FilesNow{}, err
	}
	sn, err := s.snapshots.Take(ctx, workspaceID, snapshot.Request{Kind: snapshot.SnapPoll})
	if err != nil {
		return FilesNow{}, err
	}
	now := FilesNow{Tree: sn.Tree, Head: commit}
	if slices.ContainsFunc(sn.Missing, func(m workspaces.Missing) bool { return m.Path == "" }) {
		now.Tree = "" // unknown state
		return now, nil
	}
	if now.Clean = now.Tree == tree; now.Clean {
		return now, nil
	}
	// With a filter of the repository, the tree of the files on disk differs from the commit's tree.
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return now, err
	}
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return now, err
	}
	head, _, err := b.Head(ctx)
	if err != nil || head != commit {
		return now, err
	}
	paths, err := b.Uncommitted(ctx, "normal")
	now.Clean = err == nil && len(paths) == 0
	return now, err
}

// BranchNow returns the workspace's branch, its commit and tree, after fetching what its sandbox committed.
func (s *Service) BranchNow(ctx context.Context, workspaceID string) (commit, tree string, err error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", "", err
	}
	if err := s.FetchCommits(ctx, p, w); err != nil {
		return "", "", err
	}
	if commit, err = s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch); err != nil {
		return "", "", err
	}
	if commit == "" {
		return "", "", fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", w.Branch)
	}
	tree, err = s.repo.TreeOf(ctx, p, commit)
	return commit, tree, err
}
