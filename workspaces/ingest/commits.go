package ingest

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Commits returns the commits of the workspace's branch that are not in its base, the newest first, at most 500.
func (s *Service) Commits(ctx context.Context, workspaceID string) ([]workspaces.Commit, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return nil, err
	}
	if err := s.FetchCommits(ctx, p, w); err != nil {
		// Return the commits on the server even if fetching more failed; callers that need them report that.
		s.cfg.Log.WarnContext(ctx, "commits could not be fetched from the sandbox", "workspace_id", w.ID, "error", err)
	}
	head, err := s.repo.BranchTip(ctx, p, w)
	if err != nil || head == "" {
		return []workspaces.Commit{}, err
	}
	args, err := s.repo.UnmergedArgs(ctx, p, w, head)
	if err != nil {
		return nil, err
	}
	return s.repo.ReadCommits(ctx, p, append([]string{"--max-count=" + strconv.Itoa(git.MaxCommits)}, args...)...)
}
