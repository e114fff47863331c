package sessions

import (
	"time"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// looks are the timers of what has to be looked at: it says nothing by itself. Guarded by the session's mu.
type looks struct {
	process   *time.Timer
	processAt time.Time
	screen    *time.Timer
	blind     bool // the guest cannot tell of processes
}

func (k *looks) stop() {
	for _, t := range []*time.Timer{k.process, k.screen} {
		if t != nil {
			t.Stop()
		}
	}
}

// watchScreen plans to read the screen once it is quiet. It is called under mu, after output or a key.
func (l *live) watchScreen() {
	if l.looks.screen != nil || l.svc.cfg.Agents.Screen(l.row.Agent).Lines() == 0 {
		return
	}
	l.looks.screen = l.svc.after(state.ScreenQuiet, l.readScreen)
}

// readScreen reads the screen by the agent's rules, or waits on while output flows.
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
	if l.machine.LastOut.Equal(at) { // else it is read again
		h.Reason = safetext.Line(h.Reason)
		l.machine.Hear(time.Now(), h)
		l.judge()
	}
}
