package ingest

import (
	"context"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// FilesNow is what the files of a workspace are.
type FilesNow struct {
	Tree  string // of all files, untracked ones included, as git names it; "" = that could not be seen
	Head  string // the commit the branch is at
	Clean bool   // nothing differs from Head: its files are what was seen
}

// FilesNow says what the workspace's files are, making its sandbox if need be. Two answers with the same tree are of the same files.
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
		now.Tree = "" // what they are could not be seen
		return now, nil
	}
	if now.Clean = now.Tree == tree; now.Clean {
		return now, nil
	}
	// Files that a filter of the repository keeps otherwise than they are on disk are not what the commit's tree names.
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

// BranchNow says where the workspace's branch is, once what its sandbox committed is home: the commit and its tree.
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
