package state

import (
	"cmp"
	"math"
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// said is the newest report of one source.
type said struct {
	mood  agents.Mood
	weak  bool
	vague bool // it asks, without saying what
	text  string
	since time.Time     // when it began to report so
	at    time.Time     // when it last reported so
	spent agents.Source // the source that overruled it; 0 = it applies
}

// Machine derives a session's state from evidence: each source's last report, and when output came, CPU was used, and a person
// typed. Its rules are the tables of rules.go. Not safe for concurrent use; its owner passes the time.
type Machine struct {
	explicit bool // the agent reports when it works and when it is idle
	rules    *weights
	started  time.Time

	State   State
	Reason  string
	source  agents.Source     // the one that decided; 0 = none
	Trouble bool              // idle after an error
	stuckAt time.Time         // since when something that should move does not; zero: it is not stuck
	hushed  bool              // idle because the source that reported "working" fell silent
	doneAt  time.Time         // when it finished its turn on its own and nobody has typed since
	limit   *usagelimit.Limit // of its provider, which ended its last turn; typing does not end it, work does
	limited *usagelimit.Limit // as last evaluated
	busyAt  time.Time         // when the agent last said that it works, by the clock that dates its limits: older ones are of earlier turns

	words     [agents.Sources]said
	anyMood   bool
	confirmed time.Time // when the screen last showed that the question is open

	UpTo      int64     // the evaluated output: the offset of the next byte
	past      time.Time // time given to reports in output from before a restart, whose actual time is unknown
	LastOut   time.Time
	LastInput time.Time
	echoes    int // pieces that may still be the echo of a key
	score     float64
	scoreAt   time.Time
	flowing   bool
	work      work
	turn      time.Time // when this turn of work began

	dirty bool
	next  time.Time // when to evaluate again; zero: never
}

func New(explicit bool, started time.Time, s State, reason string) Machine {
	m := Machine{explicit: explicit, rules: &rules, started: started, State: s, Reason: reason, dirty: true, anyMood: s != Starting}
	if explicit {
		m.rules = &explicitRules
	}
	return m
}

// decay lowers the score with time. Call it before reading or adding to the score.
func (m *Machine) decay(now time.Time) {
	if dt := now.Sub(m.scoreAt).Seconds(); dt > 0 {
		m.score *= math.Exp(-dt)
	}
	m.scoreAt = now
}

// Output records that n bytes came.
func (m *Machine) Output(now time.Time, n int) {
	if m.LastOut.IsZero() || m.silent() {
		m.dirty = true
	}
	m.LastOut = now
	if n <= echoBytes && m.echoes > 0 && now.Sub(m.LastInput) < echoWithin {
		m.echoes--
		return
	}
	m.decay(now)
	m.score = min(m.score+float64(n)+pieceBytes, scoreCeiling)
	if m.score >= busyAbove && m.rules[agents.FromBytes][agents.Busy].power > 0 {
		m.flowing = true
		m.word(now, now, agents.Hint{Source: agents.FromBytes, Mood: agents.Busy, Reason: "prints output"})
	}
}

// silent reports whether the state is what it is because nothing was printed.
func (m *Machine) silent() bool { return m.hushed || !m.stuckAt.IsZero() }

// Evaluate updates the state and reports whether it changed. next is when to evaluate again if nothing happens; zero: never.
func (m *Machine) Evaluate(now time.Time) (changed bool, next time.Time) {
	if !m.dirty && (m.next.IsZero() || now.Before(m.next)) {
		return false, m.next
	}
	m.dirty = false
	m.decay(now)
	if m.flowing && m.score < idleBelow {
		m.flowing = false
		w := &m.words[agents.FromBytes] // it ends what it began, and answers no question asked meanwhile
		w.mood, w.text, w.at = agents.Ready, "quiet", now
	}
	was, silent, stuck, done, trouble := m.State, m.silent(), m.stuckAt, m.doneAt, m.Trouble
	state, reason, next := m.judge(now)
	if state == Idle && was == Working && m.stuckAt.IsZero() && !m.Trouble && m.finishes() {
		m.doneAt = now
	} else if state == Working || state == Waiting || m.Trouble { // a turn that ended with an error is not finished
		m.doneAt = time.Time{}
	}
	if state == Working && was != Working && was != Waiting && !silent {
		m.turn = now
		m.work.tool, m.work.toolAt, m.work.pid, m.work.idleAt = "", time.Time{}, 0, time.Time{}
	}
	changed = m.limit != m.limited || state != m.State || reason != m.Reason || !stuck.Equal(m.stuckAt) || !done.Equal(m.doneAt) || trouble != m.Trouble
	m.State, m.Reason, m.next, m.limited = state, reason, next, m.limit
	return changed, next
}

// finishes reports whether the agent itself reported that it is idle, without a person's doing.
func (m *Machine) finishes() bool {
	return m.explicit && m.source != 0 && m.source != agents.FromPerson && m.words[m.source].mood == agents.Ready &&
		m.words[m.source].since.Sub(m.LastInput) > insistAfter
}

func (m *Machine) judge(now time.Time) (State, string, time.Time) {
	m.Trouble, m.hushed, m.stuckAt = false, false, time.Time{}
	src := m.winner()
	if src != 0 && m.words[src].mood == agents.Asking {
		// The question is being answered when a key came after it was last seen open.
		seen := m.confirmed
		for i := range m.words {
			if w := &m.words[i]; w.mood == agents.Asking && w.spent == 0 {
				seen = later(seen, w.at)
			}
		}
		if !seen.After(m.LastInput) {
			if until := m.LastInput.Add(answering); now.Before(until) {
				m.source = src
				return Waiting, cmp.Or(m.words[src].text, "needs an answer"), until
			}
			m.answered(now)
			m.dirty = false
			src = m.winner()
		}
	}
	m.source = src
	if src != 0 {
		w := &m.words[src]
		switch w.mood {
		case agents.Asking:
			return Waiting, cmp.Or(w.text, "needs an answer"), time.Time{}
		case agents.Busy:
			return m.busy(now, src)
		case agents.Trouble:
			m.Trouble = true
			return Idle, cmp.Or(w.text, "stopped with an error"), time.Time{}
		case agents.Ready:
			if m.explicit || src == agents.FromPerson || src == agents.FromProcess {
				return Idle, cmp.Or(w.text, "waits for a prompt"), time.Time{}
			}
		}
	}
	if m.State == Starting && !m.anyMood && (m.explicit || m.LastOut.IsZero()) {
		if until := m.started.Add(startingFor); now.Before(until) {
			return Starting, m.Reason, until
		}
	}
	if m.LastOut.IsZero() && !m.anyMood {
		if since := later(m.started, m.work.cpuAt); m.explicit {
			if until := since.Add(stuckAfter); now.Before(until) {
				return Idle, "has printed nothing yet", until
			}
			m.stuckAt = since
		}
		return Idle, "has printed nothing yet", time.Time{}
	}
	return Idle, "quiet", time.Time{}
}

// busy evaluates a session that src reports as working.
func (m *Machine) busy(now time.Time, src agents.Source) (State, string, time.Time) {
	w := &m.words[src]
	if src == agents.FromBytes && m.flowing {
		wait := time.Duration(math.Log(m.score/idleBelow) * float64(time.Second))
		return Working, w.text, now.Add(max(wait, 0) + 20*time.Millisecond)
	}
	words := cmp.Or(w.text, "reports that it is working")
	heard := later(w.at, later(m.LastOut, m.work.cpuAt))
	life := m.weight(src).life
	tool := !m.work.toolAt.IsZero()
	if tool {
		life = max(life, stuckAfter)
	}
	until := heard.Add(life)
	if now.Before(until) {
		if !tool || m.work.idleAt.IsZero() {
			return Working, words, until
		}
		if hung := later(m.work.idleAt, w.since).Add(hungAfter); now.Before(hung) {
			return Working, words, sooner(until, hung)
		}
		m.stuckAt = later(m.work.idleAt, w.since)
		return Working, "waits for " + cmp.Or(m.work.tool, "a program") + ", which uses no CPU", until
	}
	m.hushed = true
	if until := heard.Add(stuckAfter); now.Before(until) {
		return Idle, "reported that it was working, but has been silent since", until
	}
	if src != agents.FromPerson && m.explicit {
		m.stuckAt = heard
	}
	return Idle, "reported that it was working, but has been silent since", time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// LastMoved is the time of the last output or input.
func (m *Machine) LastMoved() time.Time { return later(m.LastOut, m.LastInput) }

// Says is the mood a source reported last.
func (m *Machine) Says(from agents.Source) agents.Mood { return m.words[from].mood }
