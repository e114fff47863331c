package merge

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// maxReplay is how many commits a rebase replays.
const maxReplay = 5000

// planRebase replays the branch's commits on the base, one by one, as objects. Each is a three-way merge of the commit into the previous
// result with the commit's parent as the base. It stops at the first conflict.
func (m *merger) planRebase(ctx context.Context, res *workspaces.MergeResult, from string) error {
	merges, err := m.count(ctx, "--merges", res.Head, "^"+res.BaseCommit, "^"+from)
	if err != nil {
		return err
	}
	if onTop, err := m.has(ctx, res.Head, res.BaseCommit); err != nil {
		return err
	} else if onTop && merges == 0 {
		res.Commit, res.FastForward = res.Head, true
		return nil
	}
	out, err := m.scratch.Text(ctx, "rev-list", "--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick",
		res.BaseCommit+"..."+res.Head, "^"+from)
	if err != nil {
		return MergeFault(err)
	}
	commits := strings.Fields(out)
	if len(commits) > maxReplay {
		return fault.New(fault.TooLarge, "too_many_commits", "A rebase replays at most %d commits, the branch has %d. Use merge or squash.", maxReplay, len(commits))
	}
	if merges > 0 {
		res.Warnings = append(res.Warnings, "The branch holds merge commits: a rebase leaves them out and replays the others.")
	}
	tip, notify := res.BaseCommit, m.s.repo.ProgressOf(ctx)
	for i, c := range commits {
		if notify != nil {
			notify(fmt.Sprintf("Rebasing (%d/%d)", i+1, len(commits)))
		}
		next, err := m.replay(ctx, res, c, tip)
		if err != nil {
			return err
		}
		if len(res.Conflicts) > 0 {
			res.Warnings = append(res.Warnings, "The first commit that conflicts is "+c[:12]+".")
			return nil
		}
		tip = next
	}
	res.Commit = tip
	return nil
}

// replay recreates the commit on tip. It skips one whose change is already in tip.
func (m *merger) replay(ctx context.Context, res *workspaces.MergeResult, commit, tip string) (string, error) {
	parent, err := m.scratch.Text(ctx, "rev-parse", "--verify", "--quiet", commit+"^1")
	if hostgit.ExitCode(err) > 0 {
		parent, err = m.emptyCommit(ctx)
	}
	if err != nil {
		return "", MergeFault(err)
	}
	if parent == tip {
		return commit, nil
	}
	tree, err := m.threeWay(ctx, res, parent, tip, commit)
	if err != nil || len(res.Conflicts) > 0 {
		return "", err
	}
	tipTree, err := m.tree(ctx, tip)
	if err != nil {
		return "", err
	}
	if tree == tipTree {
		wasTree, err := m.tree(ctx, commit)
		if err != nil {
			return "", err
		}
		if parentTree, err := m.tree(ctx, parent); err != nil || parentTree != wasTree {
			return tip, err
		}
	}
	message, env, err := m.authorship(ctx, commit)
	if err != nil {
		return "", err
	}
	return m.commit(ctx, tree, message, env, tip)
}

// authorship reads a commit's author, time and message; the user who merges becomes its committer.
func (m *merger) authorship(ctx context.Context, commit string) (message string, env []string, err error) {
	out, err := m.scratch.Run(ctx, hostgit.Call{Config: []string{"i18n.logOutputEncoding=UTF-8"},
		Args: []string{"log", "-1", "--no-notes", "--no-mailmap", "--date=raw", "--format=%an%x00%ae%x00%ad%x00%B", commit, "--"}})
	if err != nil {
		return "", nil, MergeFault(err)
	}
	f := strings.SplitN(string(out), "\x00", 4)
	if len(f) != 4 {
		return "", nil, MergeFault(&hostgit.Error{Sub: "log", Stderr: "unexpected answer"})
	}
	name, email := sandboxgit.CleanIdent(f[0]), sandboxgit.CleanIdent(f[1])
	name = cmp.Or(name, "unknown")
	email = cmp.Or(email, "unknown@localhost")
	env = append(IdentityEnv(m.actor.User, "COMMITTER"), "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email)
	if f[2] != "" {
		env = append(env, "GIT_AUTHOR_DATE=@"+f[2])
	}
	return f[3], env, nil
}

// emptyCommit is a commit without files, the parent of root commits.
func (m *merger) emptyCommit(ctx context.Context) (string, error) {
	out, err := m.scratch.Run(ctx, hostgit.Call{Args: []string{"mktree"}, Stdin: strings.NewReader("")})
	if err != nil {
		return "", err
	}
	return m.commit(ctx, strings.TrimSpace(string(out)), "parawork: nothing", []string{"GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_DATE=@1 +0000"})
}
