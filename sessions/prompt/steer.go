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

// When a queued prompt is sent.
const (
	keysQuiet   = 3 * time.Second        // nobody typed for so long,
	idleFor     = time.Second            // the agent has been idle for so long,
	untoldIdle  = 3 * time.Second        // one that does not tell, since the last prompt and since it printed something,
	quietWait   = 30 * time.Second       // and its screen is quiet, or it has been idle for so long
	firstTurn   = 15 * time.Second       // how long a prompt given at the start may take to show
	askAgain    = 2 * time.Second        // between two looks at a question on the screen
	enterAgain  = 4 * time.Second        // an agent that has not gone to work gets one more Enter, and then each time after twice as long
	storeWithin = 2 * time.Second        // for a write while the keyboard is taken
	pasteSeen   = 1 * time.Second        // how long to wait until a paste is seen on the screen
	settleFor   = 15 * time.Second       // for finding out what has arrived
	lookEvery   = 250 * time.Millisecond // while waiting for something that rings no bell
)

// steering is what a session knows about its queue of prompts. Its goroutine lives while something is queued.
type steering struct {
	kick chan struct{} // one token: the queue changed

	// Under the session's lock.
	on      bool        // the goroutine runs
	more    bool        // something was queued since it looked last
	first   bool        // the prompt it was started with is being pasted
	why     string      // why the first prompt waits
	typedAt time.Time   // a person typed
	draft   bool        // a person typed text and has not sent it
	sentAt  time.Time   // the last prompt of the queue was typed
	last    state.State // before the newest change
	busy    uint64      // how often the agent said it works
	worked  bool        // it was working at some time since it was started here
}

func newSteering() steering { return steering{kick: make(chan struct{}, 1)} }

// Pressed notes what a person typed: text in the agent's box must not get a prompt pasted behind it. It costs a look at the
// first and the last byte.
func (l *Session) Pressed(p []byte) {
	if len(p) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last := p[0], p[len(p)-1]
	switch {
	case first == signals.Esc && len(p) > 1 && !isPaste(p): // a cursor key, a mouse, a report
		return
	case last == '\r' || last == '\n' || last == 0x03 || last == 0x15 || last == signals.Esc: // sent, or cleared
		l.steering.draft = false
	case first >= 0x20 || isPaste(p):
		l.steering.draft = l.host.Row().State != state.Waiting // a digit answers a question at once
	}
	l.steering.typedAt = time.Now()
}

func isPaste(p []byte) bool { return len(p) > 6 && string(p[:6]) == "\x1b[200~" }

// Steered notes a change of state. It is called under the session's lock.
func (l *Session) Steered() {
	began := l.host.Row().State == state.Working && l.steering.last != state.Working
	l.steering.last = l.host.Row().State
	if began {
		l.steering.worked = true
		if l.steering.draft && time.Since(l.steering.typedAt) < keysQuiet {
			l.steering.draft = false // what was typed made it work
		}
	}
}

// delivers notes that the prompt the session was started with is being pasted, and when that is over.
func (l *Session) delivers(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steering.first = on
	l.host.Bump()
}

// Hint notes that the agent said it works, also where it was done before anybody could see it work. It is called under the session's lock.
func (l *Session) Hint(h agents.Hint) {
	if h.Mood == agents.Busy {
		l.steering.busy++
	}
}

// Waits says why the first prompt of the queue is not sent now.
func (l *Session) Waits() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steering.why
}

// Look lets the session look at its queue.
func (l *Session) Look() {
	l.mu.Lock()
	start := !l.steering.on && !l.host.Row().State.Ended()
	l.steering.on = l.steering.on || start
	l.steering.more = true
	l.mu.Unlock()
	select {
	case l.steering.kick <- struct{}{}:
	default:
	}
	if !start {
		return
	}
	release, ok := l.host.Hold()
	if !ok {
		return
	}
	if !l.queue.cfg.Tasks.Go(func() { defer release(); l.steer(l.queue.cfg.Context) }) {
		release()
	}
}

