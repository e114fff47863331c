package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// errBaseMoved means that the base got another commit between planning and landing.
var errBaseMoved = errors.New("the base moved")

// mergeAttempts is how often a merge is recomputed when the base moves meanwhile.
const mergeAttempts = 4

// Merge merges the workspace's branch into its base, or returns in a dry run what that would do. It computes the result from objects alone,
// in a scratch repository, and lands it in one step: conflicts, a base that moved, or local changes in a folder that has the base checked
// out leave everything as it was.
func (s *Service) Merge(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.MergeRequest) (workspaces.MergeResult, error) {
	if !slices.Contains([]string{workspaces.StrategyMerge, workspaces.StrategySquash, workspaces.StrategyRebase}, r.Strategy) {
		return workspaces.MergeResult{}, fault.New(fault.Invalid, "strategy_invalid", "The strategy is merge, squash or rebase.")
	}
	if len(r.Message) > 64<<10 || !utf8.ValidString(r.Message) || strings.ContainsRune(r.Message, 0) {
		return workspaces.MergeResult{}, fault.New(fault.Invalid, "message_invalid", "The message must be text of at most 64 KiB.")
	}
	blocked := ""
	if err := s.gated(ctx, workspaceID); err != nil {
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Conflict || !r.DryRun {
			return workspaces.MergeResult{}, err
		}
		blocked = git.Reason(err)
	}
	m, release, err := s.Merger(ctx, actor, workspaceID, r)
	if err != nil {
		return workspaces.MergeResult{}, err
	}
	defer release()
	warnings := s.freshBase(ctx, &m.p, m.Target)
	warnings = append(warnings, s.workspaceWarnings(ctx, m.p, m.Workspace)...)
	if !r.DryRun { // rebasing a long branch takes time
		var end func()
		if ctx, end, err = s.repo.BeginWork(ctx, m.p, m.Workspace.ID, actor.User.ID, git.WorkMerge); err != nil {
			return workspaces.MergeResult{}, err
		}
		defer end()
	}
	for range mergeAttempts {
		res, err := m.plan(ctx)
		if err != nil {
			return workspaces.MergeResult{}, git.EndedBy(ctx, err)
		}
		res.Warnings, res.Blocked = append(slices.Clone(warnings), res.Warnings...), blocked
		if r.DryRun {
			return res, nil
		}
		if err := m.asSeen(res); err != nil {
			return workspaces.MergeResult{}, err
		}
		if res.UpToDate || len(res.Conflicts) > 0 {
			return res, nil
		}
		if err := m.noSecrets(ctx, res); err != nil {
			return workspaces.MergeResult{}, git.EndedBy(ctx, err)
		}
		failpoint.Reach(failpoint.MergePlanned)
		err = m.land(ctx, res)
		if errors.Is(err, errBaseMoved) {
			continue
		}
		if err != nil {
			return workspaces.MergeResult{}, git.EndedBy(ctx, err)
		}
		failpoint.Reach(failpoint.MergeLanded)
		res.Merged = true
		return res, m.keep(ctx, res)
	}
	return workspaces.MergeResult{}, fault.New(fault.Conflict, "base_moved", "%s keeps moving. Nothing was merged: try again in a moment.", m.Target)
}

// Merger locks the workspace for a merge, fetches what it committed and makes a scratch repository. Call release to undo that.
func (s *Service) Merger(ctx context.Context, actor accounts.Actor, workspaceID string, r workspaces.MergeRequest) (*merger, func(), error) {
	w, p, free, err := s.sandboxes.Begin(ctx, workspaceID)
	if err != nil {
		return nil, nil, err
	}
	m := &merger{s: s, actor: actor, p: p, Workspace: w, req: r}
	release := func() {
		if m.scratch != nil {
			_ = m.scratch.Close()
		}
		free()
	}
	if err = s.ingest.FetchCommits(ctx, p, w); err == nil {
		m.Target, err = s.repo.BranchTarget(ctx, p, w.Base)
	}
	if err == nil {
		m.scratch, err = s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
		err = git.GitFault(err, fault.Unavailable, "merge_failed", "Preparing the merge")
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return m, release, nil
}

// asSeen rejects a branch or base that is not the one the user saw.
func (m *merger) asSeen(res workspaces.MergeResult) error {
	switch {
	case m.req.ExpectedBase != "" && m.req.ExpectedBase != res.BaseCommit:
		return m.s.baseMoved(m.Target, m.req.ExpectedBase, res.BaseCommit)
	case m.req.ExpectedHead != "" && m.req.ExpectedHead != res.Head:
		return fault.New(fault.Conflict, "head_moved", "%s has commits you have not seen. Nothing was done: look at what would happen now, then decide again.", m.Workspace.Branch).
			With("expected", m.req.ExpectedHead).With("head", res.Head)
	}
	return nil
}

// baseMoved is the error that the base is not the one the user saw.
func (s *Service) baseMoved(base, expected, now string) error {
	return fault.New(fault.Conflict, "base_moved", "%s moved since you looked. Nothing was done: look at what would happen now, then decide again.", base).
		With("base", base).With("expected", expected).With("base_commit", now)
}

// freshBase brings a cloned project's base up to date and returns warnings if it could not.
func (s *Service) freshBase(ctx context.Context, p *workspaces.Project, target string) []string {
	if !p.Cloned() {
		return nil
	}
	if s.records.Millis()-p.FetchedAt > mergeFetchAge {
		if _, err := s.ingest.Fetch(ctx, p); err != nil {
			return []string{fmt.Sprintf("The remote could not be reached, so the local %s is used. %s", target, git.Reason(err))}
		}
	}
	ahead, behind, err := s.repo.StepBase(ctx, *p, target)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%s could not be brought up to date with the remote: %s", target, git.Reason(err))}
	case ahead > 0 && behind > 0:
		return []string{fmt.Sprintf("The local %s and origin/%s have diverged: %s only local, %s only on the remote. Merge origin/%s into the workspace's branch in the terminal to join them.",
			target, target, git.Plural(ahead, "commit", "commits"), git.Plural(behind, "commit", "commits"), target)}
	}
	return nil
}

