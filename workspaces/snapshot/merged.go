package snapshot

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// maxLandedLook is how many of the newest activities are searched for a merge.
const maxLandedLook = 200

// landing are the commits of a merge: the base before, the branch then, and the result. All are empty if there was none, or it is no longer
// in the repository.
type landing struct{ Base, Head, Commit string }

// LandedAs finds the workspace's last merge.
func (s *Service) LandedAs(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (landing, error) {
	if w.MergedCommit == "" {
		return landing{}, nil
	}
	commit, err := s.repo.CommitOf(ctx, p.GitDir, w.MergedCommit)
	if err != nil || commit == "" {
		return landing{}, err
	}
	base, head, err := s.mergeNoted(ctx, w)
	if err != nil {
		return landing{}, err
	}
	if base == "" { // merged on the forge: the commit's own change
		base = commit + "^1"
	}
	if base, err = s.repo.CommitOf(ctx, p.GitDir, base); err != nil || base == "" {
		return landing{}, err
	}
	head = cmp.Or(head, commit)
	return landing{base, head, commit}, nil
}

// resolveMerged returns the result of the workspace's last merge, or with before the base until then.
func (s *Service) resolveMerged(ctx context.Context, p workspaces.Project, w workspaces.Workspace, rev string, before bool) (git.Tree, error) {
	l, err := s.LandedAs(ctx, p, w)
	if err != nil {
		return git.Tree{}, err
	}
	if l.Commit == "" {
		return git.Tree{}, fault.New(fault.NotFound, "no_merge", "%s was not merged, or what it was merged as is no longer in the repository.", w.Key())
	}
	t := git.Tree{Rev: rev, Commit: l.Commit, Label: "the merge"}
	if before {
		t.Commit, t.Label = l.Base, "before the merge"
	}
	return t, s.FillTree(ctx, p, &t)
}

// mergeNoted returns the base before the workspace's last merge, and the branch then; "" if that was not recorded.
func (s *Service) mergeNoted(ctx context.Context, w workspaces.Workspace) (base, head string, err error) {
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
		if !git.IsCommitID(base) || !git.IsCommitID(head) {
			return "", "", nil
		}
		return base, head, nil
	}
	return "", "", nil
}
