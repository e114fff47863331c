package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/tools/subagents"
)

// Subagents are the agents that work for those of sessions.
type Subagents interface {
	// Results returns what the agent of a session was not given yet.
	Results(ctx context.Context, sessionID string) ([]subagents.Result, error)
	// Returned notes that it has a result.
	Returned(ctx context.Context, sessionID, key string) error
	// Adopt passes on those of a session to the one that goes on with its conversation.
	Adopt(ctx context.Context, from, to string) error
	// InterruptFor interrupts those that work for a session.
	InterruptFor(ctx context.Context, sessionID string) error
}

var _ subagents.Threads = (*Service)(nil)

// takeResults adds the results of subagents that have come to the conversation, each once. One that the agent has read by a tool is not
// repeated.
func (r *running) takeResults(ctx context.Context) error {
	if r.svc.cfg.Subagents == nil {
		return nil
	}
	sessionID := r.host.Row().ID
	results, err := r.svc.cfg.Subagents.Results(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, one := range results {
		if !r.hasRead(one) {
			now := r.svc.now()
			m := &Message{ID: resultPrompt(one).id, ThreadID: r.thread.ID, TurnID: r.turn.ID, Role: User, State: Complete, Parts: textParts(r.mask(one.Text)), CreatedAt: now, DoneAt: now}
			err := r.apply(ctx, Change{Messages: []*Message{m}, Fresh: true})
			switch {
			case err == nil:
				r.host.Record([]conversation.Item{promptItem(m)})
			case fault.CodeOf(err) != "message_exists":
				return err
			}
		}
		if err := r.svc.cfg.Subagents.Returned(ctx, sessionID, one.Key); err != nil {
			return err
		}
	}
	return nil
}

// hasRead reports whether a call of a tool has answered with a result.
func (r *running) hasRead(one subagents.Result) bool {
	for _, calls := range r.calls {
		if slices.ContainsFunc(calls, func(c *Call) bool {
			return c.State == CallDone && c.EndedAt >= one.At && (c.Tool == "subagent_wait" || c.Tool == "subagent_result") && strings.Contains(textOf(c.Content), one.Line)
		}) {
			return true
		}
	}
	return false
}

// resultPrompt is a result as the agent is given it: always the same message, so that it is given once.
func resultPrompt(one subagents.Result) Prompt {
	_, unique, _ := strings.Cut(one.Key, "_")
	return Prompt{Text: one.Text, id: "msg_" + unique, first: true, idle: true}
}

// Wake implements subagents.Threads.
func (s *Service) Wake(ctx context.Context, sessionID string) error {
	host, ok := s.cfg.Sessions.Hosted(sessionID)
	if !ok || s.cfg.Subagents == nil {
		return nil // it is being reconnected
	}
	row := host.Row()
	ctx = tenant.In(ctx, row.TeamID)
	t, err := s.ThreadOf(ctx, row)
	if err != nil {
		return nothing(err)
	}
	v, err := s.cfg.Store.View(ctx, t.ID, Window{Limit: 1})
	if err != nil || v.Turn != nil && v.Turn.State != TurnCompleted {
		return nothing(err)
	}
	results, err := s.cfg.Subagents.Results(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, one := range results {
		if _, err := s.send(ctx, t, resultPrompt(one)); fault.CodeOf(err) == "turn_running" || fault.CodeOf(err) == "session_not_running" {
			return nil // the turn takes the rest
		} else if err != nil {
			return err
		}
		if err := s.cfg.Subagents.Returned(ctx, sessionID, one.Key); err != nil {
			return err
		}
	}
	return nil
}

// takeLeft has a session that was resumed take results that came meanwhile.
func (s *Service) takeLeft(row sessions.Session) {
	s.work.Go(func() {
		if err := s.Wake(tenant.In(s.life, row.TeamID), row.ID); err != nil && s.life.Err() == nil {
			s.cfg.Log.Warn("results of subagents could not be given to a resumed session", "session_id", row.ID, "error", err)
		}
	})
}

// nothing is nil where what was looked for does not exist.
func nothing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// SessionThread implements subagents.Threads.
func (s *Service) SessionThread(ctx context.Context, sessionID string) (out subagents.Thread, ok bool, err error) {
	row, err := s.cfg.Sessions.Session(ctx, sessionID)
	if err != nil || row.Agent != Name {
		return out, false, nothing(err)
	}
	t, err := s.ThreadOf(ctx, row)
	if err != nil {
		return out, false, nothing(err)
	}
	v, err := s.cfg.Store.View(ctx, t.ID, Window{Limit: 1})
	if err != nil {
		return out, false, err
	}
	out = subagents.Thread{Model: t.Model, Mode: string(t.Mode), Rests: v.Turn != nil && (v.Turn.State == TurnInterrupted || v.Turn.State == TurnFailed)}
	return out, true, nil
}

// interruptBelow interrupts the subagents of a turn that a person interrupted.
func (r *running) interruptBelow() {
	if r.svc.cfg.Subagents == nil || r.host == nil {
		return
	}
	sessionID := r.host.Row().ID
	r.svc.work.Go(func() {
		ctx, cancel := context.WithTimeout(tenant.In(r.svc.life, r.thread.TeamID), time.Minute)
		defer cancel()
		if err := r.svc.cfg.Subagents.InterruptFor(ctx, sessionID); err != nil && !errors.Is(err, context.Canceled) {
			r.svc.cfg.Log.Warn("the subagents of an interrupted turn could not all be interrupted", "session_id", sessionID, "error", err)
		}
	})
}
