package workspaces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/killpoint"
)

// maxPromptFiles is how many files with conflicts a prompt names.
const maxPromptFiles = 100

// BeginResolve starts the update in the worktree, where git stops at its conflicts and leaves both sides in the files, for an agent or a
// person to resolve. Where one was begun before, it says what is left of it. Errors: no_conflicts, files_in_the_way, operation_in_progress.
func (s *Service) BeginResolve(ctx context.Context, actor accounts.Actor, workspaceID, strategy string) (Resolve, error) {
	if strategy != StrategyMerge && strategy != StrategyRebase {
		return Resolve{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge or rebase.")
	}
	m, release, err := s.merger(ctx, actor, workspaceID, MergeRequest{Strategy: strategy})
	if err != nil {
		return Resolve{}, err
	}
	defer release()
	b, err := s.openBox(ctx, m.w)
	if err != nil {
		return Resolve{}, err
	}
	defer b.close(ctx)
	maps.Copy(b.env, identity("COMMITTER", actor.User))
	maps.Copy(b.env, identity("AUTHOR", actor.User))
	r := Resolve{Base: m.target, Strategy: strategy}
	if r.BaseCommit, err = m.baseTip(ctx); err != nil {
		return Resolve{}, err
	}
	left, err := b.unmerged(ctx)
	if err != nil {
		return Resolve{}, err
	}
	if len(left) == 0 {
		if r.SnapshotID, err = m.start(ctx, b, strategy, r.BaseCommit); err != nil {
			return Resolve{}, err
		}
		if left, err = b.unmerged(ctx); err != nil {
			return Resolve{}, err
		}
	} else if op, err := b.operation(ctx); err != nil {
		return Resolve{}, err
	} else if op == StrategyRebase || op == StrategyMerge {
		r.Strategy = op
	}
	r.Files, r.Prompt = left, resolvePrompt(m.w, r.Base, r.Strategy, left)
	s.HeadMoved(m.w.ID)
	s.PublishWorkspace(ctx, m.w)
	return r, nil
}

// start begins the merge or rebase in the worktree.
func (m *merger) start(ctx context.Context, b *Sandbox, strategy, base string) (snapshotID string, err error) {
	head, branch, err := b.head(ctx)
	if err != nil {
		return "", err
	}
	if branch != m.w.Branch {
		return "", wrongBranch(m.w, branch)
	}
	if err := b.Idle(ctx); err != nil {
		return "", err
	}
	u := updater{merger: m, req: UpdateRequest{Strategy: strategy, DryRun: true}}
	if err := u.plan(ctx); err != nil {
		return "", err
	}
	if len(u.res.Conflicts) == 0 {
		return "", fault.New(fault.Conflict, "no_conflicts", "Nothing is in conflict with %s: update the branch.", m.target)
	}
	if head != u.res.Head {
		return "", headMovedOn(m.w)
	}
	// git begins neither over changes of tracked files that it would have to touch: they are told at once, and all of them.
	dirty, err := b.uncommitted(ctx, "no")
	if err != nil {
		return "", err
	}
	if len(dirty) > 0 {
		return "", fault.New(fault.Conflict, "files_in_the_way", "%s: commit or discard them first, then resolve the conflicts.",
			Plural(len(dirty), "file has uncommitted changes", "files have uncommitted changes")).With("paths", EncodePaths(dirty))
	}
	// Ignored files it writes over without a word, and no snapshot has them.
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
			Plural(len(unseen), "untracked or ignored file lies", "untracked or ignored files lie"), m.target).With("paths", EncodePaths(unseen))
	}
	kept, err := m.s.Keep(ctx, m.w.ID, KeepFor{Kind: "kept", Reason: "update", Title: "Before resolving conflicts with " + m.target, ActorID: m.actor.User.ID})
	if err != nil {
		return "", err
	}
	if err := m.s.supply(ctx, m.p, m.w, b, []string{base}); err != nil {
		return "", err
	}
	args := []string{"merge", "--no-ff", "--no-edit", "--no-stat", "--no-verify", "--no-autostash", "--no-gpg-sign", "-m", fmt.Sprintf("Merge branch '%s' into %s", m.target, m.w.Branch), base}
	if strategy == StrategyRebase {
		from, err := m.from(ctx, base, head)
		if err != nil {
			return "", err
		}
		args = []string{"rebase", "--no-autostash", "--no-verify", "--no-gpg-sign", "--no-stat", "--onto", base, from}
	}
	_, err = b.Git(context.WithoutCancel(ctx), nil, args...)
	killpoint.Reach(killpoint.ResolveBegun)
	if err == nil || boxCode(err) == 1 {
		return kept.ID, nil // conflicts; or git found a way where the plan had none
	}
	return kept.ID, SandboxFault(err, "update_failed", "Beginning the update in the workspace")
}

// onlyIn lists the files a commit has and another has not, as raw paths.
func (m *merger) onlyIn(ctx context.Context, commit, other string) ([]string, error) {
	out, err := m.desk.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", other, commit}, Max: 256 << 20})
	if err != nil {
		return nil, MergeFault(err)
	}
	return SplitZero(string(out)), nil
}

