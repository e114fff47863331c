package merge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// maxUpdateFiles is how many files of an update are listed.
const maxUpdateFiles = 2_000

// Update brings the base into the workspace's branch, or returns in a dry run what that would do. It computes the result from objects
// alone, in a scratch repository, and then puts it into the worktree where the agent works. Uncommitted changes stay; those in files that
// the base changed too are reapplied on top if they merge cleanly. Conflicts and files in the way leave everything as it was. Errors:
// base_moved, branch_switched, operation_in_progress, worktree_moved, head_moved.
func (s *Service) Update(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.UpdateRequest) (workspaces.UpdateResult, error) {
	if r.Strategy != workspaces.StrategyMerge && r.Strategy != workspaces.StrategyRebase {
		return workspaces.UpdateResult{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge or rebase.")
	}
	if r.DryRun {
		return s.update(ctx, actor, workspaceID, r)
	}
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.UpdateResult{}, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.UpdateResult{}, err
	}
	ctx, end, err := s.repo.BeginWork(ctx, p, w.ID, actor.User.ID, git.WorkUpdate)
	if err != nil {
		return workspaces.UpdateResult{}, err
	}
	defer end()
	res, err := s.update(ctx, actor, workspaceID, r)
	return res, git.EndedBy(ctx, err)
}

func (s *Service) update(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.UpdateRequest) (workspaces.UpdateResult, error) {
	m, release, err := s.Merger(ctx, actor, workspaceID, workspaces.MergeRequest{Strategy: r.Strategy})
	if err != nil {
		return workspaces.UpdateResult{}, err
	}
	defer release()
	warnings := s.freshBase(ctx, &m.p, m.Target)
	u := updater{merger: m, req: r}
	if err := u.plan(ctx); err != nil {
		return workspaces.UpdateResult{}, err
	}
	u.res.Warnings = append(warnings, u.res.Warnings...)
	if !r.DryRun && r.ExpectedBase != "" && r.ExpectedBase != u.res.BaseCommit {
		return workspaces.UpdateResult{}, s.baseMoved(m.Target, r.ExpectedBase, u.res.BaseCommit)
	}
	if u.res.UpToDate || len(u.res.Conflicts) > 0 {
		return u.res, nil
	}
	if r.DryRun {
		return u.res, u.look(ctx)
	}
	if err := u.apply(ctx); err != nil || !u.res.Updated {
		return u.res, err
	}
	return u.res, u.note(ctx)
}

// updater is one update.
type updater struct {
	*merger
	req     workspaces.UpdateRequest
	join    *join // nil = the base is brought in
	res     workspaces.UpdateResult
	touched map[string]bool // raw paths that differ between Head and Commit
	added   []string        // those of them that Head lacks
}

// plan computes the new state of the branch.
func (u *updater) plan(ctx context.Context) error {
	u.res = workspaces.UpdateResult{DryRun: u.req.DryRun, Strategy: u.req.Strategy, Base: u.Target, Conflicts: []workspaces.Conflict{}}
	var err error
	if u.res.Head, err = u.s.repo.CommitOf(ctx, u.p.GitDir, git.HeadsPrefix+u.Workspace.Branch); err != nil {
		return err
	}
	if u.res.Head == "" {
		return fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", u.Workspace.Branch)
	}
	if u.join != nil {
		u.res.BaseCommit = u.join.tip
	} else if u.res.BaseCommit, err = u.BaseTip(ctx); err != nil {
		return err
	}
	if u.res.Commits, err = u.count(ctx, u.res.BaseCommit, "^"+u.res.Head); err != nil {
		return err
	}
	if u.res.Commits == 0 {
		u.res.UpToDate, u.res.Commit = true, u.res.Head
		return nil
	}
	scratch := workspaces.MergeResult{Head: u.res.Head, BaseCommit: u.res.BaseCommit}
	if err = u.planResult(ctx, &scratch); err != nil {
		return err
	}
	u.res.Warnings = append(u.res.Warnings, scratch.Warnings...)
	if len(scratch.Conflicts) > 0 {
		u.res.Conflicts, u.res.Commit = scratch.Conflicts, ""
		return nil
	}
	if _, err := u.scratch.Text(ctx, "read-tree", u.res.Commit); err != nil { // git checks names here, see merger.plan
		return git.GitFault(err, fault.Conflict, "tree_unsafe", "Checking the names of the files")
	}
	return u.files(ctx)
}

