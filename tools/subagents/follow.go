package subagents

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/result"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// step takes a subagent one step further from wherever it is, and reports whether it is still live. What it does can be done again: an
// earlier server may have died between a step and its record, so each looks for its result first.
func (s *Service) step(ctx context.Context, subagentID string) (live bool) {
	a, err := s.cfg.Store.Subagent(ctx, subagentID)
	if fault.Is(err, fault.NotFound) { // its workspace was purged
		return false
	}
	if err == nil && a.Live {
		a, err = s.bound(ctx, a)
	}
	if err == nil && a.Live {
		switch {
		case a.Stop:
			a, err = s.stop(ctx, a)
		case a.Status == Spawned, a.Status == Starting:
			a, err = s.start(ctx, a)
		default:
			a, err = s.see(ctx, a)
		}
	}
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	kept := false
	if err == nil && a.ToReturn && !a.Status.Busy() {
		a, kept, err = s.giveBack(ctx, a)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "a subagent could not be followed", "subagent_id", subagentID, "error", err)
	}
	return err != nil || a.Live || a.ToReturn && !kept
}

// bound ends a subagent that has used up what its caller allows.
func (s *Service) bound(ctx context.Context, a Subagent) (Subagent, error) {
	if a.Stop {
		return a, nil
	}
	if a.ParentSessionID != "" && !a.Kept {
		caller, err := s.cfg.Sessions.Get(ctx, a.ParentSessionID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return a, err
		}
		if err != nil || caller.State.Ended() {
			return s.end(ctx, a.ID, Cancelled, "subagent_caller_ended", "The session that started it has ended.")
		}
	}
	if !a.Status.Busy() {
		return a, nil
	}
	if s.now() >= a.DeadlineAt {
		return s.end(ctx, a.ID, Failed, "subagent_timed_out", fmt.Sprintf("It timed out: it was given %s. Its files stay.", duration(min(a.TimeoutMs, a.DeadlineAt-a.CreatedAt))))
	}
	return s.boundCost(ctx, a)
}

// boundCost ends a subagent that has spent more, with its own subagents, than it may.
func (s *Service) boundCost(ctx context.Context, a Subagent) (Subagent, error) {
	if a.MaxCostNano <= 0 || s.cfg.Spent == nil {
		return a, nil
	}
	tree, err := s.cfg.Store.SubagentsOfRoot(ctx, a.Root)
	if err != nil {
		return a, err
	}
	sessionIDs := []string{a.SessionID}
	for _, other := range tree {
		if other.ParentSessionID == a.SessionID {
			sessionIDs = append(sessionIDs, other.SessionID)
		}
	}
	spent, err := s.cfg.Spent(ctx, sessionIDs...)
	if err != nil {
		return a, err
	}
	var sum int64
	for _, nano := range spent {
		sum += nano
	}
	if sum <= a.MaxCostNano {
		return a, nil
	}
	return s.end(ctx, a.ID, Failed, "subagent_cost", "It has spent more on models than it may. Its files stay.")
}

// end records the end of a busy subagent, and that its session is to be stopped, before that is done. The result of one that has ended
// already stays.
func (s *Service) end(ctx context.Context, subagentID string, status Status, code, why string) (Subagent, error) {
	return s.edit(ctx, subagentID, func(a *Subagent) error {
		if a.Status.Busy() {
			a.Status, a.Code, a.Error, a.EndedAt = status, code, why, s.now()
		}
		a.Stop = true
		return nil
	})
}

// stop stops the session of a subagent. What it has done until then is its result.
func (s *Service) stop(ctx context.Context, a Subagent) (Subagent, error) {
	one, err := s.cfg.Sessions.Get(ctx, a.SessionID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return a, err
	}
	if err == nil && a.Result == "" {
		if text, _, _ := s.result(ctx, a, one); text != "" {
			files, more := s.filesOf(ctx, a)
			if a, err = s.edit(ctx, a.ID, func(a *Subagent) error { a.Result, a.Files, a.MoreFiles = text, files, more; return nil }); err != nil {
				return a, err
			}
		}
	}
	if err == nil && !one.State.Ended() {
		why := "stopped: " + strings.TrimSuffix(lower(a.Error), ".")
		if a.Error == "" {
			why = "stopped: its task as a subagent has ended"
		}
		if _, err := s.cfg.Sessions.End(ctx, a.SessionID, why); err != nil {
			return a, err
		}
	}
	return s.edit(ctx, a.ID, func(a *Subagent) error { a.Live = false; return nil })
}

