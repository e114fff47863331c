package subagents

import (
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/result"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/workspaces"
)

var errNotFound = fault.New(fault.NotFound, "subagent_not_found", "There is no such subagent among those you can see.")

// Get returns a subagent, whoever asks. Errors: subagent_not_found.
func (s *Service) Get(ctx context.Context, subagentID string) (Subagent, error) {
	a, err := s.cfg.Store.Subagent(ctx, subagentID)
	if err != nil {
		return a, err
	}
	all := s.shown(ctx, []Subagent{a})
	return all[0], nil
}

// Parents returns the sessions that started these sessions as subagents, by session; others have none.
func (s *Service) Parents(ctx context.Context, sessionIDs ...string) (map[string]string, error) {
	return s.cfg.Store.Parents(ctx, sessionIDs...)
}

// Tree returns the subagents below a session, and those below them, oldest first.
func (s *Service) Tree(ctx context.Context, sessionID string) ([]Subagent, error) {
	root, err := s.rootOf(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	all, err := s.cfg.Store.SubagentsOfRoot(ctx, root)
	if err != nil {
		return nil, err
	}
	if root != sessionID {
		all = slices.DeleteFunc(all, func(a Subagent) bool { return !below(all, a, sessionID) })
	}
	return s.shown(ctx, all), nil
}

// below reports whether a subagent of a tree was started by a session, or by one of its subagents.
func below(tree []Subagent, a Subagent, sessionID string) bool {
	for range MaxDepth {
		if a.ParentSessionID == sessionID {
			return true
		}
		i := slices.IndexFunc(tree, func(above Subagent) bool { return above.SessionID == a.ParentSessionID })
		if i < 0 {
			return false
		}
		a = tree[i]
	}
	return false
}

// OfWorkspace returns the subagents that were asked for in a workspace or work in it, newest first.
func (s *Service) OfWorkspace(ctx context.Context, workspaceID string, pg page.Page) ([]Subagent, string, error) {
	all, next, err := s.cfg.Store.SubagentsOfWorkspace(ctx, workspaceID, pg)
	return s.shown(ctx, all), next, err
}

// shown fills in what is not stored.
func (s *Service) shown(ctx context.Context, all []Subagent) []Subagent {
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = a.SessionID
		if a.Status != Waiting {
			continue
		}
		if one, err := s.cfg.Sessions.Get(ctx, a.SessionID); err == nil && one.State == state.Waiting {
			all[i].Question = one.StateReason
			if one.Question != nil && one.Question.Title != "" {
				all[i].Question = one.Question.Title
			}
			all[i].Question = s.masked(ctx, a.TeamID, all[i].Question)
		}
	}
	if s.cfg.Spent == nil || len(all) == 0 {
		return all
	}
	spent, err := s.cfg.Spent(ctx, ids...)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "what subagents have spent could not be read", "error", err)
		return all
	}
	for i, a := range all {
		if nano, ok := spent[a.SessionID]; ok {
			all[i].CostNano = &nano
		}
	}
	return all
}

// Visible returns what a caller may see: an agent, the tree it is part of; a person, what is in the workspace.
func (s *Service) Visible(ctx context.Context, c Caller) ([]Subagent, error) {
	all, err := s.visible(ctx, c)
	return s.shown(ctx, all), err
}

func (s *Service) visible(ctx context.Context, c Caller) ([]Subagent, error) {
	if _, err := s.workspace(ctx, c); err != nil {
		return nil, err
	}
	if c.SessionID == "" {
		all, _, err := s.cfg.Store.SubagentsOfWorkspace(ctx, c.WorkspaceID, page.Page{Limit: page.MaxLimit})
		return all, err
	}
	root, err := s.rootOf(ctx, c.SessionID)
	if err != nil {
		return nil, err
	}
	return s.cfg.Store.SubagentsOfRoot(ctx, root)
}

// rootOf returns the session at the top of the tree that a session is part of.
func (s *Service) rootOf(ctx context.Context, sessionID string) (string, error) {
	a, err := s.cfg.Store.SubagentOfSession(ctx, sessionID)
	if fault.Is(err, fault.NotFound) {
		return sessionID, nil
	}
	return a.Root, err
}