// planResult makes the new head of the branch.
func (u *updater) planResult(ctx context.Context, scratch *workspaces.MergeResult) error {
	if u.join != nil {
		return u.planJoin(ctx, scratch)
	}
	from, err := u.from(ctx, u.res.BaseCommit, u.res.Head)
	if err != nil {
		return err
	}
	if u.req.Strategy != workspaces.StrategyRebase {
		return u.planUpdate(ctx, scratch, from)
	}
	err = u.planRebase(ctx, scratch, from)
	u.res.Commit = scratch.Commit
	return err
}

// planUpdate makes the merge commit, or fast-forwards to the base if the branch has no commits of its own.
func (u *updater) planUpdate(ctx context.Context, scratch *workspaces.MergeResult, from string) error {
	plain, err := u.has(ctx, u.res.BaseCommit, u.res.Head)
	if err != nil {
		return err
	}
	if plain {
		u.res.Commit, u.res.FastForward = u.res.BaseCommit, true
		return nil
	}
	tree, err := u.bring(ctx, scratch, from, u.res.Head, u.res.BaseCommit)
	if err != nil || len(scratch.Conflicts) > 0 {
		return err
	}
	u.res.Commit, err = u.commit(ctx, tree, fmt.Sprintf("Merge branch '%s' into %s", u.Target, u.Workspace.Branch), IdentityEnv(u.actor.User, "AUTHOR", "COMMITTER"),
		u.res.Head, u.res.BaseCommit)
	return err
}

// files lists what the update changes.
func (u *updater) files(ctx context.Context) error {
	out, err := u.scratch.Run(ctx, hostgit.Call{Args: []string{"diff-tree", "-r", "-z", "--name-status", "--no-renames", u.res.Head, u.res.Commit}, Max: 256 << 20})
	if err != nil {
		return MergeFault(err)
	}
	words := map[string]string{"A": "added", "D": "deleted"}
	u.touched, u.added = make(map[string]bool), nil
	f := strings.Split(string(out), "\x00")
	for ; len(f) >= 2; f = f[2:] {
		u.touched[f[1]] = true
		if f[0] == "A" {
			u.added = append(u.added, f[1])
		}
		if len(u.res.Files) == maxUpdateFiles {
			u.res.MoreFiles++
			continue
		}
		word := cmp.Or(words[f[0]], "modified")
		u.res.Files = append(u.res.Files, workspaces.FileStatus{Path: f[1], Status: word})
	}
	return nil
}

