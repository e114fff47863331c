package lifecycle

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Steps of a creation, in order.
const (
	stepFetch    = "fetch"
	stepWorktree = "worktree"
	stepCopy     = "copy_files"
	stepSandbox  = "sandbox"
	stepSetup    = "setup"
)

// States of a step.
const (
	StepPending   = "pending"
	StepRunning   = "running"
	StepDone      = "done"
	StepFailed    = "failed"
	StepCancelled = "cancelled"
	StepSkipped   = "skipped"
)

func newSteps() []workspaces.Step {
	return []workspaces.Step{
		{Name: stepFetch, Title: "Fetch the base branch", State: StepPending},
		{Name: stepWorktree, Title: "Make the worktree", State: StepPending},
		{Name: stepCopy, Title: "Copy ignored files", State: StepPending},
		{Name: stepSandbox, Title: "Start the sandbox", State: StepPending},
		{Name: stepSetup, Title: "Run the setup script", State: StepPending},
	}
}

// Outcome of a step that did not fail.
type Outcome struct {
	Detail  string
	Skipped bool
}

// build is the job that creates a workspace. It ends with the workspace ready, or failed with nothing left behind.
func (s *Service) build(ctx context.Context, workspaceID string) {
	err := s.buildSteps(ctx, workspaceID)
	if err == nil {
		err = s.finishBuild(ctx, workspaceID)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.failCreate(context.WithoutCancel(ctx), workspaceID, err)
	}
}

func (s *Service) buildSteps(ctx context.Context, workspaceID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	for _, st := range []struct {
		name  string
		limit time.Duration
		do    func(ctx context.Context) (Outcome, error)
	}{
		{stepFetch, s.cfg.FetchTimeout + s.cfg.GitTimeout, func(ctx context.Context) (Outcome, error) { return s.buildFetch(ctx, &p, &w) }},
		{stepWorktree, s.cfg.StepTimeout, func(ctx context.Context) (Outcome, error) { return s.buildWorktree(ctx, p, w) }},
		{stepCopy, s.cfg.StepTimeout, func(ctx context.Context) (Outcome, error) { return s.buildCopy(ctx, p, w) }},
		{stepSandbox, s.cfg.StepTimeout, func(ctx context.Context) (Outcome, error) { return s.buildSandbox(ctx, p, w) }},
		{stepSetup, s.cfg.SetupTimeout, func(ctx context.Context) (Outcome, error) { return s.buildSetup(ctx, p, w) }},
	} {
		if err := s.step(ctx, workspaceID, st.name, st.limit, st.do); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step under its limit and stores its times, state and detail in the row.
func (s *Service) step(ctx context.Context, workspaceID, name string, limit time.Duration, do func(ctx context.Context) (Outcome, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.setStep(ctx, workspaceID, name, func(st *workspaces.Step) {
		*st = workspaces.Step{Name: st.Name, Title: st.Title, State: StepRunning, StartedAt: s.records.Millis()}
	}); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := do(limited)
	if ctx.Err() != nil {
		return context.Cause(ctx) // failCreate marks the step
	}
	if err != nil && limited.Err() != nil && !fault.Is(err, fault.Timeout) {
		err = fault.Wrap(err, fault.Timeout, "step_timeout", "It took longer than %s and was stopped.", limit)
	}
	if err != nil {
		why := git.Reason(err)
		ended := s.setStep(context.WithoutCancel(ctx), workspaceID, name, func(st *workspaces.Step) { st.State, st.Detail, st.EndedAt = StepFailed, why, s.records.Millis() })
		if ended != nil { // failCreate ends the running steps, and says why
			s.cfg.Log.WarnContext(ctx, "how a step ended could not be stored", "workspace_id", workspaceID, "step", name, "error", ended)
		}
		return err
	}
	return s.setStep(ctx, workspaceID, name, func(st *workspaces.Step) {
		st.State, st.Detail, st.EndedAt = StepDone, out.Detail, s.records.Millis()
		if out.Skipped {
			st.State = StepSkipped
		}
	})
}

func (s *Service) setStep(ctx context.Context, workspaceID, name string, fn func(*workspaces.Step)) error {
	_, err := s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error {
		for i := range w.Steps {
			if w.Steps[i].Name == name {
				fn(&w.Steps[i])
			}
		}
		return nil
	})
	return err
}

// buildFetch fetches and resolves the base. If the fetch fails, it does not silently use what was known before: only a local branch, which
// is what was requested, may be used, and the step says so.
func (s *Service) buildFetch(ctx context.Context, p *workspaces.Project, w *workspaces.Workspace) (Outcome, error) {
	out := Outcome{Skipped: true}
	if git.ExactBase(w.Base) {
		out.Detail = "The local branch is used, without asking the remote."
	} else if p.SourceKind == workspaces.SourceSample || p.SourceKind == workspaces.SourceSandboxes {
		out.Detail = "The project has no remote."
	} else {
		did, err := s.ingest.Fetch(executors.As(ctx, "", w.CreatedBy), p)
		switch {
		case err != nil && ctx.Err() != nil:
			return out, err
		case err != nil:
			own := ""
			if p.SourceKind == workspaces.SourcePath {
				if own, _ = s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Base); own == "" {
					return out, err
				}
			}
			if own == "" {
				return out, err
			}
			out.Detail = fmt.Sprintf("%s is a branch of this folder and is used as it is. The remote could not be reached: %s", w.Base, git.Reason(err))
		case !did:
			out.Detail = "The repository has no remote."
		default:
			out.Skipped = false
		}
	}
	commit, note, err := s.repo.ResolveBase(ctx, *p, w.Base)
	if err != nil {
		return out, err
	}
	w.BaseCommit = commit
	out.Detail = strings.Join(slices.DeleteFunc([]string{out.Detail, note, "Starts at " + commit[:12] + "."}, func(s string) bool { return s == "" }), " ")
	_, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.BaseCommit = commit; return nil })
	return out, err
}

