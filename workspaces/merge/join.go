package merge

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// join is another workspace's branch that is brought into a workspace.
type join struct {
	tip   string // its head
	began string // the commit of the files that both began with; "" = where their branches part
	head  string // the head of those files
	// mixed means that the new commit has uncommitted changes of the workspace, with which the other one began: what is in the worktree now
	// decides over them.
	mixed bool
}

// Join merges the branch of another workspace of the project into a workspace, the way Update brings in the base: uncommitted changes stay,
// and conflicts or files in the way leave everything as it was; the other branch's head can then be merged in the workspace. Errors: workspace_not_found, branch_missing, and those of Update.
func (s *Service) Join(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.JoinRequest) (workspaces.UpdateResult, error) {
	var none workspaces.UpdateResult
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return none, err
	}
	target, tip, err := s.tipOf(ctx, w, r.From)
	if err != nil {
		return none, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return none, err
	}
	ctx, end, err := s.repo.BeginWork(ctx, p, w.ID, actor.User.ID, git.WorkUpdate)
	if err != nil {
		return none, err
	}
	defer end()
	m, release, err := s.Merger(ctx, actor, workspaceID, workspaces.MergeRequest{Strategy: workspaces.StrategyMerge})
	if err != nil {
		return none, git.EndedBy(ctx, err)
	}
	defer release()
	m.Target = target
	u := updater{merger: m, req: workspaces.UpdateRequest{Strategy: workspaces.StrategyMerge}, join: &join{tip: tip, began: r.Began, head: r.BeganHead}}
	if err = u.plan(ctx); err == nil && !u.res.UpToDate && len(u.res.Conflicts) == 0 {
		err = u.apply(ctx)
	}
	if err == nil && !u.res.Updated && !u.res.UpToDate {
		err = u.offer(ctx)
	}
	if err != nil {
		return none, git.EndedBy(ctx, err)
	}
	if u.res.Updated {
		s.records.Note(context.WithoutCancel(ctx), workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, ActorID: actor.User.ID, Kind: "update",
			Text: fmt.Sprintf("Merged %s into the branch (%s)", target, git.Plural(u.res.Commits, "commit", "commits")),
			Data: map[string]any{"strategy": u.res.Strategy, "base": target, "base_commit": tip, "head": u.res.Head, "commit": u.res.Commit}})
		s.ingest.HeadMoved(w.ID)
	}
	return u.res, nil
}

// tipOf returns the branch of another workspace of w's project, and its head, after fetching what was committed there.
func (s *Service) tipOf(ctx context.Context, w workspaces.Workspace, otherID string) (branch, tip string, err error) {
	other, p, release, err := s.sandboxes.Begin(ctx, otherID)
	if err != nil {
		return "", "", err
	}
	defer release()
	if other.ProjectID != w.ProjectID || other.ID == w.ID {
		return "", "", fault.New(fault.NotFound, "workspace_not_found", "The project has no such other workspace.")
	}
	if err := s.ingest.FetchCommits(ctx, p, other); err != nil {
		return "", "", err
	}
	tip, err = s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+other.Branch)
	if err == nil && tip == "" {
		err = fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", other.Branch)
	}
	return other.Branch, tip, err
}

// offer makes the other branch's head known to the workspace's own git, so that its agent can merge it and resolve the conflicts. The
// sandbox may not have that branch, or has it as one of origin.
func (u *updater) offer(ctx context.Context) error {
	if u.s.sandboxes.Asleep(ctx, u.Workspace) {
		return nil
	}
	b, err := u.s.sandboxes.Open(ctx, u.Workspace)
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	return u.s.sandboxes.Supply(ctx, u.p, u.Workspace, b, []string{u.join.tip})
}

// planJoin merges the other branch. Where the files that both began with are known, only what was done since then is brought in:
// uncommitted changes of this workspace that the other one has committed stay uncommitted here.
func (u *updater) planJoin(ctx context.Context, scratch *workspaces.MergeResult) error {
	parted, err := u.scratch.Text(ctx, "merge-base", u.res.Head, u.join.tip)
	if err != nil && hostgit.ExitCode(err) != 1 {
		return MergeFault(err)
	}
	if err != nil || !git.IsCommitID(parted) {
		return fault.New(fault.Conflict, "unrelated", "%s and %s have no commit in common.", u.Workspace.Branch, u.Target)
	}
	if err := u.sinceBeginning(ctx, parted); err != nil {
		return err
	}
	if u.join.began == "" {
		return u.planUpdate(ctx, scratch, parted)
	}
	tree, err := u.threeWay(ctx, scratch, u.join.began, u.res.Head, u.join.tip)
	if err != nil {
		return err
	}
	if len(scratch.Conflicts) > 0 { // perhaps because it changed uncommitted changes of this workspace
		scratch.Conflicts, u.join.mixed = nil, true
		if tree, err = u.bring(ctx, scratch, parted, u.res.Head, u.join.tip); err != nil || len(scratch.Conflicts) > 0 {
			return err
		}
	}
	u.res.Commit, err = u.commit(ctx, tree, fmt.Sprintf("Merge branch '%s' into %s", u.Target, u.Workspace.Branch), IdentityEnv(u.actor.User, "AUTHOR", "COMMITTER"), u.res.Head, u.join.tip)
	return err
}

// sinceBeginning drops the files that both began with where they say nothing: git no longer has them, they have no uncommitted changes, or
// the other branch was merged since.
func (u *updater) sinceBeginning(ctx context.Context, parted string) error {
	began := u.join.began
	u.join.began = ""
	if !git.IsCommitID(began) || !git.IsCommitID(u.join.head) {
		return nil
	}
	files, err := u.scratch.Text(ctx, "rev-parse", "--verify", "--quiet", began+"^{tree}")
	if err != nil {
		return nil //nolint:nilerr // the snapshot has expired
	}
	if onIt, err := u.has(ctx, u.join.head, parted); err != nil || !onIt {
		return err
	}
	committed, err := u.tree(ctx, u.join.head)
	if err == nil && files != committed {
		u.join.began = began
	}
	return err
}

// title is that of the snapshot before an update.
func (u *updater) title() string {
	if u.join != nil {
		return "Before merging " + u.Target
	}
	return "Before the update from " + u.Target
}
