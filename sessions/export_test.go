package sessions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/agents"
)

// Ask opens a question of a running session, as a hook or a screen rule does.
func (s *Service) Ask(ctx context.Context, sessionID, key string, a agents.Ask, by func(context.Context, accounts.Actor, agents.Answer) error) string {
	return s.running(sessionID).pose(ctx, key, AskedByHook, a, by).q.ID
}

// Withdraw ends the open questions with this key.
func (s *Service) Withdraw(ctx context.Context, sessionID, key string) {
	s.running(sessionID).withdraw(ctx, func(as *posed) bool { return as.q.Key == key })
}

// Hook hears a hook of a running session's agent; one with an id waits for an answer.
func (s *Service) Hook(ctx context.Context, sessionID, id, event string) {
	l := s.running(sessionID)
	l.mu.Lock()
	c := guest.HookCall{ID: id, Process: l.id, Agent: l.row.Agent, Waits: id != "", At: time.Now().UnixMilli(), Event: json.RawMessage(event)}
	sandbox := l.row.SandboxID
	l.mu.Unlock()
	s.earsOf(sandbox).take(ctx, c)
}

// HookEnded hears that a hook which waited was ended by its agent.
func (s *Service) HookEnded(ctx context.Context, sessionID, id string) {
	s.earsOf(s.running(sessionID).snapshot().SandboxID).ended(ctx, id)
}

func (s *Service) earsOf(sandbox string) *ears {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ears[sandbox]
}

// Says gives a running session evidence of its state.
func (s *Service) Says(sessionID string, h agents.Hint) { s.running(sessionID).evidence(h) }

// DialogSeen reports whether the dialog of a question was seen on the screen.
func (s *Service) DialogSeen(sessionID, questionID string) bool {
	l := s.running(sessionID)
	l.mu.Lock()
	defer l.mu.Unlock()
	as := l.posedOf(func(as *posed) bool { return as.q.ID == questionID })
	return as != nil && !as.shown.IsZero()
}