// steer sends what is queued, one prompt at a time, until nothing is left or the session ends.
func (l *Session) steer(ctx context.Context) {
	for unread := false; ; {
		l.mu.Lock()
		l.steering.more = false
		l.mu.Unlock()
		p, err := l.queue.cfg.Store.NextPrompt(ctx, l.about.ID)
		switch {
		case fault.Is(err, fault.NotFound):
			l.mu.Lock()
			if !l.steering.more {
				l.steering.on, l.steering.why = false, ""
				l.mu.Unlock()
				return
			}
			l.mu.Unlock()
			continue
		case err != nil:
			if ctx.Err() == nil && !unread {
				l.queue.cfg.Log.Warn("queue of prompts not read; the server tries again until it is", "session_id", l.about.ID, "error", err)
			}
			unread = true
			if !tasks.Sleep(ctx, time.Second) {
				return
			}
			continue
		}
		unread = false
		if !l.next(ctx, p) {
			return
		}
	}
}

// next waits until p may be sent and sends it. It returns true when the queue is to be looked at again: p was sent, or the
// queue changed; false when the session has ended or the server stops.
func (l *Session) next(ctx context.Context, p Prompt) bool {
	if p.State == Sending { // its sender gave up, or could not store how it went
		l.resolve(ctx, p)
		return !l.finished(ctx)
	}
	for {
		l.mu.Lock()
		changed := l.host.Changed()
		why, wait := l.notYet(p, time.Now())
		l.mu.Unlock()
		if why == "" {
			if asks := l.asks(ctx); asks != "" {
				why, wait = asks, askAgain
			}
		}
		if why == "" {
			l.explain(p, "")
			err := l.submit(ctx, p)
			if errors.Is(err, errNotNow) {
				continue
			}
			if err != nil {
				l.queue.cfg.Log.Warn("queued prompt not sent", "session_id", l.about.ID, "prompt_id", p.ID, "error", err)
				if !tasks.Sleep(ctx, time.Second) {
					return false
				}
			}
			return !l.finished(ctx)
		}
		l.explain(p, why)
		if !l.rest(ctx, wait, changed) {
			return false
		}
		select {
		case <-l.steering.kick:
			return true
		default:
		}
	}
}

// rest waits for a change of the session, of its queue, or for d (0: without limit). False when it is over.
func (l *Session) rest(ctx context.Context, d time.Duration, changed <-chan struct{}) bool {
	var ring <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		ring = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.cfg.Done:
		return false
	case <-l.steering.kick:
		l.steerAgain()
	case <-changed:
	case <-ring:
	}
	return true
}

func (l *Session) steerAgain() {
	select {
	case l.steering.kick <- struct{}{}:
	default:
	}
}

func (l *Session) finished(ctx context.Context) bool { return l.over() || ctx.Err() != nil }

// explain keeps why the first prompt waits, and tells who looks.
func (l *Session) explain(p Prompt, why string) {
	l.mu.Lock()
	moved := l.steering.why != why
	l.steering.why = why
	l.mu.Unlock()
	if moved {
		l.queue.publish(l.queue.cfg.Context, p)
	}
}

// notYet says why p cannot be sent now, "" when it can, and when to look again at the latest; 0: when something changes. It is
// called under the session's lock.
func (l *Session) notYet(p Prompt, now time.Time) (why string, wait time.Duration) {
	row := l.host.Row()
	started := now.Sub(time.UnixMilli(row.StartedAt))
	first := row.Prompt != ""
	quiet := now.Sub(l.cfg.Machine.LastOut)
	idle := min(now.Sub(time.UnixMilli(row.StateAt)), now.Sub(l.steering.sentAt))
	if why, wait := l.host.Paused(p.Held == "" && !row.Stopping && row.State != state.Waiting && (row.HeldBy == "" || row.HeldBy == p.CreatedBy)); why != "" {
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
	case l.steering.first, first && p.Text != row.Prompt && l.about.Explicit && !l.steering.worked && started < firstTurn:
		return "the agent is about to take its first prompt", lookEvery
	case l.cfg.Machine.Trouble && !p.Urgent:
		return "the agent stopped with an error; send it now once that is mended", 0
	case l.steering.draft && !p.Urgent:
		return "somebody typed text that the agent has not got yet: send or clear it in the terminal", lookEvery
	case now.Sub(l.steering.typedAt) < keysQuiet && !p.Urgent:
		return "somebody is typing", keysQuiet - now.Sub(l.steering.typedAt)
	case idle < idleFor && l.steering.worked:
		return "the agent has just become idle", idleFor - idle
	case !l.about.Explicit && !l.steering.sentAt.IsZero() && min(quiet, now.Sub(l.steering.sentAt)) < untoldIdle && now.Sub(l.steering.sentAt) < quietWait:
		return "the program may still be at work", max(untoldIdle-min(quiet, now.Sub(l.steering.sentAt)), lookEvery)
	case quiet < pasteQuiet && idle < quietWait:
		return "the screen is still moving", pasteQuiet - quiet
	}
	return "", 0
}

