package workspaces

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/internal/page"
)

// maxLandedLook is how many of the newest things that happened are looked through for a merge.
const maxLandedLook = 200

// Landed is what the workspace's last merge brought to its base, and the commits it was made of; nothing when there was none. A branch that
// was merged differs from its base in nothing any more.
func (s *Service) Landed(ctx context.Context, workspaceID string) (Comparison, []Commit, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Comparison{}, nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil || w.MergedCommit == "" {
		return Comparison{}, nil, err
	}
	commit, err := s.commitOf(ctx, p.GitDir, w.MergedCommit)
	if err != nil || commit == "" {
		return Comparison{}, nil, err
	}
	base, head, err := s.mergeNoted(ctx, w)
	if err != nil {
		return Comparison{}, nil, err
	}
	if base == "" { // merged elsewhere: what the commit itself did
		base = commit + "^1"
	}
	if base, err = s.commitOf(ctx, p.GitDir, base); err != nil || base == "" {
		return Comparison{}, nil, err
	}
	if head == "" {
		head = commit
	}
	from, to := Tree{Commit: base}, Tree{Commit: commit}
	for _, t := range [...]*Tree{&from, &to} {
		if err := s.fillTree(ctx, p, t); err != nil {
			return Comparison{}, nil, err
		}
	}
	c, err := s.Compare(ctx, workspaceID, from, to, CompareOptions{Renames: true})
	if err != nil {
		return Comparison{}, nil, err
	}
	made, err := s.readCommits(ctx, p, "--max-count="+strconv.Itoa(maxCommits), head, "^"+base)
	return c, made, err
}

// mergeNoted is where the base was before the workspace's last merge, and the branch then; "" where that was not noted here.
func (s *Service) mergeNoted(ctx context.Context, w Workspace) (base, head string, err error) {
	items, _, err := s.store.Activity(ctx, w.ID, page.Page{Limit: maxLandedLook})
	if err != nil {
		return "", "", err
	}
	for _, a := range items {
		if a.Kind != "merge" || a.Data["commit"] != w.MergedCommit {
			continue
		}
		base, _ = a.Data["base_commit"].(string)
		head, _ = a.Data["head"].(string)
		if !isCommitID(base) || !isCommitID(head) {
			return "", "", nil
		}
		return base, head, nil
	}
	return "", "", nil
}
