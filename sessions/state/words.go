package state

import (
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// Input of the machine: the reports of the sources, which overrule each other by the weights of rules.go.

// Observe takes a report of a source.
func (m *Machine) Observe(now time.Time, h agents.Hint) {
	if h.Source <= 0 || int(h.Source) >= agents.Sources || h.Mood < 0 || h.Mood >= agents.Closing {
		return
	}
	if h.Mood == agents.Unsaid {
		m.unsay(now, h)
		return
	}
	at := now
	if !h.At.IsZero() && h.At.Before(now) {
		at = h.At
	}
	m.stopped(at, h)
	m.word(now, at, h)
}

// sameLimit is how far apart two sources may date the same limit.
const sameLimit = 2 * time.Minute

// stopped notes a limit that ended the turn, and its end when the agent is reported to have begun another one. A title that spins is no
// sign of that: it also spins for the agent's own menus.
func (m *Machine) stopped(at time.Time, h agents.Hint) {
	if h.Limit != nil && h.Limit.At > at.UnixMilli() { // a sandbox says when: nothing happened later than now
		h.Limit = usagelimit.Of(h.Limit.Kind, at, time.UnixMilli(h.Limit.Until))
	}
	switch l := m.limit; {
	case h.Mood == agents.Busy && (h.Source == agents.FromHook || h.Source == agents.FromTranscript || h.Source == agents.FromReport):
		if !h.At.IsZero() {
			m.busyAt = later(m.busyAt, at)
		}
		if l != nil && at.UnixMilli() > l.At {
			m.limit, m.dirty = nil, true
		}
	case h.Mood != agents.Trouble || h.Limit == nil || at.Before(m.busyAt):
	case l == nil || h.Limit.At-l.At > sameLimit.Milliseconds():
		m.limit, m.dirty = h.Limit, true
	case l.Until == 0 && h.Limit.Until != 0 && l.At-h.Limit.At <= sameLimit.Milliseconds(): // another source knows more of it
		m.limit, m.dirty = &usagelimit.Limit{Kind: h.Limit.Kind, Until: h.Limit.Until, At: l.At}, true
	}
}

// unsay handles a question that the screen showed or a hook asked and that is gone for an unknown reason. Other sources retract
// nothing by reporting nothing, but a person can.
func (m *Machine) unsay(now time.Time, h agents.Hint) {
	w := &m.words[h.Source]
	switch h.Source {
	case agents.FromPerson:
		if w.mood != agents.Unsaid {
			m.restore(h.Source)
			*w = said{}
			m.dirty = true
		}
	case agents.FromScreen, agents.FromHook:
		if w.mood == agents.Asking {
			m.answered(now)
		}
		if w.mood != agents.Unsaid && (h.Source == agents.FromScreen || w.mood == agents.Asking) {
			*w = said{text: h.Reason, since: now, at: now}
			m.dirty = true
		}
	}
}

// word records a source's report at a time; it is new when the source reported something else before.
func (m *Machine) word(now, at time.Time, h agents.Hint) {
	w := &m.words[h.Source]
	m.anyMood = m.anyMood || h.Source != agents.FromBytes && h.Source != agents.FromProcess
	fresh := w.mood != h.Mood || h.Source == agents.FromPerson || h.Source == agents.FromHook || h.Source == agents.FromNotice
	if !fresh && w.at.After(at) {
		return // older than its own last report
	}
	if h.Source == agents.FromScreen && h.Mood == agents.Asking {
		m.confirmed = at
	}
	if m.saysMore(w, h) {
		w.at = later(w.at, at)
		return
	}
	if !fresh && !m.insists(now, h) {
		w.at = at
		if w.text != h.Reason {
			w.text, m.dirty = h.Reason, true
		}
		if m.silent() {
			m.dirty = true
		}
		return
	}
	*w = said{mood: h.Mood, weak: h.Weak, vague: h.Vague, text: h.Reason, since: at, at: at}
	m.dirty = true
	if h.Mood == agents.Busy && h.Source != agents.FromScreen && !m.words[agents.FromScreen].since.After(at) {
		m.words[agents.FromScreen] = said{} // it continues: what the screen shows next is new
	}
	m.contradict(h.Source)
}

// saysMore reports whether a source's previous report stays, as it says more than the new one: an error, which looks like being
// ready, and a question that was named.
func (m *Machine) saysMore(w *said, h agents.Hint) bool {
	if w.spent != 0 {
		return false
	}
	return w.mood == agents.Trouble && h.Mood == agents.Ready && h.Weak || w.mood == agents.Asking && !w.vague && h.Mood == agents.Asking && h.Vague
}

// insists reports whether a source that was overruled, and keeps reporting work, is to be believed again.
func (m *Machine) insists(now time.Time, h agents.Hint) bool {
	w := &m.words[h.Source]
	if h.Mood == agents.Asking {
		return w.spent == h.Source // a key did not answer it
	}
	if h.Mood != agents.Busy || w.spent == 0 {
		return false
	}
	by := &m.words[w.spent]
	if now.Sub(by.since) < insistAfter || w.spent == agents.FromPerson {
		return false
	}
	// A question stays open while an agent that asks through a hook shows that it works. Output ends it, for agents without other
	// signals.
	return by.mood != agents.Asking || h.Source == agents.FromBytes
}

func (m *Machine) weight(src agents.Source) weight {
	w := &m.words[src]
	out := m.rules[src][w.mood]
	if w.weak {
		out.power = min(out.power, weakPower)
	}
	return out
}

// contradict lets the new report of src overrule older ones it contradicts, or be overruled by newer ones.
func (m *Machine) contradict(src agents.Source) {
	w, mine := &m.words[src], m.weight(src)
	if mine.power == 0 {
		w.spent = src
		return
	}
	for i := range m.words {
		o := &m.words[i]
		if other := agents.Source(i); other == src || o.mood == agents.Unsaid || o.mood == w.mood || o.spent != 0 {
			continue
		}
		if o.since.After(w.since) {
			if m.weight(agents.Source(i)).power >= mine.hold {
				w.spent = agents.Source(i)
			}
		} else if mine.power >= m.weight(agents.Source(i)).hold {
			o.spent = src
		}
	}
}

// restore makes the reports apply again that src had overruled.
func (m *Machine) restore(src agents.Source) {
	for i := range m.words {
		if m.words[i].spent == src && agents.Source(i) != src {
			m.words[i].spent = 0
		}
	}
}

// Input records that a person typed: questions are being answered, an error or an end was seen.
func (m *Machine) Input(now time.Time) {
	m.LastInput, m.echoes = now, echoPieces
	for i := range m.words {
		switch w := &m.words[i]; {
		case w.mood == agents.Trouble && w.spent == 0:
			w.spent = agents.Source(i)
			m.dirty = true
		case w.mood == agents.Asking && w.spent == 0:
			m.dirty = true
		}
	}
	if !m.doneAt.IsZero() {
		m.doneAt, m.dirty = time.Time{}, true
	}
}

// answered ends every open question; reports it had overruled apply again.
func (m *Machine) answered(now time.Time) {
	for i := range m.words {
		w := &m.words[i]
		if w.mood != agents.Asking || w.spent != 0 || w.since.After(now) {
			continue
		}
		w.spent, m.dirty = agents.Source(i), true
		m.restore(agents.Source(i))
	}
}

// winner returns the source whose report weighs most, 0 when none applies.
func (m *Machine) winner() agents.Source {
	var order [agents.Sources]agents.Source
	n := 0
	for i := range m.words {
		if w := &m.words[i]; w.mood == agents.Unsaid || w.spent != 0 {
			continue
		}
		j := n
		for ; j > 0 && m.words[order[j-1]].since.After(m.words[i].since); j-- {
			order[j] = order[j-1]
		}
		order[j] = agents.Source(i)
		n++
	}
	var win agents.Source
	for _, src := range order[:n] {
		switch w, o := &m.words[src], &m.words[win]; {
		case win != 0 && w.mood == agents.Asking && o.mood == agents.Asking && w.vague != o.vague:
			if o.vague { // of two sources that report a question, the one that names it
				win = src
			}
		case win == 0 || m.weight(src).power >= m.weight(win).hold:
			win = src
		}
	}
	return win
}