// AbortResolve gives up a merge or rebase that is under way in the worktree: branch and files are as they were before it.
func (s *Service) AbortResolve(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	w, p, release, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer release()
	b, err := s.openBox(ctx, w)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	op, err := b.operation(ctx)
	if err != nil {
		return err
	}
	if op != StrategyMerge && op != StrategyRebase {
		return nothingUnderWay()
	}
	if _, err := s.Keep(ctx, w.ID, KeepFor{Kind: "kept", Reason: "update", Title: "Before giving up a " + op, ActorID: actor.User.ID}); err != nil {
		return err
	}
	maps.Copy(b.env, identity("COMMITTER", actor.User))
	if _, err := b.Git(context.WithoutCancel(ctx), nil, op, "--abort"); err != nil {
		return SandboxFault(err, "update_failed", "Giving up the "+op)
	}
	killpoint.Reach(killpoint.ResolveGiven)
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: "Gave up the " + op})
	s.PublishWorkspace(ctx, w)
	return s.bringHome(ctx, p, w, b)
}

// FinishResolve ends a merge or rebase that is under way in the worktree: texts as they are there now, other files as they were decided. It
// returns the operation, and the files a rebase stopped at again. Errors: nothing_under_way, unresolved_conflicts, undecided_conflicts.
func (s *Service) FinishResolve(ctx context.Context, actor accounts.Actor, workspaceID string) (op string, left []string, err error) {
	w, p, release, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return "", nil, err
	}
	defer release()
	b, err := s.openBox(ctx, w)
	if err != nil {
		return "", nil, err
	}
	defer b.close(ctx)
	base, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return "", nil, err
	}
	cs, err := b.conflicts(ctx, base)
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
	if _, err := s.Keep(ctx, w.ID, KeepFor{Kind: "kept", Reason: "update", Title: "Before finishing a " + op, ActorID: actor.User.ID}); err != nil {
		return op, nil, err
	}
	if len(files) > 0 {
		if _, err := b.Git(ctx, []byte(strings.Join(files, "\x00")+"\x00"), "add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"); err != nil {
			return op, nil, SandboxFault(err, "update_failed", "Taking the resolved files")
		}
	}
	killpoint.Reach(killpoint.ResolveTaken)
	// By what is in them alone: of the other side may come a file of the same name.
	secrets, err := s.SecretFiles(ctx, w.ID)
	if err != nil {
		return op, nil, err
	}
	if err := (SecretFiles{Blobs: secrets.Blobs}).noSecret(func(args ...string) (string, error) { return b.Git(ctx, nil, args...) }); err != nil {
		return op, nil, err
	}
	maps.Copy(b.env, identity("COMMITTER", actor.User))
	args := []string{"rebase", "--continue"}
	if op == StrategyMerge {
		maps.Copy(b.env, identity("AUTHOR", actor.User))
		args = []string{"commit", "--quiet", "--no-edit", "--no-verify", "--no-gpg-sign"}
	}
	_, failed := b.gitEnv(context.WithoutCancel(ctx), map[string]string{"GIT_EDITOR": "true"}, nil, args...)
	killpoint.Reach(killpoint.ResolveEnded)
	if left, err = b.unmerged(context.WithoutCancel(ctx)); err != nil {
		return op, nil, err
	}
	if failed != nil && len(left) == 0 {
		return op, nil, SandboxFault(failed, "update_failed", "Finishing the "+op)
	}
	s.HeadMoved(w.ID)
	s.PublishWorkspace(ctx, w)
	if len(left) > 0 { // the next commit of a rebase
		return op, left, nil
	}
	s.Note(ctx, Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update", Text: "Finished the " + op})
	return op, nil, s.bringHome(ctx, p, w, b)
}

// finished lists the files that are taken from the folder when the operation is finished, and refuses what nobody has decided.
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
		return nil, fault.New(fault.Conflict, "undecided_conflicts", "%s no lines in which both sides could stand (%s): decide what is taken, then finish.",
			Plural(len(undecided), "file in conflict has", "files in conflict have"), namesOf(undecided)).With("paths", EncodePaths(undecided))
	}
	if len(marked) > 0 {
		paths := make([]string, len(marked))
		for i, m := range marked {
			paths[i] = m.Path
		}
		return nil, fault.New(fault.Conflict, "unresolved_conflicts", "%s <<<<<<< or >>>>>>> of a conflict left: %s. Resolve that first, then finish.",
			Plural(len(marked), "file has", "files have"), markedWords(marked)).With("paths", paths).With("marks", marked)
	}
	return files, nil
}

// unmerged lists the files with conflicts that are not resolved.
func (b *Sandbox) unmerged(ctx context.Context) ([]string, error) {
	list, err := b.stages(ctx, "--unmerged")
	return slices.Sorted(maps.Keys(list)), err
}

// resolvePrompt is what an agent is asked. Names of files are an agent's work, too: they are quoted, and cannot end their line.
func resolvePrompt(w Workspace, base, strategy string, files []string) string {
	var b strings.Builder
	how, end := "A merge of %s into %s is under way in this repository and stopped at conflicts in:\n", "git add each file, then finish with: git commit --no-edit"
	if strategy == StrategyRebase {
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
