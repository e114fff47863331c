package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// looks are the timers for sources that must be polled. The session's mu guards them.
type looks struct {
	process   *time.Timer
	processAt time.Time
	screen    *time.Timer
	blind     bool // the guest cannot report processes
}

func (k *looks) stop() {
	for _, t := range []*time.Timer{k.process, k.screen} {
		if t != nil {
			t.Stop()
		}
	}
}

// watchScreen schedules reading the screen once it is quiet. The caller holds mu; it is called after output or a key.
func (l *live) watchScreen() {
	if l.looks.screen != nil || l.svc.cfg.Agents.Screen(l.row.Agent).Lines() == 0 {
		return
	}
	l.looks.screen = l.svc.after(state.ScreenQuiet, l.readScreen)
}

// readScreen reads the screen by the agent's rules, or keeps waiting while output flows.
func (l *live) readScreen() {
	l.mu.Lock()
	quiet := time.Since(l.machine.LastMoved())
	if quiet < state.ScreenQuiet && !l.row.State.Ended() {
		l.looks.screen = l.svc.after(state.ScreenQuiet-quiet, l.readScreen)
		l.mu.Unlock()
		return
	}
	l.looks.screen = nil
	over, at := l.row.State.Ended(), l.machine.LastOut
	rules := l.svc.cfg.Agents.Screen(l.row.Agent)
	l.mu.Unlock()
	if over {
		return
	}
	h := rules.Match(l.rec.Tail(agents.MaxRuleLines))
	h.Source = agents.FromScreen
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.machine.LastOut.Equal(at) { // otherwise it is read again
		h.Reason = safetext.Line(h.Reason)
		l.machine.Observe(time.Now(), h)
		l.judge()
	}
}

// The processes of a session are polled only while its state depends on it: when something that should move is silent.
const (
	lookWait = 5 * time.Second // for an answer
)

// watchWork schedules the next look at the processes. The caller holds mu.
func (l *live) watchWork() {
	at := l.machine.NextLook(time.Now())
	if at.IsZero() || l.looks.blind || l.guest == nil || l.looks.process != nil && !at.Before(l.looks.processAt.Add(-50*time.Millisecond)) {
		return
	}
	if l.looks.process != nil {
		l.looks.process.Stop()
	}
	l.looks.processAt = at
	var mine *time.Timer
	mine = l.svc.after(max(time.Until(at), 0), func() {
		l.lookAtWork(l.svc.hard)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.looks.process == mine { // otherwise an earlier look was scheduled meanwhile
			l.looks.process = nil
		}
		l.judge()
	})
	l.looks.process = mine
}

// lookAtWork asks the guest what the processes of the session do, if that still matters.
func (l *live) lookAtWork(ctx context.Context) {
	l.mu.Lock()
	g, at := l.guest, l.machine.NextLook(time.Now())
	over := l.row.State.Ended()
	l.mu.Unlock()
	if over || at.IsZero() || time.Until(at) > 0 {
		return // something happened meanwhile: judge schedules again
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	w, err := g.Work(ctx, l.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.machine.Worked(time.Now(), w)
	case fault.Is(err, fault.NotFound), fault.CodeOf(err) == "guest_wrong_answer": // it ended, or its guest is of an older build
		l.looks.blind = true
	default:
		l.machine.LookFailed(time.Now())
	}
}
