package prompt

import (
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/state"
)

// hosted reports whether the session's agent works in the server.
func (s *Session) hosted() bool {
	return s.queue.cfg.Hosts != nil && s.queue.cfg.Agents.Hosted(s.about.Agent)
}

// sendQueued sends a queued prompt.
func (s *Session) sendQueued(ctx context.Context, p Prompt) error {
	if !s.hosted() {
		return s.submit(ctx, p)
	}
	p.State, p.Frame, p.Frames = Sending, 0, 0
	if err := s.claim(ctx, p); err != nil {
		return err
	}
	failpoint.Reach(failpoint.QueueClaimed)
	s.queue.publish(ctx, p)
	s.give(ctx, p, false)
	return nil
}

// give gives the agent a prompt that is being sent, and stores the outcome. When the server dies, the next one gives it again, and the
// agent takes it once.
func (s *Session) give(ctx context.Context, p Prompt, again bool) {
	s.mu.Lock()
	before := s.stand()
	s.mu.Unlock()
	working, err := s.queue.cfg.Hosts.Give(ctx, p, again)
	code := fault.CodeOf(err)
	if ctx.Err() != nil {
		return // the next server gives it
	}
	switch {
	case err == nil:
		failpoint.Reach(failpoint.QueueTyped)
		if working {
			s.begins(ctx, before)
		}
		s.markSent(ctx, p)
		s.closePrompt(p, Sent, "")
	case code == "turn_running", code == "undo_running", code == "session_not_running":
		s.closePrompt(p, Queued, "")
		s.rest(ctx, time.Second, nil)
	case lasting(err):
		s.closePrompt(p, Failed, fault.Words(err, "the agent did not take it"))
	default:
		s.queue.cfg.Log.Warn("a queued prompt could not be given to the agent; the server tries again", "session_id", s.about.ID, "prompt_id", p.ID, "error", err)
		s.rest(ctx, time.Second, nil)
	}
}

// lasting reports whether another try would fail as well.
func lasting(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return false
	}
	switch f.Kind {
	case fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict:
		return true
	}
	return false
}

// begins waits until the session shows that its agent works, or has worked: the next prompt is not to join this one's turn.
func (s *Session) begins(ctx context.Context, before stance) {
	ctx, cancel := context.WithTimeout(ctx, s.queue.cfg.AcceptWithin)
	defer cancel()
	for {
		s.mu.Lock()
		changed, idle := s.host.Changed(), s.host.Row().State == state.Idle && s.stand() == before
		s.mu.Unlock()
		if !idle {
			return
		}
		select {
		case <-changed:
		case <-s.cfg.Done:
			return
		case <-ctx.Done():
			return
		}
	}
}
