package merge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// plan computes the merge as objects, which no ref refers to until it lands.
func (m *merger) plan(ctx context.Context) (workspaces.MergeResult, error) {
	res := workspaces.MergeResult{DryRun: m.req.DryRun, Strategy: m.req.Strategy, Base: m.Target, Conflicts: []workspaces.Conflict{}, Warnings: []string{}}
	var err error
	if res.Head, err = m.s.repo.CommitOf(ctx, m.p.GitDir, git.HeadsPrefix+m.Workspace.Branch); err != nil {
		return res, err
	}
	if res.Head == "" {
		return res, fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", m.Workspace.Branch)
	}
	if res.BaseCommit, err = m.BaseTip(ctx); err != nil {
		return res, err
	}
	from, err := m.from(ctx, res.BaseCommit, res.Head)
	if err != nil {
		return res, err
	}
	if res.Commits, err = m.count(ctx, res.Head, "^"+res.BaseCommit, "^"+from); err != nil {
		return res, err
	}
	if res.Commits == 0 {
		res.UpToDate, res.Commit = true, res.BaseCommit
		return res, nil
	}
	switch m.req.Strategy {
	case workspaces.StrategyRebase:
		err = m.planRebase(ctx, &res, from)
	default:
		err = m.planMerge(ctx, &res, from)
	}
	if err != nil || len(res.Conflicts) > 0 {
		return res, err
	}
	if res.Commit == res.BaseCommit {
		res.UpToDate = true
		return res, nil
	}
	// The agent's commits may contain names no checkout accepts, such as .git/config: they must not reach the base. git checks names when
	// it reads a tree into an index.
	if _, err := m.scratch.Text(ctx, "read-tree", res.Commit); err != nil {
		return res, git.GitFault(err, fault.Conflict, "tree_unsafe", "Checking the names of the merged files")
	}
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", res.BaseCommit, res.Commit}})
	if err != nil {
		return res, MergeFault(err)
	}
	res.Files = strings.Count(string(out), "\x00")
	return res, nil
}

// MergeFault gives a git error in a merge its code and text.
func MergeFault(err error) error {
	return git.GitFault(err, fault.Unavailable, "merge_failed", "Merging")
}

// BaseTip is the head of the target branch. A target that only the remote has starts at the remote's.
func (m *merger) BaseTip(ctx context.Context) (string, error) {
	for _, name := range [...]string{git.HeadsPrefix + m.Target, "refs/remotes/" + strings.TrimPrefix(m.Workspace.Base, "refs/remotes/")} {
		c, err := m.s.repo.CommitOf(ctx, m.p.GitDir, name)
		if err != nil || c != "" {
			return c, err
		}
	}
	return "", fault.New(fault.Conflict, "base_missing", "The branch %s no longer exists in the project.", m.Target)
}

// from is the commit from which the branch's work counts: where it left the base, or what of it was merged before. The latter keeps a
// branch that was squashed or rebased into its base mergeable: its old commits are not applied a second time.
func (m *merger) from(ctx context.Context, base, head string) (string, error) {
	mb, err := m.scratch.Text(ctx, "merge-base", base, head)
	if err != nil && hostgit.ExitCode(err) != 1 {
		return "", MergeFault(err)
	}
	if err != nil || !git.IsCommitID(mb) {
		return "", fault.New(fault.Conflict, "unrelated", "%s and %s have no commit in common.", m.Workspace.Branch, m.Target)
	}
	if m.Workspace.MergedAt == 0 || m.Workspace.BaseCommit == mb {
		return mb, nil
	}
	for _, pair := range [...][2]string{{head, m.Workspace.BaseCommit}, {base, m.Workspace.MergedCommit}, {m.Workspace.BaseCommit, mb}} {
		if ok, err := m.has(ctx, pair[0], pair[1]); err != nil || !ok {
			return mb, err
		}
	}
	return m.Workspace.BaseCommit, nil
}

// has reports whether the commit descendant contains ancestor.
func (m *merger) has(ctx context.Context, descendant, ancestor string) (bool, error) {
	_, err := m.scratch.Text(ctx, "merge-base", "--is-ancestor", ancestor, descendant)
	switch code := hostgit.ExitCode(err); {
	case err == nil:
		return true, nil
	case code == 1 || code == 128: // 128: a commit that no longer exists
		return false, nil
	}
	return false, MergeFault(err)
}

