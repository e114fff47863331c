package question

import (
	"context"
	"errors"
	"sync"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// ErrStays is the cause of a context whose end leaves a question open, because another server will ask it again.
var ErrStays = errors.New("the question stays open")

// AskAndWait asks a question of an agent that works in the server, and waits for the answer until ctx ends, which withdraws the question
// unless the cause is ErrStays. An open question with this key, which an earlier server asked, is taken over. Errors: question_not_asked;
// question_gone, when the question ended without an answer.
func (l *Questions) AskAndWait(ctx context.Context, key string, a agents.Ask) (agents.Answer, error) {
	given := make(chan agents.Answer, 1)
	as := l.open(ctx, key, AskedByAgent, a, func(_ context.Context, _ accounts.Actor, a agents.Answer) error {
		select {
		case given <- a:
			return nil
		default: // one has been given: the question is about to be settled
			return fault.New(fault.Gone, "question_gone", "The agent has its answer.")
		}
	})
	if as == nil {
		return agents.Answer{}, fault.New(fault.Unavailable, "question_not_asked", "The question could not be asked: the session has ended, or has too many open questions.")
	}
	gone := make(chan struct{})
	l.mu.Lock()
	as.free = sync.OnceFunc(func() { close(gone) })
	if as.q.State == Withdrawn {
		as.free()
	}
	l.mu.Unlock()
	select {
	case answer := <-given:
		return answer, nil
	case <-gone:
		return agents.Answer{}, fault.New(fault.Gone, "question_gone", "The question was withdrawn.")
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), ErrStays) {
			return agents.Answer{}, context.Cause(ctx)
		}
		l.withdraw(context.WithoutCancel(ctx), func(o *pending) bool { return o == as })
		return agents.Answer{}, context.Cause(ctx)
	}
}
