package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/signals"
)

// rehearMost bounds the output that is evaluated again after a restart.
const rehearMost = 256 << 10

// rehear evaluates, after a restart, output in the log that the stored state does not cover: the server may have died between
// storing the two. Then it reads the screen. Call it before output flows.
func (l *live) rehear() {
	first, end := l.log.Bounds()
	quiet := signals.Scanner{Clean: safetext.Line, Signal: func(s agents.Signal) {
		l.mu.Lock()
		defer l.mu.Unlock()
		h := l.svc.cfg.Agents.Read(l.row.Agent, s)
		h.Reason = safetext.Cut(h.Reason, safetext.MaxLine)
		h.Reason = l.masks.Text(h.Reason)
		l.machine.Recalled(&h)
		l.machine.Observe(time.Now(), h)
	}}
	l.mu.Lock()
	off := max(first, l.machine.UpTo, end-rehearMost)
	l.machine.UpTo = end
	l.mu.Unlock()
	buf := make([]byte, readSize)
	for off < end {
		n, at, err := l.log.ReadAt(buf[:min(readSize, end-off)], off)
		if n == 0 || err != nil {
			break
		}
		quiet.Scan(buf[:n])
		off = at + int64(n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if end > 0 {
		l.watchScreen()
	}
}

// evidence takes what a source reports about the session's state, stamps the time and evaluates it. Any goroutine may call it,
// without holding l.mu.
func (l *live) evidence(h agents.Hint) {
	h.Reason = safetext.Line(h.Reason)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Reason = l.masks.Text(h.Reason)
	l.machine.Observe(time.Now(), h)
	l.prompts.Hint(h)
	l.judge()
}

// Correct sets the state of a running session by hand (working, waiting or idle), because somebody sees that it is wrong, until
// any source reports something new; auto undoes that. Errors: not_found, session_not_running, invalid_state.
func (s *Service) Correct(ctx context.Context, actor accounts.Actor, id, state string) (Session, error) {
	mood := agents.MoodNamed(state)
	switch {
	case state == "auto":
		mood = agents.Unsaid
	case mood != agents.Busy && mood != agents.Asking && mood != agents.Ready:
		return Session{}, fault.New(fault.Invalid, "invalid_state", "state must be working, waiting, idle or auto.").With("field", "state")
	}
	l, err := s.acquire(ctx, id)
	if err != nil {
		return Session{}, err
	}
	defer s.release(l)
	if row := l.snapshot(); row.State.Ended() {
		return Session{}, notRunning(row)
	}
	l.evidence(agents.Hint{Source: agents.FromPerson, Mood: mood, Reason: actor.User.Name + " says so"})
	return s.hydrate(l.snapshot()), nil
}