// buildWorktree creates branch and worktree. The branch and the ref that marks it as created here appear in one transaction, so that a
// clean-up after a crash never removes a branch somebody else made.
func (s *Service) buildWorktree(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Outcome, error) {
	if err := os.MkdirAll(s.repo.WorkspaceDir(w.ID), 0o700); err != nil {
		return Outcome{}, git.DiskFault(err, "Making the workspace's folder")
	}
	if err := s.addWorktree(ctx, p, w); err != nil {
		return Outcome{}, err
	}
	failpoint.Reach(failpoint.WorkspaceLinked)
	if err := s.checkout(ctx, p, w); err != nil {
		return Outcome{}, err
	}
	failpoint.Reach(failpoint.WorkspaceCheckedOut)
	return Outcome{Detail: "Branch " + w.Branch}, nil
}

func (s *Service) addWorktree(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.repo.ClaimBranch(ctx, p, w.Branch, w.ID); err != nil {
		return err
	}
	err = s.repo.UpdateRefs(ctx, p.GitDir, "create "+w.Key(), git.RefCreate(git.HeadsPrefix+w.Branch, w.BaseCommit), git.RefCreate(git.CreatingRef(w.ID), w.BaseCommit),
		git.RefSet(git.BaseRef(w.ID), w.BaseCommit))
	if err != nil {
		return git.GitFault(err, fault.Conflict, "branch_failed", "Making the branch "+w.Branch)
	}
	failpoint.Reach(failpoint.WorkspaceBranched)
	return s.linkWorktree(ctx, p, w)
}

// linkWorktree registers the worktree with its branch, without upstream and files. The caller holds the repository's lock.
func (s *Service) linkWorktree(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Passing: true, Args: []string{"worktree", "add", "--quiet", "--no-checkout", w.Path, w.Branch}})
	return git.GitFault(err, fault.Unavailable, "worktree_failed", "Making the worktree")
}

// checkout writes the files, with several workers.
func (s *Service) checkout(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	return s.checkoutTree(ctx, p, w, "HEAD")
}

