package runs

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces"
)

// attempt continues one attempt from wherever an earlier server left it: it checks for the result of each step before doing it,
// so that no workspace is created and no agent started twice.
func (s *Service) attempt(ctx context.Context, r Run, a Attempt, again bool) {
	actor, err := s.cfg.Accounts.Actor(ctx, r.CreatedBy)
	if err == nil && a.WorkspaceID == "" {
		a.WorkspaceID, err = s.makeWorkspace(ctx, actor, r, a)
		if err == nil {
			failpoint.Reach(failpoint.RunMade)
			s.keep(ctx, r, &a, Making)
		}
	}
	if err == nil {
		err = s.ready(ctx, a.WorkspaceID, again && a.Made)
	}
	if err == nil {
		was := a
		if a.State != Starting {
			s.keep(ctx, r, &a, Starting)
			was = a
		}
		a.SessionID, err = s.start(ctx, actor, r, was)
	}
	switch {
	case ctx.Err() != nil: // the next server continues
	case err != nil:
		s.cfg.Log.Warn("attempt of a run failed", "run_id", r.ID, "attempt", a.Num, "error", err)
		a.fail(err)
		s.keep(ctx, r, &a, Failed)
	default:
		failpoint.Reach(failpoint.RunStarted)
		s.keep(ctx, r, &a, Started)
	}
}

// keep stores the progress of an attempt, as soon as the store works.
func (s *Service) keep(ctx context.Context, r Run, a *Attempt, state State) {
	a.State, a.StateAt = state, s.cfg.Now().UnixMilli()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := s.cfg.Store.UpdateAttempt(ctx, *a)
		if err == nil {
			s.publish(r)
			return
		}
		if !tasks.Sleep(ctx, wait) {
			return
		}
		s.cfg.Log.Error("attempt of a run could not be stored", "run_id", r.ID, "attempt", a.Num, "error", err)
	}
}

// makeWorkspace creates the attempt's workspace, unless an earlier server did and died before it recorded that.
func (s *Service) makeWorkspace(ctx context.Context, actor accounts.Actor, r Run, a Attempt) (string, error) {
	now, err := s.cfg.Store.Run(ctx, r.ID)
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, other := range now.Attempts {
		taken[other.WorkspaceID] = true
	}
	newest, _, err := s.cfg.Records.List(ctx, r.TeamID, workspaces.Filter{ProjectID: r.ProjectID}, page.Page{Limit: 200})
	if err != nil {
		return "", err
	}
	for _, w := range newest {
		if w.Name == a.Name && w.CreatedBy == r.CreatedBy && w.CreatedAt >= r.CreatedAt && !taken[w.ID] {
			return w.ID, nil
		}
	}
	w, err := s.cfg.Workspaces.Create(ctx, actor, r.TeamID, workspaces.NewWorkspace{ProjectID: r.ProjectID, Name: a.Name, Base: a.Base, Executor: a.Executor})
	return w.ID, err
}

// ready waits until the workspace is ready. A creation that an earlier server began and did not finish is begun once more.
func (s *Service) ready(ctx context.Context, workspaceID string, again bool) error {
	for {
		w, err := s.cfg.Records.Workspace(ctx, workspaceID)
		switch {
		case err != nil:
			return err
		case w.DeletedAt != 0 || w.State == workspaces.Archived:
			return fault.New(fault.Conflict, "workspace_not_ready", "Its workspace was archived before the agent could start.")
		case w.State == workspaces.Failed && again:
			again = false
			if _, err := s.cfg.Workspaces.RetryCreate(ctx, workspaceID); err != nil {
				return err
			}
		case w.State == workspaces.Failed:
			return fault.New(fault.Conflict, "workspace_not_made", "Its workspace could not be created: %s", w.StateReason)
		case w.State == workspaces.Ready:
			return nil
		}
		if !tasks.Sleep(ctx, s.cfg.Look) {
			return ctx.Err()
		}
	}
}

// start starts the session, unless an earlier server did and died before it recorded that.
func (s *Service) start(ctx context.Context, actor accounts.Actor, r Run, a Attempt) (string, error) {
	there, err := s.cfg.Sessions.List(ctx, a.WorkspaceID)
	if err != nil {
		return "", err
	}
	for _, one := range there {
		if one.Agent == a.Agent && one.Prompt == r.Prompt && one.CreatedBy == r.CreatedBy && one.StartedAt >= a.StateAt && one.State != state.Failed {
			return one.ID, nil
		}
	}
	one, err := s.cfg.Sessions.Start(ctx, actor, a.WorkspaceID, sessions.StartRequest{Agent: a.Agent, AccountID: a.AccountID, Argv: a.Args, Prompt: r.Prompt})
	return one.ID, err
}
