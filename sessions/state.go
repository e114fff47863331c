package sessions

import (
	"math"
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

// Rules of the state. All evidence decays: no source may hold a session in a state for ever.
const (
	startingFor  = 10 * time.Second       // a session that shows nothing at all is starting for so long
	sayWorking   = 15 * time.Second       // "working" without a byte is believed for so long
	echoWithin   = 200 * time.Millisecond // output so soon after a key is its echo
	echoBytes    = 128                    // when it is no more than this
	busyAbove    = 256.0                  // score in bytes, decaying by e each second, that means working
	idleBelow    = 64.0                   // score that means idle again
	scoreCeiling = 1024.0                 // so that the end of a burst shows within three seconds
)

// machine tells a session's state from cheap evidence: what the agent tells the terminal, how many bytes flow, and what a
// person types. Not safe for concurrent use; its owner gives it the time.
type machine struct {
	explicit bool // the agent tells when it works and when it is idle
	started  time.Time

	state  State
	reason string

	mood    agents.Mood // the last that was said
	words   string
	moodAt  time.Time
	anyMood bool

	lastOut   time.Time
	lastInput time.Time
	score     float64
	scoreAt   time.Time
	flowing   bool
}

func newMachine(explicit bool, started time.Time, s State, reason string) machine {
	m := machine{explicit: explicit, started: started, state: s, reason: reason}
	switch s { // after a restart: what was said last holds until it decays or something else is said
	case Waiting:
		m.mood, m.words = agents.Asking, reason
	case Working:
		if explicit {
			m.mood, m.words, m.moodAt = agents.Busy, reason, time.Now()
		}
	}
	m.anyMood = s != Starting
	return m
}

func (m *machine) decay(now time.Time) {
	if dt := now.Sub(m.scoreAt).Seconds(); dt > 0 {
		m.score *= math.Exp(-dt)
	}
	m.scoreAt = now
}

// output says that n bytes came.
func (m *machine) output(now time.Time, n int) {
	m.decay(now)
	m.lastOut = now
	if n <= echoBytes && now.Sub(m.lastInput) < echoWithin {
		return
	}
	m.score = min(m.score+float64(n), scoreCeiling)
	if m.score >= busyAbove {
		m.flowing = true
		if m.mood == agents.Asking && !m.explicit {
			m.mood = agents.Unsaid // it went on: the question is answered
		}
	}
}

// hint says what the agent said.
func (m *machine) hint(now time.Time, h agents.Hint) {
	if h.Mood == agents.Unsaid || h.Mood == agents.Closing {
		return
	}
	if h.Weak && m.mood == agents.Asking {
		return
	}
	m.mood, m.words, m.moodAt, m.anyMood = h.Mood, h.Reason, now, true
}

// input says that a person typed: whatever was asked is being answered.
func (m *machine) input(now time.Time) {
	m.lastInput = now
	if m.mood == agents.Asking || m.mood == agents.Trouble {
		m.mood = agents.Unsaid
	}
}

// evaluate tells the state now and reports whether it changed. next is when to ask again if nothing happens; zero: never.
func (m *machine) evaluate(now time.Time) (changed bool, next time.Time) {
	m.decay(now)
	if m.flowing && m.score < idleBelow {
		m.flowing = false
	}
	state, reason, next := m.judge(now)
	changed = state != m.state || reason != m.reason
	m.state, m.reason = state, reason
	return changed, next
}

func (m *machine) judge(now time.Time) (State, string, time.Time) {
	switch m.mood {
	case agents.Asking:
		return Waiting, or(m.words, "needs an answer"), time.Time{}
	case agents.Busy:
		heard := m.moodAt
		if m.lastOut.After(heard) {
			heard = m.lastOut
		}
		if until := heard.Add(sayWorking); now.Before(until) {
			return Working, or(m.words, "says it is working"), until
		}
		return Idle, "said it was working, but has been silent since", time.Time{}
	case agents.Trouble:
		return Idle, or(m.words, "stopped with an error"), time.Time{}
	case agents.Ready:
		if m.explicit {
			return Idle, or(m.words, "waits for a prompt"), time.Time{}
		}
	}
	if m.state == Starting && !m.anyMood && (m.explicit || m.lastOut.IsZero()) {
		if until := m.started.Add(startingFor); now.Before(until) {
			return Starting, m.reason, until
		}
		if m.lastOut.IsZero() {
			return Idle, "has printed nothing yet", time.Time{}
		}
	}
	if m.flowing {
		wait := time.Duration(math.Log(m.score/idleBelow) * float64(time.Second))
		return Working, "prints output", now.Add(max(wait, 0) + 20*time.Millisecond)
	}
	return Idle, "quiet", time.Time{}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