// find returns one of those a caller may see. own asks for one that it, or its subagents, started.
func (s *Service) find(ctx context.Context, c Caller, subagentID string, own bool) (Subagent, error) {
	all, err := s.visible(ctx, c)
	if err != nil {
		return Subagent{}, err
	}
	i := slices.IndexFunc(all, func(a Subagent) bool { return a.ID == subagentID })
	if i < 0 && c.SessionID == "" { // an older one than Visible has
		if a, err := s.Get(ctx, subagentID); err == nil && a.TeamID == c.TeamID && (a.FromWorkspaceID == c.WorkspaceID || a.WorkspaceID == c.WorkspaceID) {
			return a, nil
		}
	}
	if i < 0 {
		return Subagent{}, errNotFound
	}
	if own && c.SessionID != "" && !below(all, all[i], c.SessionID) {
		return Subagent{}, fault.New(fault.Forbidden, "subagent_not_yours", "Another agent started this subagent: you can read its result, and only its caller can direct it.")
	}
	return s.shown(ctx, all[i:i+1])[0], nil
}

// Find returns one of the subagents that a caller may see. Errors: subagent_not_found.
func (s *Service) Find(ctx context.Context, c Caller, subagentID string) (Subagent, error) {
	return s.find(ctx, c, subagentID, false)
}

// Message sends a further prompt, which the agent gets once it is idle; the result is then the one of that prompt. Errors:
// subagent_not_found, subagent_not_yours, subagent_ended, subagent_not_started, subagents_at_once, and those of the queue.
func (s *Service) Message(ctx context.Context, c Caller, subagentID, text string) (Subagent, error) {
	a, err := s.find(ctx, c, subagentID, true)
	if err != nil {
		return a, err
	}
	w, err := s.workspace(ctx, c)
	if err != nil {
		return a, err
	}
	actor, err := s.directs(ctx, c, a, w)
	if err != nil {
		return a, err
	}
	thread, ofOwn, err := s.threadOf(ctx, c.SessionID)
	if err != nil {
		return a, err
	}
	if ofOwn {
		if err := within(thread, a); err != nil {
			return a, err
		}
	}
	deadline := s.now() + a.TimeoutMs
	above, err := s.cfg.Store.SubagentOfSession(ctx, a.ParentSessionID)
	switch {
	case err == nil && above.Status.Busy(): // never more time than its caller has
		deadline = min(deadline, above.DeadlineAt)
	case err != nil && !fault.Is(err, fault.NotFound):
		return a, err
	}
	promptID := id.New("prm")
	was := a
	a, err = s.cfg.Store.WorkOnSubagent(ctx, a.ID, MaxAtOnce, func(a *Subagent) error {
		switch {
		case !a.Live || a.Stop:
			return fault.New(fault.Conflict, "subagent_ended", "The session of this subagent has ended. Start another one, and give it this result.")
		case a.Status == Spawned || a.Status == Starting:
			return fault.New(fault.Conflict, "subagent_not_started", "This subagent has not started yet. Send the message in a moment.")
		}
		if !a.Status.Busy() {
			a.DeadlineAt = deadline
		}
		a.Status, a.PromptID, a.Result, a.Code, a.Error, a.EndedAt, a.UpdatedAt = Working, promptID, "", "", "", 0, s.now()
		a.ToReturn = ofOwn && c.SessionID == a.ParentSessionID
		return nil
	})
	if err != nil {
		return a, err
	}
	s.notify(ctx, a)
	if _, err := s.cfg.Prompts.AddPrompt(ctx, actor, a.SessionID, prompt.Request{ID: promptID, Text: text}); err != nil {
		_, undone := s.edit(context.WithoutCancel(ctx), a.ID, func(a *Subagent) error {
			if a.PromptID == promptID {
				a.Status, a.PromptID, a.Result, a.Code, a.Error, a.EndedAt, a.DeadlineAt, a.ToReturn = was.Status, was.PromptID, was.Result, was.Code, was.Error, was.EndedAt, was.DeadlineAt, was.ToReturn
			}
			return nil
		})
		if undone != nil {
			s.cfg.Log.WarnContext(ctx, "a subagent whose message was refused could not be put back", "subagent_id", a.ID, "error", undone)
		}
		return a, err
	}
	s.look(a.ID)
	return a, nil
}