// inTheWay returns those of paths that collide with the update's files: the same, a parent or a child.
func (u *updater) inTheWay(paths []string) []string {
	above := make(map[string]bool) // parent folders of touched files
	for t := range u.touched {
		for i := strings.LastIndexByte(t, '/'); i > 0; i = strings.LastIndexByte(t[:i], '/') {
			if above[t[:i]] {
				break
			}
			above[t[:i]] = true
		}
	}
	var out []string
	for _, p := range paths {
		p = strings.TrimSuffix(p, "/")
		hit := u.touched[p] || above[p]
		for i := strings.LastIndexByte(p, '/'); i > 0 && !hit; i = strings.LastIndexByte(p[:i], '/') {
			hit = u.touched[p[:i]]
		}
		if hit {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// look finds what in the worktree is in the way. It changes nothing there.
func (u *updater) look(ctx context.Context) error {
	if u.s.sandboxes.Asleep(ctx, u.Workspace) {
		paths, err := u.s.sandboxes.LocalChanges(ctx, u.p, u.Workspace)
		if err != nil {
			u.res.Warnings = append(u.res.Warnings, "Uncommitted changes of the workspace could not be checked: "+git.Reason(err))
			return nil
		}
		if way := u.inTheWay(paths); len(way) > 0 {
			u.res.Dirty = way
			u.res.Warnings = append(u.res.Warnings, "The workspace's sandbox is suspended: whether these changes merge cleanly is checked when it runs.")
		}
		return nil
	}
	b, err := u.s.sandboxes.Open(ctx, u.Workspace)
	if err != nil {
		u.res.Warnings = append(u.res.Warnings, "Uncommitted changes of the workspace could not be checked: "+git.Reason(err))
		return nil
	}
	defer b.Close(ctx)
	if _, branch, err := b.Head(ctx); err == nil {
		u.res.Warnings = append(u.res.Warnings, elsewhere(u.Workspace, branch)...)
	}
	if err := b.Idle(ctx); err != nil {
		u.res.Warnings = append(u.res.Warnings, git.Reason(err))
		return nil
	}
	_, _, err = u.carry(ctx, b)
	return err
}

// carry finds the uncommitted changes in files that the update touches. If they merge cleanly, over is a commit of all current files and
// onto one of all resulting files; both are "" when there are no such changes. What does not merge is in res.Dirty.
func (u *updater) carry(ctx context.Context, b *sandboxgit.Sandbox) (over, onto string, err error) {
	paths, err := b.Uncommitted(ctx, "all")
	if err != nil {
		return "", "", err
	}
	way := u.inTheWay(paths)
	if u.res.Dirty, err = u.unseenFiles(ctx, b, way); err != nil || len(u.res.Dirty) > 0 {
		return "", "", err
	}
	if len(way) == 0 && (u.join == nil || !u.join.mixed) {
		return "", "", nil
	}
	if unmerged, err := b.Git(ctx, nil, "ls-files", "--unmerged", "-z"); err != nil {
		return "", "", git.SandboxFault(err, "worktree_unreadable", "Reading the index")
	} else if unmerged != "" {
		u.res.Dirty = way
		return "", "", nil
	}
	now, err := snapshot.Everything(ctx, b, "parawork: before an update of "+u.Workspace.Key())
	if err != nil {
		return "", "", err
	}
	if now.Head != u.res.Head {
		return "", "", headMovedOn(u.Workspace)
	}
	if err := u.s.sandboxes.FetchCommits(ctx, u.p, u.Workspace, b, now.Commit); err != nil {
		return "", "", err
	}
	var scratch workspaces.MergeResult
	base, theirs := u.res.Head, u.res.Commit
	if u.join != nil && u.join.began != "" {
		base, theirs = u.join.began, u.join.tip
	}
	tree, err := u.threeWay(ctx, &scratch, base, now.Commit, theirs)
	if err != nil {
		return "", "", err
	}
	for _, c := range scratch.Conflicts {
		u.res.Dirty = append(u.res.Dirty, c.Path)
	}
	if len(u.res.Dirty) > 0 {
		return "", "", nil
	}
	onto, err = u.commit(ctx, tree, "parawork: uncommitted changes on top of an update", []string{"GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_DATE=@1 +0000"}, u.res.Commit)
	u.res.Carried = way
	return now.Commit, onto, err
}

func headMovedOn(w workspaces.Workspace) error {
	return fault.New(fault.Conflict, "head_moved", "The agent committed to %s at the same moment. Nothing was changed: look again, then update.", w.Branch)
}

// note records a finished update.
func (u *updater) note(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s := u.s
	// The branch now has all of the base: its changes count from there.
	if err := s.repo.UpdateRefs(ctx, u.p.GitDir, "updated "+u.Workspace.Key(), git.RefSet(git.BaseRef(u.Workspace.ID), u.res.BaseCommit)); err != nil {
		s.cfg.Log.WarnContext(ctx, "base ref could not be moved", "workspace_id", u.Workspace.ID, "error", err)
	}
	failpoint.Reach(failpoint.UpdateBased)
	if _, err := s.records.Edit(ctx, u.Workspace.ID, func(w *workspaces.Workspace) error { w.BaseCommit = u.res.BaseCommit; return nil }); err != nil {
		return fmt.Errorf("recording the update: %w", err)
	}
	how := "Merged " + u.Target + " into the branch"
	if u.res.Strategy == workspaces.StrategyRebase {
		how = "Rebased the branch onto " + u.Target
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: u.Workspace.TeamID, WorkspaceID: u.Workspace.ID, ActorID: u.actor.User.ID, Kind: "update",
		Text: fmt.Sprintf("%s (%s)", how, git.Plural(u.res.Commits, "commit", "commits")),
		Data: map[string]any{"strategy": u.res.Strategy, "base": u.Target, "base_commit": u.res.BaseCommit, "head": u.res.Head, "commit": u.res.Commit}})
	s.ingest.HeadMoved(u.Workspace.ID)
	return nil
}
