package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/result"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/workspaces"
)

const (
	makingTime = 30 * time.Minute   // a workspace may take
	sandboxFor = 7 * 24 * time.Hour // a job's own sandbox that is kept stays when nobody uses it
	asksFor    = 5 * time.Second    // an agent that seems to ask is looked at again
)

// step takes a job one step further from wherever it is, and reports whether something is left to be done. What it does can be done again:
// an earlier server may have died between a step and its record, so each looks for its result first.
func (s *Service) step(ctx context.Context, id string) (live bool) {
	j, err := s.cfg.Store.Job(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false
	}
	if err == nil && j.Step == Waiting && !s.turnOf(id) { // it was put back
		return true
	}
	if err == nil && j.Step == Waiting {
		j, err = s.edit(ctx, id, func(j *Job) error {
			if j.Step != Waiting {
				return errUnchanged
			}
			j.Step, j.Reason, j.Deadline = Making, "Its workspace is being made.", s.now()+makingTime.Milliseconds()
			return nil
		})
	}
	if err == nil {
		switch j.Step {
		case Making:
			j, err = s.start(ctx, j)
		case Working:
			j, err = s.see(ctx, j)
		}
	}
	if err == nil && j.Step == Ending {
		j, err = s.finish(ctx, j)
	}
	if err == nil && j.Step == Cleaning {
		j, err = s.clean(ctx, j)
	}
	if err == nil && j.Step == Removing {
		if err = s.remove(ctx, j); err == nil {
			return false
		}
	}
	if errors.Is(err, errUnchanged) {
		return true
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "a job could not be followed", "job_id", id, "error", err)
	}
	return err != nil || j.Step != Done
}

// start makes a job's workspace and starts its session.
func (s *Service) start(ctx context.Context, j Job) (Job, error) {
	j, ready, err := s.begin(ctx, j)
	if err == nil && ready {
		failpoint.Reach(failpoint.JobStarted)
		s.placed(j)
		return s.edit(ctx, j.ID, func(j *Job) error {
			if j.Step != Making {
				return errUnchanged
			}
			now := s.now()
			j.Step, j.Status, j.Reason, j.Refusals, j.StartedAt, j.Deadline = Working, Running, "", 0, now, now+j.Request.TimeoutMs
			return nil
		})
	}
	if err == nil && s.now() >= j.Deadline {
		err = fault.New(fault.Timeout, "workspace_not_made", "Its workspace was not made within %s.", makingTime)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, errUnchanged) {
		return j, err
	}
	if fault.Is(err, fault.RateLimited) {
		return s.wait(ctx, j, err)
	}
	s.placed(j)
	code, why := words(err)
	s.cfg.Log.WarnContext(ctx, "a job could not be started", "job_id", j.ID, "error", err)
	return s.decide(ctx, j.ID, Failed, code, why)
}

// wait puts a job back into the queue: there is no place for it now.
func (s *Service) wait(ctx context.Context, j Job, refusal error) (Job, error) {
	_, why := words(refusal)
	j, err := s.edit(ctx, j.ID, func(j *Job) error {
		if j.Step != Making {
			return errUnchanged
		}
		j.Refusals++
		j.Step, j.Reason, j.RetryAt, j.Deadline = Waiting, why, s.now()+backoff(j.Refusals), 0
		return nil
	})
	if err == nil {
		f, _ := errors.AsType[*fault.Error](refusal)
		scope, _ := f.Details["scope"].(string)
		s.refused(j, strings.HasPrefix(scope, "user") || strings.HasSuffix(scope, "user"))
	}
	return j, err
}

// words are the code and the message of an error for people.
func words(err error) (code, message string) {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Code, f.Message
	}
	return "internal", "An error occurred on the server. Its log has the details."
}

// begin does the steps of a start that are missing. ready is false while the workspace is being made.
func (s *Service) begin(ctx context.Context, j Job) (_ Job, ready bool, err error) {
	actor, err := s.actorOf(ctx, j)
	if err != nil {
		return j, false, err
	}
	var w workspaces.Workspace
	if j.Request.ProjectID != "" {
		w, err = s.workspace(ctx, actor, j)
	} else {
		j, w, err = s.sandbox(ctx, actor, j)
	}
	if err != nil || w.State != workspaces.Ready {
		return j, false, err
	}
	if s.cfg.Admit != nil {
		if err := s.cfg.Admit(ctx, actor, w); err != nil {
			return j, false, err
		}
	}
	one, err := s.cfg.Sessions.Get(ctx, j.SessionID)
	if err == nil && sessions.NeverStarted(one) && !j.Retried {
		if j, err = s.edit(ctx, j.ID, func(j *Job) error { j.SessionID, j.Retried = id.New("ses"), true; return nil }); err != nil {
			return j, false, err
		}
		_, err = s.cfg.Sessions.Get(ctx, j.SessionID)
	}
	if !fault.Is(err, fault.NotFound) {
		return j, err == nil, err
	}
	req := j.session()
	if s.cfg.Asks(req.Agent) {
		req.Permissions = agents.AllPermissions
	}
	_, err = s.cfg.Sessions.Start(ctx, actor, w.ID, req)
	if fault.CodeOf(err) == "no_boundary" {
		err = errNeedsIsolation(req.Agent)
	}
	return j, err == nil, err
}

// session is how a job's session is started. The prompt is an argument, is typed, or is stored in a thread: no shell reads it.
func (j Job) session() sessions.StartRequest {
	r := j.Request
	req := sessions.StartRequest{ID: j.SessionID, Agent: r.Agent, Prompt: r.Prompt, Argv: slices.Clone(r.Argv), AccountID: r.AccountID, ConfirmNoBoundary: r.ConfirmNoBoundary}
	if r.Model != "" {
		req.Argv = append([]string{"--model", r.Model}, req.Argv...)
	}
	if r.Agent == agents.Command {
		req.Prompt = ""
		if i := slices.Index(req.Argv, promptMark); i >= 0 {
			req.Argv[i] = r.Prompt
		} else {
			req.Argv = append(req.Argv, r.Prompt)
		}
	}
	return req
}

