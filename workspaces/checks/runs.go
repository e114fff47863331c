package checks

import (
	"cmp"
	"context"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Standing is the state of one check.
type Standing struct {
	Check workspaces.Check
	State State
	Run   *Run // its newest run
}

// Overview is the state of a workspace's checks.
type Overview struct {
	State   State
	Items   []Standing
	History []Run // the newest first
}

// historyShown is how many runs an Overview lists.
const historyShown = 30

// Start runs checks of the workspace's project on its current files; those named, or all. It cancels their earlier runs.
func (s *Service) Start(ctx context.Context, userID, workspaceID string, checkIDs []string) error {
	w, _, list, err := s.named(ctx, workspaceID, checkIDs)
	if err != nil {
		return err
	}
	_, _, err = s.begin(ctx, userID, w, list)
	return err
}

// named returns a workspace in which checks can run, its project, and the checks that are named, or all.
func (s *Service) named(ctx context.Context, workspaceID string, checkIDs []string) (workspaces.Workspace, workspaces.Project, []workspaces.Check, error) {
	w, p, err := s.of(ctx, workspaceID)
	if err != nil {
		return w, p, nil, err
	}
	if w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused {
		return w, p, nil, fault.New(fault.Conflict, "workspace_not_ready", "%s is not ready: checks run in its sandbox.", w.Key())
	}
	var list []workspaces.Check
	for _, c := range p.Checks {
		if len(checkIDs) == 0 || slices.Contains(checkIDs, c.ID) {
			list = append(list, c)
		}
	}
	switch {
	case len(p.Checks) == 0:
		return w, p, nil, fault.New(fault.Conflict, "no_checks", "The project has no checks. An admin adds them in the project's settings.")
	case len(checkIDs) > 0 && len(list) < len(slices.Compact(slices.Sorted(slices.Values(checkIDs)))):
		return w, p, nil, fault.New(fault.NotFound, "check_not_found", "The project has no such check any more. Load the page again.").With("field", "check_ids")
	}
	return w, p, list, nil
}

// AfterTurn runs the checks that the project runs when an agent's turn ends.
func (s *Service) AfterTurn(workspaceID string) {
	s.start(func() {
		w, p, err := s.of(s.life, workspaceID)
		if err != nil || w.DeletedAt != 0 || w.State != workspaces.Ready {
			return
		}
		list := slices.DeleteFunc(slices.Clone(p.Checks), func(c workspaces.Check) bool { return !c.AfterTurn })
		if len(list) == 0 {
			return
		}
		if _, _, err := s.begin(s.life, "", w, list); err != nil {
			s.cfg.Log.Warn("checks could not be begun after a turn", "workspace_id", workspaceID, "error", err)
		}
	})
}

func (s *Service) of(ctx context.Context, workspaceID string) (workspaces.Workspace, workspaces.Project, error) {
	w, err := s.cfg.Records.Workspace(ctx, workspaceID)
	if err != nil {
		return w, workspaces.Project{}, err
	}
	p, err := s.cfg.Records.Project(ctx, w.ProjectID)
	return w, p, err
}

// begin stores runs of these checks and starts them. ended is closed when all have ended.
func (s *Service) begin(ctx context.Context, userID string, w workspaces.Workspace, list []workspaces.Check) (runs []Run, ended <-chan struct{}, err error) {
	open, err := s.cfg.Store.CheckRuns(ctx, w.ID, keepRuns)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range open {
		if r.QueueID == "" && !r.State.Ended() && slices.ContainsFunc(list, func(c workspaces.Check) bool { return c.ID == r.CheckID }) {
			if _, err := s.Cancel(ctx, r.ID); err != nil {
				return nil, nil, err
			}
		}
	}
	batch, now := id.New("bat"), s.now()
	for i, c := range list {
		runs = append(runs, Run{ID: id.New("cru"), TeamID: w.TeamID, WorkspaceID: w.ID, ProjectID: w.ProjectID, BatchID: batch, CheckID: c.ID, Name: c.Name,
			Command: c.Command, Required: c.Required, State: RunWaiting, StartedBy: userID, CreatedAt: now + int64(i)}) // preserves their order
	}
	if err := s.cfg.Store.InsertCheckRuns(ctx, runs); err != nil {
		return nil, nil, err
	}
	if err := s.cfg.Store.DropCheckRuns(ctx, w.ID, keepRuns); err != nil {
		s.cfg.Log.WarnContext(ctx, "old runs of checks could not be forgotten", "workspace_id", w.ID, "error", err)
	}
	s.publish(ctx, "checks.updated", w.ID, w.ID, w.TeamID)
	done := make(chan struct{})
	s.start(func() {
		defer close(done)
		s.batch(runs)
	})
	return runs, done, nil
}

// Get returns a run with its stored output.
func (s *Service) Get(ctx context.Context, id string) (Run, error) {
	return s.cfg.Store.CheckRun(ctx, id)
}

// Output returns the output of a run so far: its end, at most MaxOutput bytes. cut reports whether there was more.
func (s *Service) Output(ctx context.Context, runID string) (text string, cut bool, err error) {
	r, err := s.Get(ctx, runID)
	if err != nil || r.State.Ended() || r.CommandID == "" {
		return r.Output, r.Truncated, err
	}
	c, err := s.cfg.Commands.Command(ctx, r.CommandID)
	if fault.Is(err, fault.NotFound) {
		return r.Output, r.Truncated, nil
	}
	text, cut = ending(c.Stdout)
	return text, cut || c.Truncated, err
}

// Cancel ends a run. It does not change one that has ended.
func (s *Service) Cancel(ctx context.Context, runID string) (Run, error) {
	r, err := s.edit(ctx, runID, func(r *Run) error {
		if !r.State.Ended() {
			r.State, r.Reason, r.EndedAt = RunCancelled, "", s.now()
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	s.cancel(runID, errCancelled) // the goroutine that follows it ends its command
	return r, nil
}

// Overview returns the state of the workspace's checks for its current files, as far as the server knows without asking its sandbox.
func (s *Service) Overview(ctx context.Context, workspaceID string) (Overview, error) {
	w, p, err := s.of(ctx, workspaceID)
	if err != nil {
		return Overview{}, err
	}
	runs, err := s.cfg.Store.CheckRuns(ctx, workspaceID, keepRuns)
	if err != nil {
		return Overview{}, err
	}
	now, err := s.cfg.Store.FilesNow(ctx, w.TeamID, w.ID)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{History: runs[:min(len(runs), historyShown)]}
	o.Items = stand(p.Checks, runs, now[w.ID].Tree)
	o.State = sum(o.Items)
	return o, nil
}

// Standing returns the state of the project's checks for a tree, or a commit, of the workspace.
func (s *Service) Standing(ctx context.Context, workspaceID, tree string) (State, []Standing, error) {
	_, p, err := s.of(ctx, workspaceID)
	if err != nil {
		return None, nil, err
	}
	runs, err := s.cfg.Store.CheckRuns(ctx, workspaceID, keepRuns)
	if err != nil {
		return None, nil, err
	}
	items := stand(p.Checks, runs, tree)
	return sum(items), items, nil
}

// States returns the state of the checks of each workspace of the team that has runs.
func (s *Service) States(ctx context.Context, teamID string, checks func(projectID string) []workspaces.Check, workspaceIDs ...string) (map[string]State, error) {
	runs, err := s.cfg.Store.LatestRuns(ctx, teamID, workspaceIDs...)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	now, err := s.cfg.Store.FilesNow(ctx, teamID, workspaceIDs...)
	if err != nil {
		return nil, err
	}
	by := map[string][]Run{}
	for _, r := range runs {
		by[r.WorkspaceID] = append(by[r.WorkspaceID], r)
	}
	out := make(map[string]State, len(by))
	for id, runs := range by {
		out[id] = sum(stand(checks(runs[0].ProjectID), runs, now[id].Tree))
	}
	return out, nil
}

// stand returns the state of each check for a tree or commit; "" = unknown, and the newest runs count. runs are the newest first.
func stand(list []workspaces.Check, runs []Run, tree string) []Standing {
	out := make([]Standing, 0, len(list))
	for _, c := range list {
		st := Standing{Check: c, State: None}
		for i := range runs {
			r := &runs[i]
			if r.CheckID != c.ID || r.QueueID != "" {
				continue
			}
			st.Run = cmp.Or(st.Run, r)
			if s := standsFor(*r, c, tree); st.State == None || st.State == Stale && s != Stale {
				st.State = s
			}
			if st.State != Stale {
				break
			}
		}
		out = append(out, st)
	}
	return out
}

// standsFor returns the state that one run proves for a tree.
func standsFor(r Run, c workspaces.Check, tree string) State {
	switch {
	case r.State == RunWaiting:
		return Waiting
	case r.State == RunRunning:
		return Running
	case r.Command != c.Command, r.Tree == "", tree != "" && r.Tree != tree && r.Commit != tree:
		return Stale
	case r.State == RunPassed:
		return Passed
	case r.State == RunFailed, r.State == RunTimedOut:
		return Failed
	}
	return Stale // cancelled, lost
}

// sum combines the states of all checks.
func sum(items []Standing) State {
	has := map[State]bool{}
	for _, i := range items {
		has[i.State] = true
	}
	for _, s := range [...]State{Running, Waiting, Failed} {
		if has[s] {
			return s
		}
	}
	switch {
	case has[Stale] || has[Passed] && has[None]:
		return Stale
	case has[Passed]:
		return Passed
	}
	return None
}

// Gate returns why the workspace's branch must not be merged manually now, nil when it may.
func (s *Service) Gate(ctx context.Context, w workspaces.Workspace) error {
	p, err := s.cfg.Records.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	m := p.Merging
	if m.Queue {
		return fault.New(fault.Conflict, "merge_queue_required", "The project merges through its queue. Add the workspace to the queue: it is merged when its turn comes.")
	}
	if !m.RequireChecks && !m.RequireApproval {
		return nil
	}
	commit, tree, err := s.cfg.Sandboxes.BranchNow(ctx, w.ID)
	if err != nil {
		return err
	}
	if m.RequireChecks {
		runs, err := s.cfg.Store.CheckRuns(ctx, w.ID, keepRuns)
		if err != nil {
			return err
		}
		byTree, byCommit := stand(p.Checks, runs, tree), stand(p.Checks, runs, commit)
		for i, st := range byTree {
			if st.Check.Required && st.State != Passed && byCommit[i].State != Passed {
				return notPassed(st)
			}
		}
	}
	return s.approved(ctx, p, w, tree)
}

// GateOf is Gate for a merge on a forge, which lands the named commit: it must be the one that was judged.
func (s *Service) GateOf(ctx context.Context, w workspaces.Workspace, head string) error {
	if err := s.Gate(ctx, w); err != nil {
		return err
	}
	p, err := s.cfg.Records.Project(ctx, w.ProjectID)
	if err != nil || !p.Merging.RequireChecks && !p.Merging.RequireApproval {
		return err
	}
	commit, _, err := s.cfg.Sandboxes.BranchNow(ctx, w.ID)
	if err == nil && commit != head {
		err = fault.New(fault.Conflict, "head_moved", "The commit to be merged there is not the one %s is at here, to which the project's rules were applied. Push or fetch, then look at it again.", w.Branch)
	}
	return err
}

func (s *Service) approved(ctx context.Context, p workspaces.Project, w workspaces.Workspace, tree string) error {
	if !p.Merging.RequireApproval {
		return nil
	}
	if s.cfg.Approved != nil {
		if ok, err := s.cfg.Approved(ctx, w.ID, tree); err != nil || ok {
			return err
		}
	}
	return fault.New(fault.Conflict, "approval_required", "The project requires an approval of exactly what is merged. Commit everything, then have somebody approve it in Changes.")
}

func notPassed(st Standing) error {
	what := "did not run on exactly what is merged. Commit everything, then run the checks"
	switch st.State {
	case Failed:
		what = "failed. Look at its output, have it fixed, commit and run the checks again"
	case Running, Waiting:
		what = "has not ended yet. Wait for it"
	}
	return fault.New(fault.Conflict, "checks_required", "The check %q %s.", st.Check.Name, what).With("check", st.Check.Name).With("state", string(st.State))
}

// mayMerge reports whether a user is still allowed to merge the workspace.
func mayMerge(a accounts.Actor, w workspaces.Workspace) error {
	return accounts.Can(a, accounts.MergeWorkspace, accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private})
}
