package workspaces

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/internal/fault"
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
	if err != nil {
		return Comparison{}, nil, err
	}
	l, err := s.landedAs(ctx, p, w)
	if err != nil || l.commit == "" {
		return Comparison{}, nil, err
	}
	from, to := Tree{Commit: l.base}, Tree{Commit: l.commit}
	for _, t := range [...]*Tree{&from, &to} {
		if err := s.fillTree(ctx, p, t); err != nil {
			return Comparison{}, nil, err
		}
	}
	c, err := s.Compare(ctx, workspaceID, from, to, CompareOptions{Renames: true})
	if err != nil {
		return Comparison{}, nil, err
	}
	made, err := s.readCommits(ctx, p, "--max-count="+strconv.Itoa(maxCommits), l.head, "^"+l.base)
	return c, made, err
}

// landing are the commits of a merge: where the base was before, the branch then, and what it became. All empty where there was none, or it
// is not in the repository any more.
type landing struct{ base, head, commit string }

// landedAs finds the workspace's last merge.
func (s *Service) landedAs(ctx context.Context, p Project, w Workspace) (landing, error) {
	if w.MergedCommit == "" {
		return landing{}, nil
	}
	commit, err := s.CommitOf(ctx, p.GitDir, w.MergedCommit)
	if err != nil || commit == "" {
		return landing{}, err
	}
	base, head, err := s.mergeNoted(ctx, w)
	if err != nil {
		return landing{}, err
	}
	if base == "" { // merged elsewhere: what the commit itself did
		base = commit + "^1"
	}
	if base, err = s.CommitOf(ctx, p.GitDir, base); err != nil || base == "" {
		return landing{}, err
	}
	if head == "" {
		head = commit
	}
	return landing{base, head, commit}, nil
}

// resolveMerged finds what the workspace's last merge became, or with before what the base was until then.
func (s *Service) resolveMerged(ctx context.Context, p Project, w Workspace, rev string, before bool) (Tree, error) {
	l, err := s.landedAs(ctx, p, w)
	if err != nil {
		return Tree{}, err
	}
	if l.commit == "" {
		return Tree{}, fault.New(fault.NotFound, "no_merge", "%s was not merged, or what it was merged as is no longer in the repository.", w.Key())
	}
	t := Tree{Rev: rev, Commit: l.commit, Label: "the merge"}
	if before {
		t.Commit, t.Label = l.base, "before the merge"
	}
	return t, s.fillTree(ctx, p, &t)
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
		if !IsCommitID(base) || !IsCommitID(head) {
			return "", "", nil
		}
		return base, head, nil
	}
	return "", "", nil
}