// start makes a subagent's workspace and starts its session.
func (s *Service) start(ctx context.Context, a Subagent) (Subagent, error) {
	a, ready, err := s.begin(ctx, a)
	if err == nil && ready {
		return s.edit(ctx, a.ID, func(a *Subagent) error {
			if a.Status == Starting {
				a.Status, a.StartedAt = Working, s.now()
			}
			return nil
		})
	}
	if err == nil || ctx.Err() != nil {
		return a, err
	}
	code, why := words(err)
	s.cfg.Log.WarnContext(ctx, "a subagent could not be started", "subagent_id", a.ID, "error", err)
	return s.end(ctx, a.ID, Failed, code, why)
}

// words are the code and the message of an error for people.
func words(err error) (code, message string) {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Code, f.Message
	}
	return "internal", "An error occurred on the server. Its log has the details."
}

// begin does the steps of a start that are missing. ready is false while the workspace is being made.
func (s *Service) begin(ctx context.Context, a Subagent) (_ Subagent, ready bool, err error) {
	from, err := s.cfg.Workspaces.Workspace(ctx, a.FromWorkspaceID)
	if err != nil {
		return a, false, err
	}
	actor, err := s.actorFor(ctx, a.CreatedBy, from)
	if err != nil {
		return a, false, err
	}
	if a.Where == Sibling && a.Status == Spawned {
		w, err := s.cfg.Workspaces.Workspace(ctx, a.WorkspaceID)
		switch {
		case fault.Is(err, fault.NotFound), err == nil && w.DeletedAt == 0 && w.State == workspaces.Archived: // in a later server it may have its row alone
			if a, err = s.snapshot(ctx, a); err != nil {
				return a, false, err
			}
			sn, err := s.cfg.Snapshots.SnapshotByID(ctx, a.SnapshotID)
			if err != nil {
				return a, false, err
			}
			made, err := s.cfg.Siblings.RestoreSnapshot(ctx, actor, sn, snapshot.RestoreRequest{New: true, ID: a.WorkspaceID, Name: a.Name, Ignored: true})
			if err != nil {
				return a, false, err
			}
			w = made.Workspace
		case err != nil:
			return a, false, err
		case w.DeletedAt != 0:
			return a, false, fault.New(fault.Conflict, "workspace_not_made", "Its workspace was deleted before the agent could start.")
		}
		switch w.State {
		case workspaces.Failed:
			return a, false, fault.New(fault.Conflict, "workspace_not_made", "Its workspace could not be made: %s", w.StateReason)
		case workspaces.Ready:
		default:
			return a, false, nil
		}
		if a, err = s.edit(ctx, a.ID, func(a *Subagent) error { a.Branch = w.Branch; return nil }); err != nil {
			return a, false, err
		}
	}
	if a.Status == Spawned {
		if a, err = s.edit(ctx, a.ID, func(a *Subagent) error {
			if a.Status == Spawned {
				a.Status = Starting
			}
			return nil
		}); err != nil {
			return a, false, err
		}
	}
	if a.Stop {
		return a, false, nil
	}
	one, err := s.cfg.Sessions.Get(ctx, a.SessionID)
	if err == nil && sessions.NeverStarted(one) && !a.Retried {
		if a, err = s.edit(ctx, a.ID, func(a *Subagent) error { a.SessionID, a.Retried = id.New("ses"), true; return nil }); err == nil {
			_, err = s.cfg.Sessions.Get(ctx, a.SessionID)
		}
	}
	if !fault.Is(err, fault.NotFound) {
		return a, err == nil, err
	}
	var caller *sessions.Session
	if a.ParentSessionID != "" {
		row, err := s.cfg.Sessions.Get(ctx, a.ParentSessionID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return a, false, err
		}
		caller = &row // of a caller that is gone it has no permissions
	}
	req := a.request(caller)
	_, err = s.cfg.Sessions.Start(ctx, actor, a.WorkspaceID, req)
	if code := fault.CodeOf(err); req.Permissions == agents.AllPermissions && (code == "no_boundary" || code == "agent_has_no_permissions") {
		req.Permissions = agents.AskPermissions
		_, err = s.cfg.Sessions.Start(ctx, actor, a.WorkspaceID, req)
	}
	return a, err == nil, err
}

// snapshot takes the files of the caller that a sibling begins with.
func (s *Service) snapshot(ctx context.Context, a Subagent) (Subagent, error) {
	if a.SnapshotID != "" {
		return a, nil
	}
	sn, err := s.cfg.Snapshots.Take(ctx, a.FromWorkspaceID, snapshot.Request{Title: "For the subagent " + a.Name, ActorID: a.CreatedBy, SessionID: a.ParentSessionID})
	if err != nil {
		return a, err
	}
	if sn.ID == "" {
		return a, fault.New(fault.Conflict, "workspace_not_ready", "The caller's workspace has no files that a sibling could begin with.")
	}
	return s.edit(ctx, a.ID, func(a *Subagent) error { a.SnapshotID = sn.ID; return nil })
}