// mergeFetchAge is how old a fetch may be, in ms, before a merge asks the remote again.
const mergeFetchAge = 30_000

// workspaceWarnings lists the workspace's work that a merge would not include. It stays where it is.
func (s *Service) workspaceWarnings(ctx context.Context, p workspaces.Project, w workspaces.Workspace) []string {
	if s.sandboxes.Asleep(ctx, w) {
		return s.asleepWarnings(ctx, p, w)
	}
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return []string{"Uncommitted changes of the workspace could not be checked: " + git.Reason(err)}
	}
	var out []string
	if _, branch, err := b.Head(ctx); err == nil {
		out = elsewhere(w, branch)
	}
	paths, err := b.Uncommitted(ctx, "normal")
	return append(out, uncommittedWords(len(paths), err)...)
}

// asleepWarnings are workspaceWarnings of a remote workspace whose sandbox is not asked, from what the host knows.
func (s *Service) asleepWarnings(ctx context.Context, p workspaces.Project, w workspaces.Workspace) []string {
	var out []string
	if s.sandboxes.Unsynced(ctx, w.ID) {
		out = append(out, sandboxgit.UnsyncedWords)
	}
	if home := s.sandboxes.ReadSyncState(w.ID); home.Head != "" {
		out = append(out, elsewhere(w, home.Branch)...)
	}
	paths, err := s.sandboxes.LocalChanges(ctx, p, w)
	return append(out, uncommittedWords(len(paths), err)...)
}

// elsewhere warns about a folder that is not on the workspace's branch.
func elsewhere(w workspaces.Workspace, branch string) []string {
	if branch == w.Branch {
		return nil
	}
	at := "a detached HEAD"
	if branch != "" {
		at = "the branch " + branch
	}
	return []string{fmt.Sprintf("The workspace's folder is on %s: commits made there are not part of %s and are not merged.", at, w.Branch)}
}

// uncommittedWords warns about changes that a merge leaves where they are.
func uncommittedWords(n int, err error) []string {
	switch {
	case err != nil:
		return []string{"Uncommitted changes of the workspace could not be checked: " + git.Reason(err)}
	case n > 0:
		return []string{fmt.Sprintf("%s in the workspace will not be merged; they stay as they are.", git.Plural(n, "uncommitted change", "uncommitted changes"))}
	}
	return nil
}

// merger is one merge.
type merger struct {
	s         *Service
	scratch   *hostgit.Scratch
	actor     accounts.Actor
	p         workspaces.Project
	Workspace workspaces.Workspace
	Target    string // the local branch that is merged into
	req       workspaces.MergeRequest
	brief     bool // list only the files of conflicts
}

// noSecrets rejects a result that contains part of a secret.
func (m *merger) noSecrets(ctx context.Context, res workspaces.MergeResult) error {
	return m.s.secretFiles.NoSecrets(ctx, m.Workspace, m.scratch, "merged", res.Commit, "^"+res.BaseCommit)
}

// keep records a merge that has landed. The merged result is the new base of the workspace's changes, in whatever form it landed.
func (m *merger) keep(ctx context.Context, res workspaces.MergeResult) error {
	ctx = context.WithoutCancel(ctx)
	s := m.s
	if err := s.repo.UpdateRefs(ctx, m.p.GitDir, "merged "+m.Workspace.Key(), git.RefSet(git.BaseRef(m.Workspace.ID), res.Head)); err != nil {
		s.cfg.Log.WarnContext(ctx, "base ref could not be moved", "workspace_id", m.Workspace.ID, "error", err)
	}
	_, err := s.records.Edit(ctx, m.Workspace.ID, func(w *workspaces.Workspace) error {
		w.MergedAt, w.MergedCommit, w.BaseCommit = s.records.Millis(), res.Commit, res.Head
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording the merge: %w", err)
	}
	how := map[string]string{workspaces.StrategyMerge: "Merged", workspaces.StrategySquash: "Squashed", workspaces.StrategyRebase: "Rebased"}[res.Strategy]
	s.records.Note(ctx, workspaces.Activity{TeamID: m.Workspace.TeamID, WorkspaceID: m.Workspace.ID, ActorID: m.actor.User.ID, Kind: "merge",
		Text: fmt.Sprintf("%s %s into %s (%s)", how, git.Plural(res.Commits, "commit", "commits"), m.Target, res.Commit[:12]),
		Data: workspaces.Attach(map[string]any{"strategy": res.Strategy, "base": m.Target, "base_commit": res.BaseCommit, "head": res.Head, "commit": res.Commit}, m.req.Artifacts)})
	s.records.PublishProject(ctx, m.p)
	s.ingest.ProjectMoved(ctx, m.p)
	return nil
}