// asks looks at the screen for a question the agent has not told of yet.
func (l *Session) asks(ctx context.Context) string {
	if !l.queue.cfg.Agents.Converses(l.about.Agent) {
		return ""
	}
	look, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	lines, err := l.cfg.Lines(look)
	if err != nil || !agents.Asks(lines) {
		return ""
	}
	return "the agent shows a question"
}

// stance is what tells whether an agent has gone to work since.
type stance struct {
	stateAt int64
	busy    uint64
}

// stand is called under the session's lock.
func (l *Session) stand() stance { return stance{l.host.Row().StateAt, l.steering.busy} }

// took waits until the agent has gone to work on what was typed; before is its stance from before. An agent that does not
// tell is believed, and so is a command of the agent's own.
func (l *Session) took(ctx context.Context, p Prompt, before stance) bool {
	keys := l.queue.cfg.Agents.Keys(l.about.Agent)
	if !l.about.Explicit || keys.Commands != "" && len(p.Text) > 0 && containsByte(keys.Commands, p.Text[0]) {
		return true
	}
	began, again := time.Now(), enterAgain
	for {
		l.mu.Lock()
		changed, does, now := l.host.Changed(), l.host.Row().State, l.stand()
		l.mu.Unlock()
		gone := time.Since(began)
		switch {
		case does != state.Idle || now != before:
			return true
		case gone >= l.queue.cfg.AcceptWithin:
			return false
		case gone >= again:
			// A busy agent may take an Enter for a part of the paste before it, and read what was typed only now. On an empty box
			// another does nothing.
			again = 2 * gone
			if l.asks(ctx) == "" {
				_ = l.Send(ctx, []byte(keys.Submit))
			}
		}
		t := time.NewTimer(lookEvery)
		select {
		case <-changed:
		case <-t.C:
		case <-l.cfg.Done:
			t.Stop()
			return true
		case <-ctx.Done():
			t.Stop()
			return true // who comes next knows from SentAt that it was typed
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

// closePrompt stores how a prompt that was being sent went.
func (l *Session) closePrompt(p Prompt, state State, reason string) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		got, err := l.queue.cfg.Store.EditPrompt(l.queue.cfg.Context, p.ID, -1, func(q *Prompt) error {
			if q.State == Sending {
				q.State, q.Reason, q.Urgent = state, reason, false
				if state == Queued {
					q.Frame, q.Frames, q.SentAt, q.Urgent = 0, 0, 0, p.Urgent
				}
			}
			return nil
		})
		if err == nil && got.State == Failed {
			_, err = l.queue.cfg.Store.HoldPrompts(l.queue.cfg.Context, l.about.ID, "the prompt before it failed")
		}
		if err == nil {
			l.queue.publish(l.queue.cfg.Context, got)
			if got.State == Sent {
				l.host.Sent(got)
				l.cfg.Note(journal.Prompt, map[string]any{"text": safetext.Cut(got.Text, NotedBytes), "user_id": got.CreatedBy, "prompt_id": got.ID})
				l.host.Record(got)
			}
			return
		}
		if fault.Is(err, fault.NotFound) || !tasks.Sleep(l.queue.cfg.Context, wait) {
			return
		}
		l.queue.cfg.Log.Warn("what became of a prompt was not stored", "session_id", l.about.ID, "prompt_id", p.ID, "error", err)
	}
}
