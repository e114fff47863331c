package prompt

import (
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/signals"
	"github.com/parawork/parawork/sessions/state"
)

// Conditions for sending a queued prompt, and their timing.
const (
	keysQuiet      = 3 * time.Second        // nobody typed for this long,
	idleFor        = time.Second            // the agent has been idle for this long,
	unreportedIdle = 3 * time.Second        // for an agent that does not report: since the last prompt and its last output,
	quietWait      = 30 * time.Second       // and its screen is quiet, or it has been idle for this long
	firstTurn      = 15 * time.Second       // how long an initial prompt may take to show an effect
	askAgain       = 2 * time.Second        // between two looks at a question on the screen
	enterAgain     = 4 * time.Second        // an agent that has not started to work gets one more Enter, and then each time after twice as long
	storeWithin    = 2 * time.Second        // for a write while the keyboard is taken
	pasteSeen      = 1 * time.Second        // how long to wait until a paste shows on the screen
	settleFor      = 15 * time.Second       // for finding out what has arrived
	lookEvery      = 250 * time.Millisecond // while polling for something that sends no notification
)

// steering is what a session knows about its queue of prompts. Its goroutine lives while something is queued.
type steering struct {
	kick chan struct{} // one token: the queue changed

	// Guarded by the session's lock.
	on      bool        // the goroutine runs
	more    bool        // something was queued since its last look
	first   bool        // the initial prompt is being pasted
	why     string      // why the first prompt waits
	typedAt time.Time   // a person typed
	draft   bool        // a person typed text and has not sent it
	sentAt  time.Time   // the last prompt of the queue was typed
	last    state.State // before the newest change
	busy    uint64      // how often the agent reported that it works
	worked  bool        // it was working at some time since it was started by this server
}

func newSteering() steering { return steering{kick: make(chan struct{}, 1)} }

// Pressed records what a person typed: a prompt must not be pasted after text in the agent's input field. It costs a look at the
// first and the last byte.
func (s *Session) Pressed(p []byte) {
	if len(p) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first, last := p[0], p[len(p)-1]
	switch {
	case first == signals.Esc && len(p) > 1 && !isPaste(p): // a cursor key, a mouse or other report
		return
	case last == '\r' || last == '\n' || last == 0x03 || last == 0x15 || last == signals.Esc: // sent, or cleared
		s.steering.draft = false
	case first >= 0x20 || isPaste(p):
		s.steering.draft = s.host.Row().State != state.Waiting // a digit answers a question at once
	}
	s.steering.typedAt = time.Now()
}

func isPaste(p []byte) bool { return len(p) > 6 && string(p[:6]) == "\x1b[200~" }

// Steered records a change of state. The caller holds the session's lock.
func (s *Session) Steered() {
	began := s.host.Row().State == state.Working && s.steering.last != state.Working
	s.steering.last = s.host.Row().State
	if began {
		s.steering.worked = true
		if s.steering.draft && time.Since(s.steering.typedAt) < keysQuiet {
			s.steering.draft = false // the typed input made it work
		}
	}
}

// delivers records that the initial prompt is being pasted, and when that is over.
func (s *Session) delivers(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steering.first = on
	s.host.Bump()
}

// Hint records that the agent reported work, even if it was done before its state could show it. The caller holds the session's
// lock.
func (s *Session) Hint(h agents.Hint) {
	if h.Mood == agents.Busy {
		s.steering.busy++
	}
}

// Waits returns why the first prompt of the queue is not sent now.
func (s *Session) Waits() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steering.why
}

// Look makes the session check its queue.
func (s *Session) Look() {
	s.mu.Lock()
	start := !s.steering.on && !s.host.Row().State.Ended()
	s.steering.on = s.steering.on || start
	s.steering.more = true
	s.mu.Unlock()
	tasks.Wake(s.steering.kick)
	if !start {
		return
	}
	release, ok := s.host.Hold()
	if !ok {
		return
	}
	if !s.queue.cfg.Tasks.Go(func() { defer release(); s.steer(s.queue.cfg.Context) }) {
		release()
	}
}

