package state

import (
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

// What the machine hears: the words of the sources, which take each other's place by the weights of rules.go.

// Observe says what a source said.
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
	m.word(now, at, h)
}

// unsay: the question the screen showed or a hook asked is gone, nobody knows how; other sources take nothing back by saying
// nothing, but a person can.
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

// word takes what a source says at a time; it is new when the source said something else before.
func (m *Machine) word(now, at time.Time, h agents.Hint) {
	w := &m.words[h.Source]
	m.anyMood = m.anyMood || h.Source != agents.FromBytes && h.Source != agents.FromProcess
	fresh := w.mood != h.Mood || h.Source == agents.FromPerson || h.Source == agents.FromHook || h.Source == agents.FromNotice
	if !fresh && w.at.After(at) {
		return // it lags behind itself
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
		m.words[agents.FromScreen] = said{} // it goes on: what the screen shows next is new
	}
	m.contradict(h.Source)
}

// saysMore reports whether what a source said before stands, as it tells more than what it says now: an error, which looks like being
// ready, and a question that was named.
func (m *Machine) saysMore(w *said, h agents.Hint) bool {
	if w.spent != 0 {
		return false
	}
	return w.mood == agents.Trouble && h.Mood == agents.Ready && h.Weak || w.mood == agents.Asking && !w.vague && h.Mood == agents.Asking && h.Vague
}

// insists reports whether a source that was overruled, and goes on saying that it works, is to be believed again.
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
	// A question stays open while an agent that asks through a hook shows that it works. Output ends it: it has no other voice.
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

// contradict lets the new word of src take the place of older ones it contradicts, or be overruled by newer ones.
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

// restore gives the words their place back that src had taken.
func (m *Machine) restore(src agents.Source) {
	for i := range m.words {
		if m.words[i].spent == src && agents.Source(i) != src {
			m.words[i].spent = 0
		}
	}
}

// Input says that a person typed: what was asked is being answered, an error or an end was seen.
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

// answered ends every open question; what it had pushed aside counts again.
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

// winner returns the source whose word counts most, 0 when none counts.
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
			if o.vague { // of two who know of a question, who names it
				win = src
			}
		case win == 0 || m.weight(src).power >= m.weight(win).hold:
			win = src
		}
	}
	return win
}
