package merge

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Landed returns what the workspace's last merge brought to its base, and the commits of it; nothing when there was none. A merged branch
// no longer differs from its base.
func (s *Service) Landed(ctx context.Context, workspaceID string) (git.Comparison, []workspaces.Commit, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return git.Comparison{}, nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return git.Comparison{}, nil, err
	}
	l, err := s.snapshots.LandedAs(ctx, p, w)
	if err != nil || l.Commit == "" {
		return git.Comparison{}, nil, err
	}
	from, to := git.Tree{Commit: l.Base}, git.Tree{Commit: l.Commit}
	for _, t := range [...]*git.Tree{&from, &to} {
		if err := s.snapshots.FillTree(ctx, p, t); err != nil {
			return git.Comparison{}, nil, err
		}
	}
	c, err := s.repo.Compare(ctx, workspaceID, from, to, git.CompareOptions{Renames: true})
	if err != nil {
		return git.Comparison{}, nil, err
	}
	made, err := s.repo.ReadCommits(ctx, p, "--max-count="+strconv.Itoa(git.MaxCommits), l.Head, "^"+l.Base)
	return c, made, err
}
