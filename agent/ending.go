package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// ending is how a turn ends.
type ending struct {
	state        TurnState
	reason, code string
}

// conclude stores the turn's end. It returns true when there is more to do: a prompt came in the last moment.
func (r *running) conclude(e ending) (again bool) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := r.finish(context.WithoutCancel(r.ctx), e)
		switch code := fault.CodeOf(err); {
		case err == nil, code == "turn_lost":
			return false
		case code == "thread_moved" && r.ctx.Err() == nil:
			return true
		case code == "thread_moved": // nobody wants the prompt answered any more
			var ends bool
			if e, ends = r.endOf(r.ctx, context.Cause(r.ctx)); !ends {
				return false
			}
			continue
		}
		r.svc.cfg.Log.Warn("the end of a turn could not be stored", "thread_id", r.thread.ID, "error", err)
		if !tasks.Sleep(r.svc.life, wait) {
			return false // the next server goes on with it
		}
	}
}

// endOf says how the turn ends; false when another server goes on with it.
func (r *running) endOf(ctx context.Context, err error) (ending, bool) {
	cause := context.Cause(ctx)
	stop, stopped := errors.AsType[*stop](err)
	switch {
	case errors.Is(cause, errClosing), errors.Is(cause, errLost):
		return ending{}, false
	case stopped:
		return ending{stop.state, stop.reason, stop.code}, true
	case err == nil:
		return ending{state: TurnCompleted}, true
	case errors.Is(cause, errInterrupted):
		return ending{TurnInterrupted, "interrupted", ""}, true
	case errors.Is(cause, errSession):
		return ending{TurnInterrupted, "its session has ended", "session_ended"}, true
	case errors.Is(cause, errTime):
		return ending{TurnFailed, fmt.Sprintf("The turn took longer than %s. Send a prompt to go on.", r.limits.Time), "turn_time"}, true
	}
	if p, ok := errors.AsType[*providers.Error](err); ok {
		if now := time.UnixMilli(r.svc.now()); p.Kind == providers.ErrRateLimited {
			r.limit = usagelimit.Of(usagelimit.Rate, now, now.Add(p.RetryAfter))
		}
		return ending{TurnFailed, safetext.Cut(safetext.Line(r.mask(p.Error())), 1000), "model_" + string(p.Kind)}, true
	}
	code := fault.CodeOf(err)
	if code == "turn_lost" {
		return ending{}, false
	}
	r.svc.cfg.Log.Warn("a turn failed", "thread_id", r.thread.ID, "error", err)
	return ending{TurnFailed, fault.Words(err, "The turn failed unexpectedly. The server's log has the details."), code}, true
}

// stop ends a turn at a bound.
type stop struct{ ending }

func (s *stop) Error() string { return s.reason }

// finish stores the turn's end and tells the session.
func (r *running) finish(ctx context.Context, e ending) error {
	r.afterChanges(tenant.In(ctx, r.thread.TeamID))
	ctx, cancel := context.WithTimeout(tenant.In(ctx, r.thread.TeamID), 10*time.Second)
	defer cancel()
	now := r.svc.now()
	turn := *r.turn
	turn.State, turn.Reason, turn.Code, turn.EndedAt = e.state, e.reason, e.code, now
	c := Change{At: now, Turn: &turn, Thread: &ThreadChange{State: Idle, Reason: e.reason, Code: e.code}}
	if e.state == TurnFailed {
		c.Thread.State = Failed
	}
	if e.state == TurnCompleted {
		c.LastSeq = r.lastSeq()
	}
	c.Messages, c.Calls = r.leftovers(now)
	if err := r.apply(ctx, c); err != nil {
		return err
	}
	if r.host == nil {
		return nil
	}
	var items []item
	for _, call := range c.Calls {
		items = append(items, callItem(call))
	}
	h := agents.Hint{Source: agents.FromHook, Mood: agents.Ready}
	if e.state == TurnFailed {
		h.Mood, h.Reason, h.Limit = agents.Trouble, e.reason, r.limit
		items = append(items, failureItem(&turn, now))
	}
	r.host.Record(items)
	r.host.Observe(h)
	return nil
}

// lastSeq is the position of the newest message that the turn knows.
func (r *running) lastSeq() (last int64) {
	for _, m := range r.messages {
		last = max(last, m.Seq)
	}
	return last
}

// leftovers are what an ended turn leaves open, ended: a message that is being written, calls without a result.
func (r *running) leftovers(now int64) (messages []*Message, calls []*Call) {
	for _, m := range r.messages {
		if m.State == Streaming {
			o := *m
			o.State, o.Note, o.DoneAt = Discarded, "the turn ended before the answer was complete", now
			messages = append(messages, &o)
		}
		for _, c := range r.calls[m.ID] {
			if c.State.Ended() {
				continue
			}
			o := *c
			if o.EndedAt = now; c.State == CallRunning {
				o.State, o.Content = CallUnknown, textParts(unknownWords)
			} else {
				o.State, o.Content = CallSkipped, textParts("The call was not begun: the turn had ended.")
			}
			calls = append(calls, &o)
		}
	}
	return messages, calls
}
