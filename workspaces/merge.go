package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/killpoint"
)

// errBaseMoved says that the base got another commit between looking and landing.
var errBaseMoved = errors.New("the base moved")

// mergeAttempts is how often a merge is computed anew when the base moves meanwhile.
const mergeAttempts = 4

// Merge brings the workspace's branch into its base, or says in a dry run what that would do. The result is computed from
// objects alone, on a desk of ours, and lands in one step: conflicts, a base that moved, or local changes in a folder that has
// the base checked out leave everything as it was.
func (s *Service) Merge(ctx context.Context, actor accounts.Actor, workspaceID string, r MergeRequest) (MergeResult, error) {
	if !slices.Contains([]string{StrategyMerge, StrategySquash, StrategyRebase}, r.Strategy) {
		return MergeResult{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	}
	if len(r.Message) > 64<<10 || !utf8.ValidString(r.Message) || strings.ContainsRune(r.Message, 0) {
		return MergeResult{}, fault.New(fault.Invalid, "message_invalid", "The message must be text of at most 64 KiB.")
	}
	blocked := ""
	if err := s.gated(ctx, workspaceID); err != nil {
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Conflict || !r.DryRun {
			return MergeResult{}, err
		}
		blocked = Reason(err)
	}
	m, release, err := s.merger(ctx, actor, workspaceID, r)
	if err != nil {
		return MergeResult{}, err
	}
	defer release()
	warnings := s.freshBase(ctx, &m.p, m.target)
	warnings = append(warnings, s.workspaceWarnings(ctx, m.p, m.w)...)
	if !r.DryRun { // the rebase of a long branch takes its time
		var end func()
		if ctx, end, err = s.BeginWork(ctx, m.p, m.w.ID, actor.User.ID, WorkMerge); err != nil {
			return MergeResult{}, err
		}
		defer end()
	}
	for range mergeAttempts {
		res, err := m.plan(ctx)
		if err != nil {
			return MergeResult{}, endedBy(ctx, err)
		}
		res.Warnings, res.Blocked = append(slices.Clone(warnings), res.Warnings...), blocked
		if r.DryRun {
			return res, nil
		}
		if err := m.asSeen(res); err != nil {
			return MergeResult{}, err
		}
		if res.UpToDate || len(res.Conflicts) > 0 {
			return res, nil
		}
		if err := m.noSecrets(ctx, res); err != nil {
			return MergeResult{}, endedBy(ctx, err)
		}
		killpoint.Reach(killpoint.MergePlanned)
		err = m.land(ctx, res)
		if errors.Is(err, errBaseMoved) {
			continue
		}
		if err != nil {
			return MergeResult{}, endedBy(ctx, err)
		}
		killpoint.Reach(killpoint.MergeLanded)
		res.Merged = true
		return res, m.keep(ctx, res)
	}
	return MergeResult{}, fault.New(fault.Conflict, "base_moved", "%s keeps moving. Nothing was merged: try again in a moment.", m.target)
}

// merger takes the workspace for a merge, brings home what it committed and sets up a desk. release gives it all back.
func (s *Service) merger(ctx context.Context, actor accounts.Actor, workspaceID string, r MergeRequest) (*merger, func(), error) {
	w, p, free, err := s.Begin(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	m := &merger{s: s, actor: actor, p: p, w: w, req: r}
	release := func() {
		if m.desk != nil {
			_ = m.desk.Close()
		}
		free()
	}
	if err = s.ComeHome(ctx, p, w); err == nil {
		m.target, err = s.BranchTarget(ctx, p, w.Base)
	}
	if err == nil {
		m.desk, err = s.git.Desk(ctx, s.TmpDir(), p.GitDir)
		err = GitFault(err, fault.Unavailable, "merge_failed", "Preparing the merge")
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return m, release, nil
}

// asSeen refuses what is not what was shown to who asks.
func (m *merger) asSeen(res MergeResult) error {
	switch {
	case m.req.ExpectedBase != "" && m.req.ExpectedBase != res.BaseCommit:
		return m.s.baseMoved(m.target, m.req.ExpectedBase, res.BaseCommit)
	case m.req.ExpectedHead != "" && m.req.ExpectedHead != res.Head:
		return fault.New(fault.Conflict, "head_moved", "%s has commits you have not seen. Nothing was done: look at what would happen now, then decide again.", m.w.Branch).
			With("expected", m.req.ExpectedHead).With("head", res.Head)
	}
	return nil
}

// baseMoved says that the base is not what somebody was shown.
func (s *Service) baseMoved(base, expected, now string) error {
	return fault.New(fault.Conflict, "base_moved", "%s moved since you looked. Nothing was done: look at what would happen now, then decide again.", base).
		With("base", base).With("expected", expected).With("base_commit", now)
}

// freshBase brings a cloned project's base up to date and says what kept it from being so.
func (s *Service) freshBase(ctx context.Context, p *Project, target string) []string {
	if !p.cloned() {
		return nil
	}
	if s.Millis()-p.FetchedAt > mergeFetchAge {
		if _, err := s.Fetch(ctx, p); err != nil {
			return []string{fmt.Sprintf("The remote could not be asked, %s is as it is here. %s", target, Reason(err))}
		}
	}
	ahead, behind, err := s.StepBase(ctx, *p, target)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s could not be brought up to date with the remote: %s", target, Reason(err))}
	case ahead > 0 && behind > 0:
		return []string{fmt.Sprintf("%s here and origin/%s have parted: %s only here, %s only there. Merge origin/%s into the workspace's branch in the terminal to join them.",
			target, target, Plural(ahead, "commit", "commits"), Plural(behind, "commit", "commits"), target)}
	}
	return nil
}

// mergeFetchAge is how many ms old a fetch may be before a merge asks the remote again.
const mergeFetchAge = 30_000

// workspaceWarnings says what of the workspace's work a merge would not take along. It stays where it is.
func (s *Service) workspaceWarnings(ctx context.Context, p Project, w Workspace) []string {
	if s.asleep(ctx, w) {
		return s.asleepWarnings(ctx, p, w)
	}
	b, err := s.openBox(ctx, w)
	if err != nil {
		return []string{"Whether the workspace has uncommitted changes could not be seen: " + Reason(err)}
	}
	var out []string
	if _, branch, err := b.head(ctx); err == nil {
		out = elsewhere(w, branch)
	}
	paths, err := b.uncommitted(ctx, "normal")
	return append(out, uncommittedWords(len(paths), err)...)
}

// asleepWarnings are workspaceWarnings of a far workspace whose sandbox is not asked: as the host knows it.
func (s *Service) asleepWarnings(ctx context.Context, p Project, w Workspace) []string {
	var out []string
	if s.Unseen(ctx, w.ID) {
		out = append(out, unseenWords)
	}
	if home := s.readHome(w.ID); home.Head != "" {
		out = append(out, elsewhere(w, home.Branch)...)
	}
	paths, err := s.LocalChanges(ctx, p, w)
	return append(out, uncommittedWords(len(paths), err)...)
}

// elsewhere warns of a folder that is not on the workspace's branch.
func elsewhere(w Workspace, branch string) []string {
	if branch == w.Branch {
		return nil
	}
	at := "a detached HEAD"
	if branch != "" {
		at = "the branch " + branch
	}
	return []string{fmt.Sprintf("The workspace's folder is on %s: commits made there are not part of %s and are not merged.", at, w.Branch)}
}

// uncommittedWords warns of what a merge leaves where it is.
func uncommittedWords(n int, err error) []string {
	switch {
	case err != nil:
		return []string{"Whether the workspace has uncommitted changes could not be seen: " + Reason(err)}
	case n > 0:
		return []string{fmt.Sprintf("%s in the workspace will not be merged; they stay as they are.", Plural(n, "uncommitted change", "uncommitted changes"))}
	}
	return nil
}

// uncommitted lists what differs from HEAD in the worktree, untracked files included.
func (b *Sandbox) uncommitted(ctx context.Context, untracked string) ([]string, error) {
	out, err := b.Git(ctx, nil, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files="+untracked, "--ignore-submodules=none")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Reading the worktree")
	}
	var paths []string
	for _, e := range strings.Split(out, "\x00") {
		if len(e) > 3 {
			paths = append(paths, e[3:])
		}
	}
	return paths, nil
}

// merger is one merge.
type merger struct {
	s      *Service
	desk   *hostgit.Desk
	actor  accounts.Actor
	p      Project
	w      Workspace
	target string // the local branch that is merged into
	req    MergeRequest
	brief  bool // of conflicts only the files are asked for
}

// noSecrets refuses to land what holds something of a secret.
func (m *merger) noSecrets(ctx context.Context, res MergeResult) error {
	return m.s.NoSecrets(ctx, m.w, m.desk, "merged", res.Commit, "^"+res.BaseCommit)
}

// keep notes a merge that has landed. What was merged is the new base of the workspace's changes, whatever form it landed in.
func (m *merger) keep(ctx context.Context, res MergeResult) error {
	ctx = context.WithoutCancel(ctx)
	s := m.s
	if err := s.UpdateRefs(ctx, m.p.GitDir, "merged "+m.w.Key(), RefSet(BaseRef(m.w.ID), res.Head)); err != nil {
		s.cfg.Log.WarnContext(ctx, "base ref could not be moved", "workspace_id", m.w.ID, "error", err)
	}
	_, err := s.Edit(ctx, m.w.ID, func(w *Workspace) error {
		w.MergedAt, w.MergedCommit, w.BaseCommit = s.Millis(), res.Commit, res.Head
		return nil
	})
	if err != nil {
		return fmt.Errorf("noting the merge: %w", err)
	}
	how := map[string]string{StrategyMerge: "Merged", StrategySquash: "Squashed", StrategyRebase: "Rebased"}[res.Strategy]
	s.Note(ctx, Activity{TeamID: m.w.TeamID, WorkspaceID: m.w.ID, ActorID: m.actor.User.ID, Kind: "merge",
		Text: fmt.Sprintf("%s %s into %s (%s)", how, Plural(res.Commits, "commit", "commits"), m.target, res.Commit[:12]),
		Data: map[string]any{"strategy": res.Strategy, "base": m.target, "base_commit": res.BaseCommit, "head": res.Head, "commit": res.Commit}})
	s.PublishProject(ctx, m.p)
	s.ProjectMoved(ctx, m.p)
	return nil
}