// checkoutTree writes the files of a commit into the new worktree. Differences from its HEAD appear as uncommitted changes.
func (s *Service) checkoutTree(ctx context.Context, p workspaces.Project, w workspaces.Workspace, commit string) error {
	admin, err := git.AdminDir(p.GitDir, w.Path)
	if err != nil || admin == "" {
		return fault.Wrap(err, fault.Unavailable, "worktree_failed", "The repository does not know the new worktree.")
	}
	plain, err := s.merging.NoFilters(ctx, admin)
	if err != nil {
		return err
	}
	reported := s.cfg.Now()
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, WorkTree: w.Path, Timeout: s.cfg.StepTimeout, Passing: true, Env: plain,
		Config: []string{"checkout.workers=" + strconv.Itoa(s.cfg.CheckoutWorkers), "checkout.thresholdForParallelism=1"},
		Args:   []string{"read-tree", "--reset", "-u", "-v", commit},
		Progress: func(line string) {
			if now := s.cfg.Now(); now.Sub(reported) >= time.Second {
				reported = now
				_ = s.setStep(ctx, w.ID, stepWorktree, func(st *workspaces.Step) { st.Detail = line }) // for display only: the next line says more
			}
		}})
	if err == nil && commit != "HEAD" {
		_, err = s.git.Run(ctx, hostgit.Call{GitDir: admin, WorkTree: w.Path, Passing: true, Env: plain, Args: []string{"read-tree", "--reset", "HEAD"}})
	}
	if err != nil && git.NearlyFull(w.Path) { // git does not say why it could not write a file
		return fault.Wrap(err, fault.DiskFull, "disk_full", "Writing the files failed: the server's disk is full.")
	}
	return git.GitFault(err, fault.Unavailable, "checkout_failed", "Writing the files")
}

func (s *Service) buildCopy(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Outcome, error) {
	if len(p.CopyIgnored) == 0 {
		return Outcome{"The project names no files to copy.", true}, nil
	}
	if fi, err := os.Lstat(p.Source + "/.git"); p.Cloned() || err != nil || !fi.IsDir() {
		return Outcome{"The project has no folder of its own with ignored files.", true}, nil
	}
	names, err := s.repo.CopyIgnored(ctx, p, w.Path)
	if err != nil {
		return Outcome{}, err
	}
	if len(names) == 0 {
		return Outcome{"No such files in the project's folder.", true}, nil
	}
	for i := range names {
		names[i] = hostgit.Clean(names[i])
	}
	text := strings.Join(names[:min(len(names), 5)], ", ")
	if len(names) > 5 {
		text += fmt.Sprintf(" and %d more", len(names)-5)
	}
	return Outcome{Detail: text}, nil
}

func (s *Service) buildSandbox(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Outcome, error) {
	if p.SourceKind == workspaces.SourceSandboxes {
		return Outcome{"It is started for the purpose it is asked for.", true}, nil
	}
	places, _, err := s.records.Connected()
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{}, places.Ensure(executors.As(ctx, executors.ForAgent, w.CreatedBy), w.ID)
}

// buildSetup runs the project's setup script as a session that the team can watch.
func (s *Service) buildSetup(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Outcome, error) {
	if strings.TrimSpace(p.SetupScript) == "" {
		return Outcome{"The project has no setup script.", true}, nil
	}
	_, sessions, err := s.records.Connected()
	if err != nil {
		return Outcome{}, err
	}
	w, err = s.records.Edit(ctx, w.ID, func(w *workspaces.Workspace) error { w.State = workspaces.SettingUp; return nil })
	if err != nil {
		return Outcome{}, err
	}
	sid, err := sessions.StartSetup(ctx, w, p.SetupScript, transfer.SetupEnv(p, w))
	if err != nil {
		return Outcome{}, err
	}
	if err := s.setStep(ctx, w.ID, stepSetup, func(st *workspaces.Step) { st.SessionID = sid }); err != nil {
		return Outcome{}, err
	}
	code, why, err := sessions.WaitEnd(ctx, sid)
	if err != nil {
		return Outcome{}, err
	}
	if code != 0 {
		if why != "" {
			why = ": " + hostgit.Clean(why)
		}
		return Outcome{}, fault.New(fault.Conflict, "setup_failed", "The setup script ended with exit code %d%s. Its terminal shows why.", code, why)
	}
	return Outcome{}, nil
}

func (s *Service) finishBuild(ctx context.Context, workspaceID string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.WorkspaceBuilt)
	if _, err = s.records.Edit(ctx, workspaceID, func(w *workspaces.Workspace) error { w.State, w.StateReason = workspaces.Ready, ""; return nil }); err != nil {
		return err
	}
	failpoint.Reach(failpoint.WorkspaceReady)
	// From here on the branch belongs to the user: if the mark stays, it is only a superfluous ref.
	if err := s.repo.UpdateRefs(context.WithoutCancel(ctx), p.GitDir, "ready", git.RefDrop(git.CreatingRef(workspaceID))); err != nil {
		s.cfg.Log.WarnContext(ctx, "creation mark could not be removed", "workspace_id", workspaceID, "error", err)
	}
	return nil
}
