package question

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// ErrStays is the cause of a context whose end leaves a question open, because another server will ask it again.
var ErrStays = errors.New("the question stays open")

// Accept takes the answer of a person before it counts. Where it fails with fault.Invalid or fault.Forbidden, the person reads why, and the
// question stays open. It may be called again with the same answer, when the server was killed before the answer was stored.
type Accept func(ctx context.Context, who accounts.Actor, a agents.Answer) error

// AskAndWait asks a question of an agent that works in the server, and waits until its answer is stored, or until ctx ends, which withdraws
// it unless the cause is ErrStays. A question with this key that an earlier server asked is taken over: with its answer, when it has one.
// Errors: question_not_asked; question_gone, when the question ended without an answer.
func (l *Questions) AskAndWait(ctx context.Context, key string, a agents.Ask, accept Accept) (agents.Answer, error) {
	if earlier, ok, err := l.answered(ctx, key); err != nil || ok {
		return earlier, err
	}
	given := make(chan agents.Answer, 1)
	as := l.open(ctx, key, AskedByAgent, a, func(ctx context.Context, who accounts.Actor, a agents.Answer) error {
		if accept != nil {
			if err := accept(ctx, who, a); err != nil {
				return err
			}
		}
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
	over := make(chan struct{})
	l.mu.Lock()
	as.free = sync.OnceFunc(func() { close(over) })
	as.settled = as.free
	if as.q.State != Open {
		as.free()
	}
	l.mu.Unlock()
	select {
	case <-over:
		select {
		case answer := <-given:
			return answer, nil
		default:
			return agents.Answer{}, fault.New(fault.Gone, "question_gone", "The question was withdrawn.")
		}
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), ErrStays) {
			return agents.Answer{}, context.Cause(ctx)
		}
		l.withdraw(context.WithoutCancel(ctx), func(o *pending) bool { return o == as })
		return agents.Answer{}, context.Cause(ctx)
	}
}

// answered returns the answer that was stored for a question before the agent could act on it.
func (l *Questions) answered(ctx context.Context, key string) (agents.Answer, bool, error) {
	q, err := l.board.cfg.Store.AnsweredQuestion(ctx, l.about.ID, key)
	if fault.Is(err, fault.NotFound) {
		return agents.Answer{}, false, nil
	}
	if err != nil {
		return agents.Answer{}, false, err
	}
	for _, o := range q.Options { // an agent's question in the server takes one option
		if rest, ok := strings.CutPrefix(q.Answer, o.Label); ok && (rest == "" || strings.HasPrefix(rest, ": ")) {
			return agents.Answer{Options: []agents.Option{o}, Text: strings.TrimPrefix(rest, ": ")}, true, nil
		}
	}
	return agents.Answer{Text: q.Answer}, true, nil
}
