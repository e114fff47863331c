package sessions

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/prompt"
)

// From names the session of the same workspace that a new one follows.
type From struct {
	ID     string
	Notify bool // use the prompts of that session as the new one's prompt
	Stop   bool // end that session first; the new one then gets the prompts still queued for it

	// Copy is the agent's ID of a copy of its conversation, which the caller has made. The new session continues it with the agent, the
	// arguments and the permissions of that session, and with its account where the actor may use it. It may be in another workspace.
	Copy string
}

// StartAfter starts a session to replace another of its workspace. Errors: not_found for the other, and those of Start and Stop.
func (s *Service) StartAfter(ctx context.Context, actor accounts.Actor, workspaceID string, req StartRequest, from From) (Session, error) {
	old, err := s.Get(ctx, from.ID)
	if err == nil && from.Copy != "" {
		next := like(s, old)
		next.ID, next.Prompt, next.copied = req.ID, req.Prompt, from.Copy
		return s.Start(ctx, actor, workspaceID, next)
	}
	if err == nil && (old.WorkspaceID != workspaceID || old.Agent == setupAgent) {
		err = fault.New(fault.NotFound, "session_not_found", "The workspace has no such session.")
	}
	if err != nil {
		return Session{}, err
	}
	if from.Notify {
		if req.Prompt, err = s.Reported(ctx, old); err != nil {
			return Session{}, err
		}
	}
	if from.Stop && !old.State.Ended() {
		// Check everything that can be checked before the old session is stopped.
		if err := req.check(); err != nil {
			return Session{}, err
		}
		w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
		if err != nil {
			return Session{}, err
		}
		if err := s.checkAgent(ctx, req.Agent, executors.Kind(w.Executor)); err != nil {
			return Session{}, err
		}
		if _, err := s.account(ctx, actor, old.TeamID, req, false); err != nil {
			return Session{}, err
		}
		if _, err := s.Stop(ctx, actor, old.ID, 0); err != nil {
			return Session{}, err
		}
	}
	next, err := s.Start(ctx, actor, workspaceID, req)
	if err == nil && from.Stop && !next.State.Ended() {
		s.Queue.Inherit(context.WithoutCancel(ctx), promptedAbout(old), promptedAbout(next))
	}
	return next, err
}

// Reported returns everything a session was asked to do, in order: its first prompt and those sent later.
func (s *Service) Reported(ctx context.Context, row Session) (string, error) {
	var all []string
	if row.Prompt != "" {
		all = append(all, row.Prompt)
	}
	prompts, err := s.cfg.Store.Prompts(ctx, row.ID, prompt.Recent)
	if err != nil {
		return "", err
	}
	for _, p := range prompts {
		if p.State == prompt.Sent && p.Text != row.Prompt { // a prompt too long for the command line went through the queue
			all = append(all, p.Text)
		}
	}
	text := strings.Join(all, "\n\n")
	return strings.ToValidUTF8(text[:min(len(text), prompt.MaxBytes)], ""), nil
}