func (m *merger) count(ctx context.Context, args ...string) (int, error) {
	out, err := m.scratch.Text(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return 0, MergeFault(err)
	}
	return strconv.Atoi(out)
}

func (m *merger) tree(ctx context.Context, commit string) (string, error) {
	t, err := m.scratch.Text(ctx, "rev-parse", "--verify", "--quiet", commit+"^{tree}")
	return t, MergeFault(err)
}

// planMerge makes the merge or squash commit, or fast-forwards where that is equivalent.
func (m *merger) planMerge(ctx context.Context, res *workspaces.MergeResult, from string) error {
	onTop, err := m.has(ctx, res.Head, res.BaseCommit)
	if err != nil {
		return err
	}
	if onTop && m.req.Strategy == workspaces.StrategyMerge && strings.TrimSpace(m.req.Message) == "" {
		res.Commit, res.FastForward = res.Head, true
		return nil
	}
	var tree string
	if onTop {
		tree, err = m.tree(ctx, res.Head)
	} else {
		tree, err = m.bring(ctx, res, from, res.BaseCommit, res.Head)
	}
	if err != nil || len(res.Conflicts) > 0 {
		return err
	}
	parents := []string{res.BaseCommit}
	if m.req.Strategy == workspaces.StrategyMerge {
		parents = append(parents, res.Head)
	} else {
		was, err := m.tree(ctx, res.BaseCommit)
		if err != nil {
			return err
		}
		if was == tree {
			res.Commit = res.BaseCommit // the base already has everything
			return nil
		}
	}
	message := m.req.Message
	if strings.TrimSpace(message) == "" {
		if message, err = m.message(ctx, *res, from); err != nil {
			return err
		}
	}
	res.Commit, err = m.commit(ctx, tree, message, IdentityEnv(m.actor.User, "AUTHOR", "COMMITTER"), parents...)
	return err
}

// threeWay merges trees with a base of our choice. git 2.39 has no option for that, so the three get a small synthetic history in which
// base is the common ancestor.
func (m *merger) threeWay(ctx context.Context, res *workspaces.MergeResult, base, ours, theirs string) (string, error) {
	root, err := m.synthetic(ctx, base)
	if err != nil {
		return "", err
	}
	a, err := m.synthetic(ctx, ours, root)
	if err != nil {
		return "", err
	}
	b, err := m.synthetic(ctx, theirs, root)
	if err != nil {
		return "", err
	}
	if a == b { // the same tree on both sides
		return m.tree(ctx, ours)
	}
	return m.mergeTree(ctx, res, a, b)
}

// synthetic makes a commit with the tree of another. Fixed times make it reproducible.
func (m *merger) synthetic(ctx context.Context, of string, parents ...string) (string, error) {
	tree, err := m.tree(ctx, of)
	if err != nil {
		return "", err
	}
	return m.commit(ctx, tree, "parawork: one side of a merge", []string{"GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_DATE=@1 +0000"}, parents...)
}

// mergeTree merges two commits as git would and returns the tree; conflicts go into res.
func (m *merger) mergeTree(ctx context.Context, res *workspaces.MergeResult, ours, theirs string) (string, error) {
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--messages", ours, theirs}})
	if err != nil && hostgit.ExitCode(err) != 1 {
		return "", MergeFault(err)
	}
	tree, rest, _ := strings.Cut(string(out), "\x00")
	if !git.IsCommitID(tree) {
		return "", fmt.Errorf("merge-tree answered %.100q", tree)
	}
	if err != nil {
		res.Conflicts = git.ParseConflicts(rest)
		m.showConflicts(ctx, res.Conflicts, tree, ours, theirs)
	}
	return tree, nil
}

// commit makes a commit object in the scratch repository.
func (m *merger) commit(ctx context.Context, tree, message string, env []string, parents ...string) (string, error) {
	args := []string{"commit-tree", "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: append(args, tree), Env: env, Stdin: strings.NewReader(sandboxgit.TidyMessage(message))})
	if err != nil {
		return "", MergeFault(err)
	}
	id := strings.TrimSpace(string(out))
	if !git.IsCommitID(id) {
		return "", fmt.Errorf("commit-tree answered %.100q", id)
	}
	return id, nil
}
