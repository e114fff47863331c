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
	return s.running(sessionID).questions.Ask(ctx, key, a, by)
}

// Withdraw ends the open questions with this key.
func (s *Service) Withdraw(ctx context.Context, sessionID, key string) {
	s.running(sessionID).questions.Withdraw(ctx, key)
}

// Hook hears a hook of a running session's agent; one with an id waits for an answer.
func (s *Service) Hook(ctx context.Context, sessionID, id, event string) {
	row := s.running(sessionID).snapshot()
	s.Board.Take(ctx, row.SandboxID, guest.HookCall{ID: id, Process: row.ID, Agent: row.Agent, Waits: id != "", At: time.Now().UnixMilli(), Event: json.RawMessage(event)})
}

// HookEnded hears that a hook which waited was ended by its agent.
func (s *Service) HookEnded(ctx context.Context, sessionID, id string) {
	s.Board.Ended(ctx, s.running(sessionID).snapshot().SandboxID, id)
}

// Says gives a running session evidence of its state.
func (s *Service) Says(sessionID string, h agents.Hint) { s.running(sessionID).evidence(h) }

// DialogSeen reports whether the dialog of a question was seen on the screen.
func (s *Service) DialogSeen(sessionID, questionID string) bool {
	return s.running(sessionID).questions.Seen(questionID)
}
