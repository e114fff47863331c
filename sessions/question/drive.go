package question

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/agents"
)

// The functions below stand in for guests and dialogs in tests: of this package, and of sessions, which own the questions.

// Take takes a call of a hook in a subscribed sandbox.
func (b *Board) Take(ctx context.Context, sandboxID string, c guest.HookCall) {
	b.listener(sandboxID).take(ctx, c)
}

// Ended ends a waiting hook in a subscribed sandbox.
func (b *Board) Ended(ctx context.Context, sandboxID, callID string) {
	b.listener(sandboxID).ended(ctx, callID)
}

func (b *Board) listener(sandboxID string) *listener {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listeners[sandboxID]
}

// Ask opens a question of the agent, as a hook does whose answers by takes, and returns its ID.
func (l *Questions) Ask(ctx context.Context, key string, a agents.Ask, by func(context.Context, accounts.Actor, agents.Answer) error) (id string) {
	return l.open(ctx, key, AskedByHook, a, by).q.ID
}

// Withdraw ends the open questions with this key.
func (l *Questions) Withdraw(ctx context.Context, key string) {
	l.withdraw(ctx, func(as *pending) bool { return as.q.Key == key })
}

// Seen reports whether the dialog of a question was seen on the screen.
func (l *Questions) Seen(questionID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	as := l.pendingOf(func(as *pending) bool { return as.q.ID == questionID })
	return as != nil && !as.shown.IsZero()
}