// steer sends queued prompts, one at a time, until none is left or the session ends.
func (s *Session) steer(ctx context.Context) {
	for unread := false; ; {
		s.mu.Lock()
		s.steering.more = false
		s.mu.Unlock()
		p, err := s.queue.cfg.Store.NextPrompt(ctx, s.about.ID)
		switch {
		case fault.Is(err, fault.NotFound):
			s.mu.Lock()
			if !s.steering.more {
				s.steering.on, s.steering.why = false, ""
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			continue
		case err != nil:
			if ctx.Err() == nil && !unread {
				s.queue.cfg.Log.Warn("queue of prompts could not be read; the server keeps trying", "session_id", s.about.ID, "error", err)
			}
			unread = true
			if !tasks.Sleep(ctx, time.Second) {
				return
			}
			continue
		}
		unread = false
		if !s.next(ctx, p) {
			return
		}
	}
}

// next waits until p may be sent and sends it. It returns true when the queue is to be checked again: p was sent, or the queue
// changed; false when the session has ended or the server stops.
func (s *Session) next(ctx context.Context, p Prompt) bool {
	if p.State == Sending && s.hosted() {
		s.give(ctx, p, true)
		return !s.finished(ctx)
	}
	if p.State == Sending { // its sender gave up, or could not store the result
		s.resolve(ctx, p)
		return !s.finished(ctx)
	}
	for {
		s.mu.Lock()
		changed := s.host.Changed()
		why, wait := s.notYet(p, time.Now())
		s.mu.Unlock()
		if why == "" {
			if asks := s.asks(ctx); asks != "" {
				why, wait = asks, askAgain
			}
		}
		if why == "" {
			s.explain(p, "")
			err := s.sendQueued(ctx, p)
			if errors.Is(err, errNotNow) {
				continue
			}
			if err != nil {
				s.queue.cfg.Log.Warn("queued prompt could not be sent", "session_id", s.about.ID, "prompt_id", p.ID, "error", err)
				if !tasks.Sleep(ctx, time.Second) {
					return false
				}
			}
			return !s.finished(ctx)
		}
		s.explain(p, why)
		if !s.rest(ctx, wait, changed) {
			return false
		}
		select {
		case <-s.steering.kick:
			return true
		default:
		}
	}
}

// rest waits for a change of the session, of its queue, or for d (0: without limit). It returns false when the session is over.
func (s *Session) rest(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	var ring <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		ring = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.cfg.Done:
		return false
	case <-s.steering.kick:
		s.steerAgain()
	case <-changed:
	case <-ring:
	}
	return true
}

func (s *Session) steerAgain() {
	tasks.Wake(s.steering.kick)
}

func (s *Session) finished(ctx context.Context) bool { return s.over() || ctx.Err() != nil }

// explain stores why the first prompt waits, and notifies viewers.
func (s *Session) explain(p Prompt, why string) {
	s.mu.Lock()
	moved := s.steering.why != why
	s.steering.why = why
	s.mu.Unlock()
	if moved {
		s.queue.publish(s.queue.cfg.Context, p)
	}
}

// notYet returns why p cannot be sent now, "" when it can, and when to check again at the latest; 0: when something changes. The
// caller holds the session's lock.
func (s *Session) notYet(p Prompt, now time.Time) (why string, wait time.Duration) {
	row := s.host.Row()
	started := now.Sub(time.UnixMilli(row.StartedAt))
	first := row.Prompt != ""
	quiet := now.Sub(s.cfg.Machine.LastOut)
	idle := min(now.Sub(time.UnixMilli(row.StateAt)), now.Sub(s.steering.sentAt))
	if why, wait := s.host.Paused(p.Held == "" && !row.Stopping && row.State != state.Waiting && (row.HeldBy == "" || row.HeldBy == p.CreatedBy)); why != "" {
		return why, wait
	}
	switch does := row.State; {
	case row.Stopping:
		return "the session is being stopped", 0
	case p.Held != "":
		return p.Held, 0
	case row.HeldBy != "" && row.HeldBy != p.CreatedBy:
		return row.HeldName + " holds the keyboard", 0
	case does == state.Starting:
		return "the agent is starting", 0
	case does == state.Waiting:
		return "the agent waits for an answer", 0
	case does == state.Working:
		return "the agent is working", 0
	case s.hosted() && s.cfg.Machine.Trouble && !p.Urgent:
		return troubled, 0
	case s.hosted(): // nothing is typed
		return "", 0
	case s.steering.first, first && p.Text != row.Prompt && s.about.Explicit && !s.steering.worked && started < firstTurn:
		return "the agent is about to start on its first prompt", lookEvery
	case s.cfg.Machine.Trouble && !p.Urgent:
		return troubled, 0
	case s.steering.draft && !p.Urgent:
		return "the agent's input field holds unsent text: send or clear it in the terminal", lookEvery
	case now.Sub(s.steering.typedAt) < keysQuiet && !p.Urgent:
		return "somebody is typing", keysQuiet - now.Sub(s.steering.typedAt)
	case idle < idleFor && s.steering.worked:
		return "the agent has just become idle", idleFor - idle
	case !s.about.Explicit && !s.steering.sentAt.IsZero() && min(quiet, now.Sub(s.steering.sentAt)) < unreportedIdle && now.Sub(s.steering.sentAt) < quietWait:
		return "the program may still be working", max(unreportedIdle-min(quiet, now.Sub(s.steering.sentAt)), lookEvery)
	case quiet < pasteQuiet && idle < quietWait:
		return "the screen is still changing", pasteQuiet - quiet
	}
	return "", 0
}