// see looks at the session of a subagent that was started.
func (s *Service) see(ctx context.Context, a Subagent) (Subagent, error) {
	one, err := s.cfg.Sessions.Get(ctx, a.SessionID)
	if fault.Is(err, fault.NotFound) {
		return s.done(ctx, a, Failed, "", "subagent_session_gone", "Its session no longer exists.", false)
	}
	if err != nil {
		return a, err
	}
	if one.State.Ended() {
		return s.sawEnd(ctx, a, one)
	}
	if !a.Status.Busy() {
		if s.now()-a.EndedAt >= s.cfg.Idle.Milliseconds() && !a.Kept && one.State == state.Idle {
			return s.edit(ctx, a.ID, func(a *Subagent) error {
				if a.Status.Busy() {
					return errUnchanged
				}
				a.Stop = true
				return nil
			})
		}
		return a, nil
	}
	switch one.State {
	case state.Starting:
		return a, nil
	case state.Waiting:
		return s.mark(ctx, a, Waiting)
	case state.Idle:
		return s.sawIdle(ctx, a, one)
	}
	return s.mark(ctx, a, Working)
}

// mark records that a subagent works, or asks.
func (s *Service) mark(ctx context.Context, a Subagent, status Status) (Subagent, error) {
	if a.Status == status && a.Worked {
		return a, nil
	}
	return s.edit(ctx, a.ID, func(a *Subagent) error {
		if !a.Status.Busy() {
			return errUnchanged
		}
		a.Status, a.Worked = status, true
		return nil
	})
}

// sawEnd records how a session ended.
func (s *Service) sawEnd(ctx context.Context, a Subagent, one sessions.Session) (Subagent, error) {
	text, _, _ := s.result(ctx, a, one)
	switch end, why := result.EndOf(one); end {
	case result.Completed:
		return s.done(ctx, a, Completed, text, "", "", false)
	case result.Stopped:
		return s.done(ctx, a, Cancelled, text, "subagent_stopped", why, false)
	case result.Exited:
		return s.done(ctx, a, Failed, text, "subagent_exited", why, false)
	default:
		return s.done(ctx, a, Failed, text, "subagent_session_"+string(one.State), why, false)
	}
}

// sawIdle records a result once the agent has done what it was last asked.
func (s *Service) sawIdle(ctx context.Context, a Subagent, one sessions.Session) (Subagent, error) {
	if a.Agent == agents.Command || one.Basis.Limit.Passes() { // it is done when it exits; it goes on when the limit is over
		return a, nil
	}
	sentAt := one.PromptSentAt
	if a.PromptID != "" {
		p, err := s.cfg.Prompts.Prompt(ctx, a.PromptID)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return a, err
		case err != nil && s.now()-a.UpdatedAt < s.cfg.Settle.Milliseconds(): // Message is about to add it
			return a, nil
		case err != nil, p.State == prompt.Failed, p.State == prompt.Cancelled:
			return s.done(ctx, a, Failed, "", "subagent_message_not_sent", "The message to it was not delivered. "+p.Reason, true)
		}
		if sentAt = p.SentAt; p.State != prompt.Sent {
			sentAt = 0
		}
	}
	if sentAt == 0 {
		return a, nil
	}
	if goesOn, err := s.waitsBelow(ctx, a); goesOn || err != nil {
		return a, err
	}
	text, said, recorded := s.result(ctx, a, one)
	is := result.Idle{Now: s.now(), Since: one.StateAt, AskedAt: sentAt, Begun: a.PromptID != "" || a.Worked, Answered: said, Recorded: recorded, Settle: s.cfg.Settle}
	if !is.Done() {
		return a, nil
	}
	if why, reason, _ := sessions.Attention(one); why == "failed" || why == "limited" {
		return s.done(ctx, a, Failed, text, "subagent_agent_failed", reason, true)
	}
	return s.done(ctx, a, Completed, text, "", "", true)
}

// done records the end of a task, unless a newer message has arrived, which is looked at next. What somebody else recorded meanwhile stays.
// live says whether the session goes on.
func (s *Service) done(ctx context.Context, a Subagent, status Status, result, code, why string, live bool) (Subagent, error) {
	files, more := s.filesOf(ctx, a)
	return s.edit(ctx, a.ID, func(now *Subagent) error {
		if now.PromptID != a.PromptID {
			return errUnchanged
		}
		now.Files, now.MoreFiles = files, more
		now.Live = live
		if !now.Status.Busy() {
			return nil
		}
		now.Status, now.Result, now.Code, now.Error, now.EndedAt = status, result, code, s.masked(ctx, a.TeamID, why), s.now()
		return nil
	})
}
