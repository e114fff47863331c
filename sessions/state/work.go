package state

import (
	"cmp"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
)

const usesCPU = 0.10 // of one core: this counts as work

const toolIdles = 0.005 // of one core: less counts as none

const lookFirst = time.Second // after the last output

const lookSlow = 30 * time.Second // for tools of an agent that turns its spinner, and for what has been silent for long

const lookUntil = 2 * time.Minute // of silence; then only for the program in front of a shell

// work records what the processes of the session do.
type work struct {
	lookedAt time.Time // zero: never
	cpu      int64     // ms, by then
	cpuAt    time.Time // when CPU was last seen used
	front    string    // the program in front of a shell
	more     bool      // there are more programs than the first

	// The programs started in this turn.
	tool   string    // the newest one's name
	toolAt time.Time // when it was started; zero: there is none
	pid    int
	toolMs int64     // CPU time of all of them
	idleAt time.Time // since when they have used none
}

// NextLook returns when to look at the processes next; zero: they decide nothing.
func (m *Machine) NextLook(now time.Time) time.Time {
	w := &m.work
	if m.flowing || m.State == Waiting {
		return time.Time{}
	}
	if m.explicit {
		switch {
		case m.source != 0 && m.words[m.source].mood == agents.Busy:
			heard := later(m.words[m.source].at, m.LastOut)
			if silent := now.Sub(heard); silent < 2*lookFirst {
				return sooner(heard.Add(2*lookFirst), later(m.turn, w.lookedAt).Add(lookSlow))
			} else if silent < lookUntil {
				return w.lookedAt.Add(3 * time.Second)
			}
			return w.lookedAt.Add(rarely(now.Sub(heard)))
		case m.LastOut.IsZero() && !m.anyMood:
			return later(m.started, w.lookedAt).Add(max(5*time.Second, rarely(now.Sub(m.started))-lookSlow))
		}
		return time.Time{}
	}
	if m.LastOut.IsZero() && m.LastInput.IsZero() {
		if silent := now.Sub(m.started); silent >= lookUntil {
			return w.lookedAt.Add(rarely(silent))
		}
		return later(m.started.Add(lookFirst), w.lookedAt.Add(3*time.Second))
	}
	moved := later(later(m.LastOut, m.LastInput), w.cpuAt)
	switch silent := now.Sub(moved); {
	case silent < lookFirst:
		return moved.Add(lookFirst)
	case silent < lookUntil:
		return later(moved.Add(lookFirst), w.lookedAt.Add(min(max(silent/2, lookFirst), 3*time.Second)))
	case w.more:
		return w.lookedAt.Add(rarely(silent))
	}
	return time.Time{}
}

// rarely returns how often to look at a session that has been silent this long: many such sessions must cost next to nothing.
func rarely(silent time.Duration) time.Duration { return min(max(silent/4, lookSlow), 10*lookSlow) }

// Worked takes a report of the processes.
func (m *Machine) Worked(now time.Time, g guest.Work) {
	w := &m.work
	dt := now.Sub(w.lookedAt)
	fresh := w.lookedAt.IsZero() || dt > 2*lookSlow
	rate := func(ms, before int64) float64 { return float64(ms-before) / float64(max(dt.Milliseconds(), 1)) }
	busy := !fresh && rate(g.CPUMs, w.cpu) >= usesCPU
	if busy {
		w.cpuAt = now
	}
	w.cpu, w.lookedAt, w.front, w.more = g.CPUMs, now, safetext.Line(g.Foreground), len(g.Programs) > 0
	m.tools(now, g, fresh, rate)

	h := agents.Hint{Source: agents.FromProcess, Mood: agents.Ready, Reason: "uses no CPU"}
	switch {
	case busy:
		h.Mood, h.Reason = agents.Busy, "uses CPU"
		if name := cmp.Or(w.front, w.tool); name != "" {
			h.Reason = name + " uses CPU"
		}
	case w.front != "":
		h.Reason = "runs " + w.front + ", which is quiet"
	}
	if !fresh || busy {
		m.Observe(now, h)
	}
	m.dirty = true
}

// LookFailed records that the processes could not be read.
func (m *Machine) LookFailed(now time.Time) { m.work.lookedAt = now }

// tools takes the programs the agent started in this turn.
func (m *Machine) tools(now time.Time, g guest.Work, fresh bool, rate func(ms, before int64) float64) {
	w := &m.work
	var turn time.Time
	if m.source != 0 && m.words[m.source].mood == agents.Busy {
		turn = m.turn
	}
	var ms int64
	var newest *guest.Program
	for i := range g.Programs {
		if p := &g.Programs[i]; !turn.IsZero() && now.Add(-time.Duration(p.AgeMs)*time.Millisecond).After(turn.Add(-time.Second)) {
			newest = cmp.Or(newest, p)
			ms += p.CPUMs
		}
	}
	if newest == nil {
		w.tool, w.toolAt, w.pid, w.toolMs, w.idleAt = "", time.Time{}, 0, 0, time.Time{}
		return
	}
	moves := fresh || newest.Pid != w.pid || ms < w.toolMs || rate(ms, w.toolMs) > toolIdles
	switch {
	case moves:
		w.idleAt = time.Time{}
	case w.idleAt.IsZero():
		w.idleAt = now
	}
	w.tool, w.pid, w.toolMs = safetext.Line(newest.Name), newest.Pid, ms
	w.toolAt = now.Add(-time.Duration(newest.AgeMs) * time.Millisecond)
}