const troubled = "the agent stopped with an error; send it now once that is fixed"

// asks looks at the screen for a question the agent has not reported yet.
func (s *Session) asks(ctx context.Context) string {
	if s.hosted() || !s.queue.cfg.Agents.Converses(s.about.Agent) {
		return ""
	}
	look, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	lines, err := s.cfg.Lines(look)
	if err != nil || !agents.Asks(lines) {
		return ""
	}
	return "the agent shows a question"
}

// stance is a snapshot to compare with later, to see whether an agent has started to work.
type stance struct {
	stateAt int64
	busy    uint64
}

// stand returns the current stance. The caller holds the session's lock.
func (s *Session) stand() stance { return stance{s.host.Row().StateAt, s.steering.busy} }

// took waits until the agent has started to work on the typed prompt; before is its earlier stance. An agent that does not report
// its state is assumed to have started, and so is one that was given a command of its own.
func (s *Session) took(ctx context.Context, p Prompt, before stance) bool {
	keys := s.queue.cfg.Agents.Keys(s.about.Agent)
	if !s.about.Explicit || keys.Commands != "" && len(p.Text) > 0 && containsByte(keys.Commands, p.Text[0]) {
		return true
	}
	began, again := time.Now(), enterAgain
	for {
		s.mu.Lock()
		changed, does, now := s.host.Changed(), s.host.Row().State, s.stand()
		s.mu.Unlock()
		gone := time.Since(began)
		switch {
		case does != state.Idle || now != before:
			return true
		case gone >= s.queue.cfg.AcceptWithin:
			return false
		case gone >= again:
			// A busy agent may take an Enter for a part of the paste before it, and read the prompt only now. In an empty input
			// field another Enter does nothing.
			again = 2 * gone
			if s.asks(ctx) == "" {
				_ = s.Send(ctx, []byte(keys.Submit))
			}
		}
		t := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-t.C:
		case <-s.cfg.Done:
			t.Stop()
			return true
		case <-ctx.Done():
			t.Stop()
			return true // SentAt tells the next server that it was typed
		}
		t.Stop()
	}
}

func containsByte(s string, b byte) bool {
	for i := range len(s) {
		if s[i] == b {
			return true
		}
	}
	return false
}

// closePrompt stores the outcome of a prompt that was being sent.
func (s *Session) closePrompt(p Prompt, state State, reason string) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		got, err := s.queue.cfg.Store.EditPrompt(s.queue.cfg.Context, p.ID, -1, func(q *Prompt) error {
			if q.State == Sending {
				q.State, q.Reason, q.Urgent = state, reason, false
				if state == Queued {
					q.Frame, q.Frames, q.SentAt, q.Urgent = 0, 0, 0, p.Urgent
				}
			}
			return nil
		})
		if err == nil && got.State == Failed {
			_, err = s.queue.cfg.Store.HoldPrompts(s.queue.cfg.Context, s.about.ID, "the prompt before it failed")
		}
		if err == nil {
			s.queue.publish(s.queue.cfg.Context, got)
			if got.State == Sent {
				s.host.Sent(got)
				s.cfg.Note(journal.Prompt, map[string]any{"text": safetext.Cut(got.Text, NotedBytes), "user_id": got.CreatedBy, "prompt_id": got.ID})
				s.host.Record(got)
			}
			return
		}
		if fault.Is(err, fault.NotFound) || !tasks.Sleep(s.queue.cfg.Context, wait) {
			return
		}
		s.queue.cfg.Log.Warn("the outcome of a prompt could not be stored", "session_id", s.about.ID, "prompt_id", p.ID, "error", err)
	}
}
