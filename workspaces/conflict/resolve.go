package conflict

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// maxPromptFiles is how many files with conflicts a prompt names.
const maxPromptFiles = 100

// BeginResolve starts the update in the worktree, where git stops at its conflicts and leaves both sides in the files, for an agent or a
// person to resolve. If one is already in progress, it returns what is left of it. Errors: no_conflicts, files_in_the_way,
// operation_in_progress.
func (s *Service) BeginResolve(ctx context.Context, actor accounts.Actor, workspaceID, strategy string) (workspaces.Resolve, error) {
	if strategy != workspaces.StrategyMerge && strategy != workspaces.StrategyRebase {
		return workspaces.Resolve{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge or rebase.")
	}
	m, release, err := s.merging.Merger(ctx, actor, workspaceID, workspaces.MergeRequest{Strategy: strategy})
	if err != nil {
		return workspaces.Resolve{}, err
	}
	defer release()
	b, err := s.sandboxes.Open(ctx, m.Workspace)
	if err != nil {
		return workspaces.Resolve{}, err
	}
	defer b.Close(ctx)
	maps.Copy(b.Env, sandboxgit.Identity("COMMITTER", actor.User))
	maps.Copy(b.Env, sandboxgit.Identity("AUTHOR", actor.User))
	r := workspaces.Resolve{Base: m.Target, Strategy: strategy}
	if r.BaseCommit, err = m.BaseTip(ctx); err != nil {
		return workspaces.Resolve{}, err
	}
	left, err := unmerged(ctx, b)
	if err != nil {
		return workspaces.Resolve{}, err
	}
	if len(left) == 0 {
		if r.SnapshotID, err = m.Start(ctx, b, strategy, r.BaseCommit); err != nil {
			return workspaces.Resolve{}, err
		}
		if left, err = unmerged(ctx, b); err != nil {
			return workspaces.Resolve{}, err
		}
	} else if op, err := b.Operation(ctx); err != nil {
		return workspaces.Resolve{}, err
	} else if op == workspaces.StrategyRebase || op == workspaces.StrategyMerge {
		r.Strategy = op
	}
	r.Files, r.Prompt = left, resolvePrompt(m.Workspace, r.Base, r.Strategy, left)
	s.ingest.HeadMoved(m.Workspace.ID)
	s.records.PublishWorkspace(ctx, m.Workspace)
	return r, nil
}

// AbortResolve aborts a merge or rebase in progress in the worktree and restores the branch and files to their earlier state.
func (s *Service) AbortResolve(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer release()
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	op, err := b.Operation(ctx)
	if err != nil {
		return err
	}
	if op != workspaces.StrategyMerge && op != workspaces.StrategyRebase {
		return nothingUnderWay()
	}
	if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: "kept", Reason: "update", Title: "Before giving up a " + op, ActorID: actor.User.ID}); err != nil {
		return err
	}
	maps.Copy(b.Env, sandboxgit.Identity("COMMITTER", actor.User))
	if _, err := b.Git(context.WithoutCancel(ctx), nil, op, "--abort"); err != nil {
		return git.SandboxFault(err, "update_failed", "Giving up the "+op)
	}
	failpoint.Reach(failpoint.ResolveGiven)
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: "Gave up the " + op})
	s.records.PublishWorkspace(ctx, w)
	return s.sandboxes.FetchCommits(ctx, p, w, b)
}