// Interrupt stops what a subagent does now, with the key a person would press; its session goes on and takes messages. With stop the
// session ends too. Errors: subagent_not_found, subagent_not_yours, and those of Sessions.Interrupt.
func (s *Service) Interrupt(ctx context.Context, c Caller, subagentID string, stop bool) (Subagent, error) {
	a, err := s.find(ctx, c, subagentID, true)
	if err != nil {
		return a, err
	}
	w, err := s.workspace(ctx, c)
	if err != nil {
		return a, err
	}
	actor, err := s.directs(ctx, c, a, w)
	if err != nil || !a.Live {
		return a, err
	}
	const why = "It was interrupted."
	if c.SessionID != "" && c.SessionID == a.ParentSessionID { // it knows
		if err := s.settled(ctx, a); err != nil {
			return a, err
		}
	}
	if stop || a.Status == Spawned || a.Status == Starting {
		a, err = s.end(ctx, a.ID, Cancelled, "subagent_interrupted", why)
		s.look(a.ID)
		return a, err
	}
	if _, err := s.cfg.Sessions.Interrupt(ctx, actor, a.SessionID, false); err != nil {
		return a, err
	}
	return s.edit(ctx, a.ID, func(a *Subagent) error {
		if a.Status.Busy() {
			a.Status, a.Code, a.Error, a.EndedAt = Cancelled, "subagent_interrupted", why, s.now()
		}
		return nil
	})
}

// directs returns the user a caller works for, after checking that they may have agents work in w, where the caller is, and in the other
// workspaces of the subagent: where it works, which may be private, and where it was asked for.
func (s *Service) directs(ctx context.Context, c Caller, a Subagent, w workspaces.Workspace) (accounts.Actor, error) {
	actor, err := s.actorFor(ctx, c.UserID, w)
	if err != nil {
		return actor, err
	}
	for _, other := range [...]string{a.WorkspaceID, a.FromWorkspaceID} {
		if other == w.ID {
			continue
		}
		one, err := s.cfg.Workspaces.Workspace(ctx, other)
		if fault.Is(err, fault.NotFound) { // it is still to be made
			continue
		}
		if err == nil {
			_, err = s.actorFor(ctx, c.UserID, one)
		}
		if err != nil {
			return actor, err
		}
	}
	return actor, nil
}

// Report stores the result that a subagent itself gives for its task, and completes it. Errors: subagent_none, subagent_ended.
func (s *Service) Report(ctx context.Context, c Caller, text string) (Subagent, error) {
	if _, err := s.workspace(ctx, c); err != nil {
		return Subagent{}, err
	}
	var a Subagent
	err := error(errNotFound)
	if c.SessionID != "" {
		a, err = s.cfg.Store.SubagentOfSession(ctx, c.SessionID)
	}
	if fault.Is(err, fault.NotFound) {
		return a, fault.New(fault.Conflict, "subagent_none", "Only a subagent can report a result, and this session is not a subagent.")
	}
	if err != nil {
		return a, err
	}
	text = result.Bounded(s.masked(ctx, a.TeamID, text), MaxResult)
	return s.edit(ctx, a.ID, func(a *Subagent) error {
		if !a.Status.Busy() {
			return fault.New(fault.Conflict, "subagent_ended", "The task has ended already: it is %s.", a.Status)
		}
		a.Status, a.Result, a.Code, a.Error, a.EndedAt = Completed, text, "", "", s.now()
		return nil
	})
}

// Wait waits until all of the named subagents have ended their tasks, or one of them with any, and returns them as they are then. Without
// names it waits for the busy ones that the caller started, and returns those, too, whose results it was not given yet. Running out of time is no error. Errors: subagent_not_found.
func (s *Service) Wait(ctx context.Context, c Caller, ids []string, any bool, timeout time.Duration) ([]Subagent, error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		all, err := s.visible(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			for _, a := range all {
				if (a.Status.Busy() || a.ToReturn) && (c.SessionID == "" || a.ParentSessionID == c.SessionID) {
					ids = append(ids, a.ID)
				}
			}
		}
		waited, busy := []Subagent{}, 0
		for _, one := range ids {
			i := slices.IndexFunc(all, func(a Subagent) bool { return a.ID == one })
			if i < 0 {
				return nil, errNotFound
			}
			if waited = append(waited, all[i]); all[i].Status.Busy() {
				busy++
			}
		}
		if busy == 0 || any && busy < len(waited) {
			return s.shown(ctx, waited), nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			return s.shown(ctx, waited), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.work.Context().Done():
			return s.shown(ctx, waited), nil
		}
	}
}
