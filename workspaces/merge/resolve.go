package merge

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// Start starts the merge or rebase in the worktree.
func (m *merger) Start(ctx context.Context, b *sandboxgit.Sandbox, strategy, base string) (snapshotID string, err error) {
	head, branch, err := b.Head(ctx)
	if err != nil {
		return "", err
	}
	if branch != m.Workspace.Branch {
		return "", stage.WrongBranch(m.Workspace, branch)
	}
	if err := b.Idle(ctx); err != nil {
		return "", err
	}
	u := updater{merger: m, req: workspaces.UpdateRequest{Strategy: strategy, DryRun: true}}
	if err := u.plan(ctx); err != nil {
		return "", err
	}
	if len(u.res.Conflicts) == 0 {
		return "", fault.New(fault.Conflict, "no_conflicts", "Nothing is in conflict with %s: update the branch.", m.Target)
	}
	if head != u.res.Head {
		return "", headMovedOn(m.Workspace)
	}
	// git starts neither if it would have to touch changed tracked files: report all of them at once.
	dirty, err := b.Uncommitted(ctx, "no")
	if err != nil {
		return "", err
	}
	if len(dirty) > 0 {
		return "", fault.New(fault.Conflict, "files_in_the_way", "%s: commit or discard them first, then resolve the conflicts.",
			git.Plural(len(dirty), "file has uncommitted changes", "files have uncommitted changes")).With("paths", git.EncodePaths(dirty))
	}
	// git silently overwrites ignored files, and no snapshot has them.
	if u.added, err = m.onlyIn(ctx, base, head); err != nil {
		return "", err
	}
	u.res.Commit = base
	unseen, err := u.unseenFiles(ctx, b, nil)
	if err != nil {
		return "", err
	}
	if len(unseen) > 0 {
		return "", fault.New(fault.Conflict, "files_in_the_way", "%s where %s has files of its own: move them away first, then resolve the conflicts.",
			git.Plural(len(unseen), "untracked or ignored file lies", "untracked or ignored files lie"), m.Target).With("paths", git.EncodePaths(unseen))
	}
	kept, err := m.s.snapshots.Take(ctx, m.Workspace.ID, snapshot.Request{Kind: "kept", Reason: "update", Title: "Before resolving conflicts with " + m.Target, ActorID: m.actor.User.ID})
	if err != nil {
		return "", err
	}
	if err := m.s.sandboxes.Supply(ctx, m.p, m.Workspace, b, []string{base}); err != nil {
		return "", err
	}
	args := []string{"merge", "--no-ff", "--no-edit", "--no-stat", "--no-verify", "--no-autostash", "--no-gpg-sign", "-m", fmt.Sprintf("Merge branch '%s' into %s", m.Target, m.Workspace.Branch), base}
	if strategy == workspaces.StrategyRebase {
		from, err := m.from(ctx, base, head)
		if err != nil {
			return "", err
		}
		args = []string{"rebase", "--no-autostash", "--no-verify", "--no-gpg-sign", "--no-stat", "--onto", base, from}
	}
	_, err = b.Git(context.WithoutCancel(ctx), nil, args...)
	failpoint.Reach(failpoint.ResolveBegun)
	if err == nil || git.ExitCode(err) == 1 {
		return kept.ID, nil // conflicts; or git resolved what the plan could not
	}
	return kept.ID, git.SandboxFault(err, "update_failed", "Starting the update in the workspace")
}

// onlyIn lists the files that one commit has and another lacks, as raw paths.
func (m *merger) onlyIn(ctx context.Context, commit, other string) ([]string, error) {
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", other, commit}, Max: 256 << 20})
	if err != nil {
		return nil, MergeFault(err)
	}
	return git.SplitZero(string(out)), nil
}