// FinishResolve finishes a merge or rebase in progress in the worktree: texts as they are in the folder, other files as decided. It returns
// the operation, and the files at which a rebase stopped again. Errors: no_operation_in_progress, unresolved_conflicts, undecided_conflicts.
func (s *Service) FinishResolve(ctx context.Context, actor accounts.Actor, workspaceID string) (op string, left []string, err error) {
	w, p, release, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return "", nil, err
	}
	defer release()
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return "", nil, err
	}
	defer b.Close(ctx)
	base, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return "", nil, err
	}
	cs, err := conflicts(ctx, b, base)
	if err != nil {
		return "", nil, err
	}
	if op = cs.op; op == "" {
		return "", nil, nothingUnderWay()
	}
	files, err := cs.finished()
	if err != nil {
		return op, nil, err
	}
	if _, err := s.snapshots.Take(ctx, w.ID, snapshot.Request{Kind: "kept", Reason: "update", Title: "Before finishing a " + op, ActorID: actor.User.ID}); err != nil {
		return op, nil, err
	}
	if len(files) > 0 {
		if _, err := b.Git(ctx, []byte(strings.Join(files, "\x00")+"\x00"), "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			return op, nil, git.SandboxFault(err, "update_failed", "Taking the resolved files")
		}
	}
	failpoint.Reach(failpoint.ResolveTaken)
	// Stage by content alone: the other side may have a file of the same name.
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return op, nil, err
	}
	if err := sandboxgit.NoSecret((workspaces.SecretFiles{Blobs: secrets.Blobs}), func(args ...string) (string, error) { return b.Git(ctx, nil, args...) }); err != nil {
		return op, nil, err
	}
	maps.Copy(b.Env, sandboxgit.Identity("COMMITTER", actor.User))
	args := []string{"rebase", "--continue"}
	if op == workspaces.StrategyMerge {
		maps.Copy(b.Env, sandboxgit.Identity("AUTHOR", actor.User))
		args = []string{"commit", "--quiet", "--no-edit", "--no-verify", "--no-gpg-sign"}
	}
	_, failed := b.GitEnv(context.WithoutCancel(ctx), map[string]string{"GIT_EDITOR": "true"}, nil, args...)
	failpoint.Reach(failpoint.ResolveEnded)
	if left, err = unmerged(context.WithoutCancel(ctx), b); err != nil {
		return op, nil, err
	}
	if failed != nil && len(left) == 0 {
		return op, nil, git.SandboxFault(failed, "update_failed", "Finishing the "+op)
	}
	s.ingest.HeadMoved(w.ID)
	s.records.PublishWorkspace(ctx, w)
	if len(left) > 0 { // the next commit of a rebase
		return op, left, nil
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: "Finished the " + op})
	return op, nil, s.sandboxes.FetchCommits(ctx, p, w, b)
}

// finished lists the files staged from the folder when the operation finishes, and rejects undecided ones.
func (cs *conflictSet) finished() ([]string, error) {
	var files, undecided []string
	var marked []MarkedFile
	for i := range cs.files {
		c := &cs.files[i]
		switch {
		case len(c.Marks) > 0:
			marked = append(marked, MarkedFile{Path: guest.EncodePath(c.Path), Lines: c.Marks})
		case c.Decided:
			files = append(files, c.restage...)
		case c.text():
			files = append(files, c.paths...)
		default:
			undecided = append(undecided, c.Path)
		}
	}
	if len(undecided) > 0 {
		return nil, fault.New(fault.Conflict, "undecided_conflicts", "%s no lines in which both sides could stand (%s): decide which side to take, then finish.",
			git.Plural(len(undecided), "file in conflict has", "files in conflict have"), stage.NamesOf(undecided)).With("paths", git.EncodePaths(undecided))
	}
	if len(marked) > 0 {
		paths := make([]string, len(marked))
		for i, m := range marked {
			paths[i] = m.Path
		}
		return nil, fault.New(fault.Conflict, "unresolved_conflicts", "%s conflict markers (<<<<<<< or >>>>>>>) left: %s. Resolve that first, then finish.",
			git.Plural(len(marked), "file has", "files have"), markedWords(marked)).With("paths", paths).With("marks", marked)
	}
	return files, nil
}

// unmerged lists the files with unresolved conflicts.
func unmerged(ctx context.Context, b *sandboxgit.Sandbox) ([]string, error) {
	list, err := stages(ctx, b, "--unmerged")
	return slices.Sorted(maps.Keys(list)), err
}

// resolvePrompt is the prompt for an agent. File names are the agent's work too, so they are quoted and cannot end their line.
func resolvePrompt(w workspaces.Workspace, base, strategy string, files []string) string {
	var b strings.Builder
	how, end := "A merge of %s into %s is under way in this repository and stopped at conflicts in:\n", "git add each file, then finish with: git commit --no-edit"
	if strategy == workspaces.StrategyRebase {
		how, end = "A rebase of %[2]s onto %[1]s is under way in this repository and stopped at conflicts in:\n", "git add each file, then go on with: GIT_EDITOR=true git rebase --continue. Resolve further conflicts in the same way until the rebase is finished"
	}
	fmt.Fprintf(&b, how, base, w.Branch)
	for i, f := range files {
		if i == maxPromptFiles {
			fmt.Fprintf(&b, "- and %d more: git diff --name-only --diff-filter=U\n", len(files)-i)
			break
		}
		fmt.Fprintf(&b, "- %q\n", hostgit.Clean(f))
	}
	fmt.Fprintf(&b, "Resolve them: keep what both sides want, drop nothing. Run the tests that cover these files. %s. Do not push.", end)
	return b.String()
}
