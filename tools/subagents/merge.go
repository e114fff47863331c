package subagents

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/stage"
)

// Committer commits what an agent left uncommitted.
type Committer interface {
	Commit(ctx context.Context, actor accounts.Actor, workspaceID string, r stage.CommitRequest) (workspaces.Commit, error)
}

// Merger merges the branch of one workspace into another one.
type Merger interface {
	Join(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.JoinRequest) (workspaces.UpdateResult, error)
}

// Merge merges what a sibling did into the branch and the files of the workspace it was asked for in. What it left uncommitted is committed
// on its branch first. On an error the caller's files and branch are as they were, and it can be repeated. Errors: subagent_not_found,
// subagent_not_yours, subagent_shares_files, subagent_at_work, subagent_not_started, subagent_conflicts, and those of Commit and Join.
func (s *Service) Merge(ctx context.Context, c Caller, subagentID string) (workspaces.UpdateResult, error) {
	var none workspaces.UpdateResult
	a, err := s.find(ctx, c, subagentID, true)
	if err != nil {
		return none, err
	}
	switch {
	case a.Where != Sibling:
		return none, fault.New(fault.Conflict, "subagent_shares_files", "This subagent works on the files of its caller: there is nothing to merge.")
	case a.FromWorkspaceID != c.WorkspaceID:
		return none, fault.New(fault.Forbidden, "subagent_not_yours", "Another agent asked for this subagent in a workspace of its own: only its caller can merge it.")
	case a.Status.Busy():
		return none, fault.New(fault.Conflict, "subagent_at_work", "This subagent is still at work. Wait until it has ended its task, or interrupt it; then merge.")
	case a.Branch == "":
		return none, fault.New(fault.Conflict, "subagent_not_started", "This subagent has not started: it has no branch that could be merged.")
	}
	w, err := s.workspace(ctx, c)
	if err != nil {
		return none, err
	}
	actor, err := s.directs(ctx, c, a, w)
	if err != nil {
		return none, err
	}
	sibling, err := s.cfg.Workspaces.Workspace(ctx, a.WorkspaceID)
	if err != nil {
		return none, err
	}
	for _, one := range [...]workspaces.Workspace{w, sibling} {
		if err := accounts.Can(actor, accounts.EditWorkspace, accounts.Object{TeamID: one.TeamID, OwnerID: one.CreatedBy, Private: one.Private}); err != nil {
			return none, err
		}
	}
	if _, err := s.cfg.Commits.Commit(ctx, actor, sibling.ID, stage.CommitRequest{Message: "Work of the subagent " + a.Name}); err != nil && fault.CodeOf(err) != "nothing_to_commit" {
		return none, err
	}
	r := workspaces.JoinRequest{From: sibling.ID}
	if sn, err := s.cfg.Snapshots.SnapshotByID(ctx, a.SnapshotID); err == nil {
		r.Began, r.BeganHead = sn.Commit, sn.Head
	} else if !fault.Is(err, fault.NotFound) {
		return none, err
	}
	u, err := s.cfg.Merging.Join(ctx, actor, w.ID, r)
	if err != nil {
		return none, err
	}
	paths := u.Dirty
	for _, conflict := range u.Conflicts {
		paths = append(paths, conflict.Path)
	}
	if len(paths) > 0 {
		return none, conflicts(u.BaseCommit, git.EncodePaths(paths))
	}
	s.notify(ctx, a)
	return u, nil
}

// maxConflicts is how many paths the error about conflicts has.
const maxConflicts = 100

// conflicts is the error that a sibling, whose branch is at commit, and its caller changed the same parts of files.
func conflicts(commit string, paths []string) error {
	const most = 10
	named := strings.Join(paths[:min(len(paths), most)], ", ")
	if more := len(paths) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fault.New(fault.Conflict, "subagent_conflicts", "Both sides changed %s. Nothing was changed. Commit your own changes and run git merge %s, or have the subagent change its side.", named, commit).
		With("paths", paths[:min(len(paths), maxConflicts)]).With("more_paths", max(0, len(paths)-maxConflicts)).With("commit", commit)
}
