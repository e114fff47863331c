package checks

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// Project returns a workspace and the checks of its project.
func (s *Service) Project(ctx context.Context, workspaceID string) (workspaces.Workspace, []workspaces.Check, error) {
	w, p, err := s.of(ctx, workspaceID)
	return w, p.Checks, err
}

// RunNow runs checks as Start does, waits for their ends, and returns the runs with their outputs. When ctx ends, it cancels them and waits
// until they have stopped.
func (s *Service) RunNow(ctx context.Context, userID, workspaceID string, checkIDs []string) ([]Run, error) {
	w, _, list, err := s.named(ctx, workspaceID, checkIDs)
	if err != nil {
		return nil, err
	}
	runs, ended, err := s.begin(ctx, userID, w, list)
	if err != nil {
		return nil, err
	}
	select {
	case <-ended:
	case <-s.life.Done():
	case <-ctx.Done():
		for _, r := range runs {
			if _, err := s.Cancel(context.WithoutCancel(ctx), r.ID); err != nil {
				s.cfg.Log.WarnContext(ctx, "a run of a check could not be cancelled", "run_id", r.ID, "error", err)
			}
		}
		select {
		case <-ended:
		case <-s.life.Done():
		case <-s.cfg.After(cancelPatience):
		}
		return nil, context.Cause(ctx)
	}
	if s.life.Err() != nil {
		return nil, errNoAnswer
	}
	for i, r := range runs {
		if runs[i], err = s.cfg.Store.CheckRun(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// cancelPatience is how long a cancelled caller waits for commands to stop.
const cancelPatience = 15 * time.Second

var errNoAnswer = fault.New(fault.Unavailable, "checks_interrupted", "The server is stopping. The checks go on in the sandbox, and the workspace's page shows how they ended.")

// Baselines returns how checks ended on the commit that the workspace is based on, by their ids, as far as they ran there.
func (s *Service) Baselines(ctx context.Context, workspaceID string) (map[string]Run, error) {
	w, p, err := s.of(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	runs, err := s.cfg.Store.CheckRuns(ctx, workspaceID, keepRuns)
	if err != nil {
		return nil, err
	}
	out := map[string]Run{}
	for _, c := range p.Checks {
		for _, r := range runs { // the newest first
			decided := r.State == RunPassed || r.State == RunFailed || r.State == RunTimedOut
			if r.QueueID == Baseline && r.CheckID == c.ID && r.Command == c.Command && r.Commit == w.BaseCommit && decided {
				out[c.ID] = r
				break
			}
		}
	}
	return out, nil
}

// RunBaseline runs the project's setup script and these checks on the commit that the workspace is based on, in a separate folder of its
// sandbox, and waits for their ends. When ctx ends, it cancels them.
func (s *Service) RunBaseline(ctx context.Context, userID, workspaceID string, checkIDs []string) error {
	w, p, list, err := s.named(ctx, workspaceID, checkIDs)
	if err != nil {
		return err
	}
	leave, ok := s.scope.Enter()
	if !ok {
		return errNoAnswer
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errStopping) })()
	p.Checks = make([]workspaces.Check, len(list))
	for i, c := range list {
		c.Required = false // one that fails does not keep the others from running
		p.Checks[i] = c
	}
	return s.checkMerged(ctx, p, w, Entry{ID: Baseline, Base: w.Base, Commit: w.BaseCommit, AddedBy: userID})
}