// workspace returns the workspace of a job in a project, and begins to make it when there is none.
func (s *Service) workspace(ctx context.Context, actor accounts.Actor, j Job) (workspaces.Workspace, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, j.WorkspaceID)
	switch {
	case fault.Is(err, fault.NotFound):
		r := j.Request
		return s.cfg.Workspaces.Create(ctx, actor, j.TeamID, workspaces.NewWorkspace{ID: j.WorkspaceID, ProjectID: r.ProjectID, Name: j.title(), Base: r.Base, Branch: r.Branch, Executor: string(r.Executor)})
	case err != nil:
		return w, err
	case w.DeletedAt != 0 || w.State == workspaces.Archived:
		return w, fault.New(fault.Conflict, "workspace_not_made", "Its workspace was archived or deleted before the agent could start.")
	case w.State != workspaces.Failed:
		return w, nil
	case j.Retried:
		return w, fault.New(fault.Conflict, "workspace_not_made", "Its workspace could not be made: %s", w.StateReason)
	}
	// A crash may have cut it short, or its setup script found no place.
	if _, err := s.edit(ctx, j.ID, func(j *Job) error { j.Retried = true; return nil }); err != nil {
		return w, err
	}
	return s.cfg.Workspaces.RetryCreate(ctx, w.ID)
}

// sandbox returns the workspace of a job's sandbox, which runs then.
func (s *Service) sandbox(ctx context.Context, actor accounts.Actor, j Job) (Job, workspaces.Workspace, error) {
	var sb sandboxes.Sandbox
	var err error
	if j.Own() { // found by its key after a crash
		sb, _, err = s.cfg.Sandboxes.Obtain(ctx, actor, j.TeamID, sandboxes.Request{Key: "job " + j.ID, Purpose: executors.ForExecution, Executor: j.Request.Executor, Idle: sandboxFor})
	} else {
		sb, err = s.cfg.Sandboxes.Get(ctx, j.SandboxID)
	}
	if err != nil {
		return j, workspaces.Workspace{}, err
	}
	if j.SandboxID != sb.ID || j.WorkspaceID != sb.WorkspaceID {
		if j, err = s.edit(ctx, j.ID, func(j *Job) error { j.SandboxID, j.WorkspaceID = sb.ID, sb.WorkspaceID; return nil }); err != nil {
			return j, workspaces.Workspace{}, err
		}
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
	return j, w, err
}

// see looks at the session of a job.
func (s *Service) see(ctx context.Context, j Job) (Job, error) {
	one, err := s.cfg.Sessions.Get(ctx, j.SessionID)
	switch now := s.now(); {
	case fault.Is(err, fault.NotFound):
		return s.decide(ctx, j.ID, Failed, "job_session_gone", "Its session no longer exists.")
	case err != nil:
		return j, err
	case one.State.Ended():
		return s.sawEnd(ctx, j, one)
	case now >= j.Deadline:
		return s.decide(ctx, j.ID, Timeout, "job_timeout", fmt.Sprintf("It did not end within %s.", time.Duration(j.Request.TimeoutMs)*time.Millisecond))
	case one.Basis.Limit.Passes(): // the agent goes on when that is over
		return j, nil
	case one.State == state.Waiting && (one.Question != nil || now-one.StateAt >= asksFor.Milliseconds()):
		title := one.StateReason
		if one.Question != nil && one.Question.Title != "" {
			title = one.Question.Title
		}
		return s.decide(ctx, j.ID, Failed, "job_asked", s.masked(ctx, j.TeamID, "The agent asked a question, which a job cannot answer: "+title))
	case one.State == state.Idle:
		return s.sawIdle(ctx, j, one)
	}
	return j, nil
}

// sawEnd decides by how a session ended.
func (s *Service) sawEnd(ctx context.Context, j Job, one sessions.Session) (Job, error) {
	switch end, why := result.EndOf(one); end {
	case result.Completed:
		return s.decide(ctx, j.ID, Completed, "", "")
	case result.Stopped:
		return s.decide(ctx, j.ID, Cancelled, "job_stopped", why)
	case result.Exited:
		return s.decide(ctx, j.ID, Failed, "job_agent_exited", why)
	default:
		return s.decide(ctx, j.ID, Failed, "job_session_"+string(one.State), s.masked(ctx, j.TeamID, why))
	}
}

// sawIdle decides that an agent that stays has done its work.
func (s *Service) sawIdle(ctx context.Context, j Job, one sessions.Session) (Job, error) {
	if j.Request.Agent == agents.Command || one.PromptSentAt == 0 { // a program is done when it exits
		return j, nil
	}
	said, recorded := result.Answer(ctx, s.cfg.Sessions, j.SessionID)
	is := result.Idle{Now: s.now(), Since: one.StateAt, AskedAt: one.PromptSentAt, Begun: one.Basis.DoneAt != 0 || one.Basis.Failed, Answered: said != "", Recorded: recorded, Settle: s.cfg.Settle}
	if !is.Done() {
		return j, nil
	}
	if why, reason, _ := sessions.Attention(one); why == "failed" || why == "limited" {
		return s.decide(ctx, j.ID, Failed, "job_agent_failed", s.masked(ctx, j.TeamID, "The agent failed: "+reason))
	}
	return s.decide(ctx, j.ID, Completed, "", "")
}
