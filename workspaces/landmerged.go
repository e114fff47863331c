package workspaces

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/killpoint"
)

// mergedRefs is where the repository keeps what a merge would land: the result under its strategy's name, and the head it was made of.
func mergedRefs(workspaceID string) string { return "refs/parawork/merged/" + workspaceID + "/" }

// MergedTree computes what merging the workspace's branch would land, without landing it, and keeps it in the repository until the next
// one of the workspace. base is what the base was at. With conflicts commit is empty. Errors: nothing_to_merge.
func (s *Service) MergedTree(ctx context.Context, actor accounts.Actor, workspaceID, strategy, message string) (commit, base string, conflicts []Conflict, err error) {
	if !slices.Contains([]string{StrategyMerge, StrategySquash, StrategyRebase}, strategy) {
		return "", "", nil, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	}
	m, release, err := s.merger(ctx, actor, workspaceID, MergeRequest{Strategy: strategy, Message: message})
	if err != nil {
		return "", "", nil, err
	}
	defer release()
	s.freshBase(ctx, &m.p, m.target)
	res, err := m.plan(ctx)
	switch {
	case err != nil:
		return "", "", nil, err
	case len(res.Conflicts) > 0:
		return "", res.BaseCommit, res.Conflicts, nil
	case res.UpToDate:
		return "", res.BaseCommit, nil, fault.New(fault.Conflict, "nothing_to_merge", "%s has every commit of %s.", m.target, m.w.Branch)
	}
	if err := m.noSecrets(ctx, res); err != nil {
		return "", "", nil, err
	}
	have, err := s.RefsBelow(ctx, m.p, mergedRefs(workspaceID))
	if err != nil {
		return "", "", nil, err
	}
	edits := []RefEdit{RefSet(mergedRefs(workspaceID)+strategy, res.Commit), RefSet(mergedRefs(workspaceID)+"head", res.Head)}
	for name := range have {
		if last := strings.TrimPrefix(name, mergedRefs(workspaceID)); last != strategy && last != "head" {
			edits = append(edits, refDrop(name))
		}
	}
	if err := s.UpdateRefs(ctx, m.p.GitDir, "merged result of "+m.w.Key(), edits...); err != nil {
		return "", "", nil, GitFault(err, fault.Unavailable, "merge_failed", "Keeping the merged result")
	}
	return res.Commit, res.BaseCommit, nil, nil
}

// LandMerged makes a commit of MergedTree the base, if that is still at expectedBase. Asked again after it has landed it says so.
// Errors: base_moved, merged_unknown.
func (s *Service) LandMerged(ctx context.Context, actor accounts.Actor, workspaceID, commit, expectedBase string) (MergeResult, error) {
	m, release, err := s.merger(ctx, actor, workspaceID, MergeRequest{})
	if err != nil {
		return MergeResult{}, err
	}
	defer release()
	have, err := s.RefsBelow(ctx, m.p, mergedRefs(workspaceID))
	if err != nil {
		return MergeResult{}, err
	}
	res := MergeResult{Base: m.target, BaseCommit: expectedBase, Head: have[mergedRefs(workspaceID)+"head"], Commit: commit, Conflicts: []Conflict{}, Warnings: []string{}}
	for name, id := range have {
		if last := strings.TrimPrefix(name, mergedRefs(workspaceID)); id == commit && last != "head" {
			res.Strategy = last
		}
	}
	if res.Strategy == "" || res.Head == "" || !IsCommitID(expectedBase) {
		return MergeResult{}, fault.New(fault.Conflict, "merged_unknown", "This is no merged result of %s. It is to be computed anew.", m.w.Key())
	}
	now, err := m.baseTip(ctx)
	if err != nil {
		return MergeResult{}, err
	}
	landed := false
	if now != expectedBase {
		if landed, err = m.has(ctx, now, commit); err != nil {
			return MergeResult{}, err
		}
		if !landed {
			return MergeResult{}, s.baseMoved(m.target, expectedBase, now)
		}
	}
	if res.Commits, err = m.count(ctx, res.Head, "^"+expectedBase); err != nil {
		return MergeResult{}, err
	}
	out, err := m.desk.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", expectedBase, commit}})
	if err != nil {
		return MergeResult{}, MergeFault(err)
	}
	res.Files = strings.Count(string(out), "\x00")
	if landed && m.w.MergedCommit == commit {
		res.Merged = true
		return res, nil
	}
	if !landed {
		if err := m.noSecrets(ctx, res); err != nil {
			return MergeResult{}, err
		}
		killpoint.Reach(killpoint.MergePlanned)
		if err = m.land(ctx, res); errors.Is(err, errBaseMoved) {
			now, _ = m.baseTip(ctx) // "" where it cannot be read: that it moved is what counts
			return MergeResult{}, s.baseMoved(m.target, expectedBase, now)
		} else if err != nil {
			return MergeResult{}, err
		}
		killpoint.Reach(killpoint.MergeLanded)
	}
	res.Merged = true
	return res, m.keep(ctx, res)
}
