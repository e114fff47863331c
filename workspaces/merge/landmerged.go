package merge

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// mergedRefs are the refs of a prepared merge: the result under its strategy's name, and the head it was made of.
func mergedRefs(workspaceID string) string { return "refs/parawork/merged/" + workspaceID + "/" }

// MergedTree computes the result of merging the workspace's branch, without landing it, and stores it in the repository until the
// workspace's next one. base is the base's head. With conflicts commit is empty. Errors: nothing_to_merge.
func (s *Service) MergedTree(ctx context.Context, actor accounts.Actor, workspaceID, strategy, message string) (commit, base string, conflicts []workspaces.Conflict, err error) {
	if !slices.Contains([]string{workspaces.StrategyMerge, workspaces.StrategySquash, workspaces.StrategyRebase}, strategy) {
		return "", "", nil, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	}
	m, release, err := s.Merger(ctx, actor, workspaceID, workspaces.MergeRequest{Strategy: strategy, Message: message})
	if err != nil {
		return "", "", nil, err
	}
	defer release()
	s.freshBase(ctx, &m.p, m.Target)
	res, err := m.plan(ctx)
	switch {
	case err != nil:
		return "", "", nil, err
	case len(res.Conflicts) > 0:
		return "", res.BaseCommit, res.Conflicts, nil
	case res.UpToDate:
		return "", res.BaseCommit, nil, fault.New(fault.Conflict, "nothing_to_merge", "%s has every commit of %s.", m.Target, m.Workspace.Branch)
	}
	if err := m.noSecrets(ctx, res); err != nil {
		return "", "", nil, err
	}
	have, err := s.sandboxes.RefsBelow(ctx, m.p, mergedRefs(workspaceID))
	if err != nil {
		return "", "", nil, err
	}
	edits := []git.RefEdit{git.RefSet(mergedRefs(workspaceID)+strategy, res.Commit), git.RefSet(mergedRefs(workspaceID)+"head", res.Head)}
	for name := range have {
		if last := strings.TrimPrefix(name, mergedRefs(workspaceID)); last != strategy && last != "head" {
			edits = append(edits, git.RefDrop(name))
		}
	}
	if err := s.repo.UpdateRefs(ctx, m.p.GitDir, "merged result of "+m.Workspace.Key(), edits...); err != nil {
		return "", "", nil, git.GitFault(err, fault.Unavailable, "merge_failed", "Storing the merged result")
	}
	return res.Commit, res.BaseCommit, nil, nil
}

// LandMerged makes a commit of MergedTree the base, if that is still at expectedBase. It is idempotent. Errors: base_moved, merged_unknown.
func (s *Service) LandMerged(ctx context.Context, actor accounts.Actor, workspaceID, commit, expectedBase string) (workspaces.MergeResult, error) {
	m, release, err := s.Merger(ctx, actor, workspaceID, workspaces.MergeRequest{})
	if err != nil {
		return workspaces.MergeResult{}, err
	}
	defer release()
	have, err := s.sandboxes.RefsBelow(ctx, m.p, mergedRefs(workspaceID))
	if err != nil {
		return workspaces.MergeResult{}, err
	}
	res := workspaces.MergeResult{Base: m.Target, BaseCommit: expectedBase, Head: have[mergedRefs(workspaceID)+"head"], Commit: commit, Conflicts: []workspaces.Conflict{}, Warnings: []string{}}
	for name, id := range have {
		if last := strings.TrimPrefix(name, mergedRefs(workspaceID)); id == commit && last != "head" {
			res.Strategy = last
		}
	}
	if res.Strategy == "" || res.Head == "" || !git.IsCommitID(expectedBase) {
		return workspaces.MergeResult{}, fault.New(fault.Conflict, "merged_unknown", "This is not a merged result of %s. Compute it again.", m.Workspace.Key())
	}
	now, err := m.BaseTip(ctx)
	if err != nil {
		return workspaces.MergeResult{}, err
	}
	landed := false
	if now != expectedBase {
		if landed, err = m.has(ctx, now, commit); err != nil {
			return workspaces.MergeResult{}, err
		}
		if !landed {
			return workspaces.MergeResult{}, s.baseMoved(m.Target, expectedBase, now)
		}
	}
	if res.Commits, err = m.count(ctx, res.Head, "^"+expectedBase); err != nil {
		return workspaces.MergeResult{}, err
	}
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", expectedBase, commit}})
	if err != nil {
		return workspaces.MergeResult{}, MergeFault(err)
	}
	res.Files = strings.Count(string(out), "\x00")
	if landed && m.Workspace.MergedCommit == commit {
		res.Merged = true
		return res, nil
	}
	if !landed {
		if err := m.noSecrets(ctx, res); err != nil {
			return workspaces.MergeResult{}, err
		}
		failpoint.Reach(failpoint.MergePlanned)
		if err = m.land(ctx, res); errors.Is(err, errBaseMoved) {
			now, _ = m.BaseTip(ctx) // "" if unreadable: what counts is that it moved
			return workspaces.MergeResult{}, s.baseMoved(m.Target, expectedBase, now)
		} else if err != nil {
			return workspaces.MergeResult{}, err
		}
		failpoint.Reach(failpoint.MergeLanded)
	}
	res.Merged = true
	return res, m.keep(ctx, res)
}
