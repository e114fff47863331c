package state

import (
	"encoding/json"
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// Evidence is the last report of one source about a session's state.
type Evidence struct {
	Source string `json:"source"` // hook, transcript, notification, title, report, bytes, screen, process, person
	Says   string `json:"says"`   // working, waiting, idle, failed
	Text   string `json:"text,omitempty"`
	At     int64  `json:"at"`    // ms UTC of its last such report
	Since  int64  `json:"since"` // ms UTC of its first such report
	Counts bool   `json:"counts"`
	Weak   bool   `json:"weak,omitempty"`  // as in agents.Hint
	Vague  bool   `json:"vague,omitempty"` // likewise
	By     string `json:"by,omitempty"`    // the source that overruled it, when it does not apply
}

// Basis is the evidence for a session's state.
type Basis struct {
	Source   string     `json:"source,omitempty"` // the source that decided; "" = none
	Failed   bool       `json:"failed,omitempty"` // idle after an error
	StuckAt  int64      `json:"stuck_at,omitempty"`
	UpTo     int64      `json:"up_to,omitempty"`   // offset of the first byte of output not evaluated yet
	DoneAt   int64      `json:"done_at,omitempty"` // when the agent finished its turn, until somebody types
	Evidence []Evidence `json:"evidence,omitempty"`
	// Limit is that of its provider which ended the agent's last turn; nil = none did, or it has worked since.
	Limit *usagelimit.Limit `json:"limit,omitempty"`
}

// LimitEnd is when the limit ends that stopped the agent, ms UTC; 0 = unknown, or none did.
func (b Basis) LimitEnd() int64 {
	if b.Limit == nil {
		return 0
	}
	return b.Limit.Until
}

// Encode returns b in its stored form.
func (b Basis) Encode() (string, error) {
	raw, err := json.Marshal(b)
	return string(raw), err
}

// DecodeBasis reads what Encode wrote; "" is the zero Basis.
func DecodeBasis(s string) (b Basis, err error) {
	if s == "" {
		return b, nil
	}
	err = json.Unmarshal([]byte(s), &b)
	return b, err
}

// Basis returns the evidence for the state.
func (m *Machine) Basis() Basis {
	b := Basis{Source: m.source.String(), Failed: m.Trouble, StuckAt: millis(m.stuckAt), DoneAt: millis(m.doneAt), UpTo: m.UpTo, Limit: m.limit}
	for i := range m.words {
		w := &m.words[i]
		if w.mood == agents.Unsaid {
			continue
		}
		e := Evidence{Source: agents.Source(i).String(), Says: w.mood.String(), Text: w.text, At: w.at.UnixMilli(),
			Since: w.since.UnixMilli(), Counts: w.spent == 0, Weak: w.weak, Vague: w.vague}
		if w.spent != 0 {
			e.By = w.spent.String()
		}
		b.Evidence = append(b.Evidence, e)
	}
	return b
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Recall restores, after a restart, what was known before. Sources that reported "working" get time to report it again.
func (m *Machine) Recall(now time.Time, b Basis) {
	for _, e := range b.Evidence {
		src, mood := agents.SourceNamed(e.Source), agents.MoodNamed(e.Says)
		if src == 0 || src == agents.FromBytes || src == agents.FromProcess || mood == agents.Unsaid || mood >= agents.Closing {
			continue
		}
		w := said{mood: mood, weak: e.Weak, vague: e.Vague, text: e.Text, since: time.UnixMilli(e.Since), at: time.UnixMilli(e.At)}
		m.past = later(m.past, later(w.since, w.at))
		if !e.Counts {
			if w.spent = agents.SourceNamed(e.By); w.spent == 0 {
				w.spent = src
			}
		} else if mood == agents.Busy && src != agents.FromPerson {
			w.at = now
		}
		m.words[src] = w
	}
	if b.DoneAt != 0 {
		m.doneAt = time.UnixMilli(b.DoneAt)
	}
	m.source, m.UpTo = agents.SourceNamed(b.Source), b.UpTo
	m.limit, m.limited = b.Limit, b.Limit
	switch m.State {
	case Waiting, Working: // stored by a server that stored no evidence
		if src := agents.FromNotice; m.winner() == 0 && (m.explicit || m.State == Waiting) {
			mood := agents.Asking
			if m.State == Working {
				mood = agents.Busy
			}
			m.words[src] = said{mood: mood, text: m.Reason, since: now, at: now}
		}
	}
}

// Recalled stamps reports found in output from before a restart, in the order they are evaluated, with a time before everything
// since. What a hook reported meanwhile is newer, even if it was evaluated first.
func (m *Machine) Recalled(h *agents.Hint) {
	if h.At.IsZero() && !m.past.IsZero() {
		m.past = m.past.Add(time.Microsecond)
		h.At = m.past
	}
}

// Resumed gives sources that reported work the time to report it again.
func (m *Machine) Resumed(now time.Time) {
	for i := range m.words {
		if w := &m.words[i]; w.mood == agents.Busy && w.spent == 0 {
			w.at = now
		}
	}
}
