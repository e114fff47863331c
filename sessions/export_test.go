package sessions

import (
	"context"

	"github.com/parawork/parawork/accounts"
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
