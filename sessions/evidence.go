package sessions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/signals"
)

// Evidence is what one source said last about a session's state.
type Evidence struct {
	Source string `json:"source"` // hook, transcript, notification, title, report, bytes, screen, process, person
	Says   string `json:"says"`   // working, waiting, idle, failed
	Text   string `json:"text,omitempty"`
	At     int64  `json:"at"`    // ms UTC when it said so last
	Since  int64  `json:"since"` // ms UTC when it began to say so
	Counts bool   `json:"counts"`
	Weak   bool   `json:"weak,omitempty"`  // as agents.Hint has it
	Vague  bool   `json:"vague,omitempty"` // likewise
	By     string `json:"by,omitempty"`    // whose word took its place, when it does not count
}

// Basis is what a session's state rests on.
type Basis struct {
	Source   string     `json:"source,omitempty"` // whose word decided; "" = nobody's
	Failed   bool       `json:"failed,omitempty"` // idle after an error
	StuckAt  int64      `json:"stuck_at,omitempty"`
	UpTo     int64      `json:"up_to,omitempty"`   // offset of the first byte of output nobody has heard
	DoneAt   int64      `json:"done_at,omitempty"` // when the agent finished its turn, until somebody types
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Encode returns b as stored.
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

// basis returns what the state rests on.
func (m *machine) basis() Basis {
	b := Basis{Source: m.source.String(), Failed: m.trouble, StuckAt: millis(m.stuckAt), DoneAt: millis(m.doneAt), UpTo: m.upTo}
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

// recall takes up, after a restart, what was known before. What said "working" gets the time to say so again.
func (m *machine) recall(now time.Time, b Basis) {
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
	m.source, m.upTo = agents.SourceNamed(b.Source), b.UpTo
	switch m.state {
	case Waiting, Working: // stored by a server that kept no evidence
		if src := agents.FromNotice; m.winner() == 0 && (m.explicit || m.state == Waiting) {
			mood := agents.Asking
			if m.state == Working {
				mood = agents.Busy
			}
			m.words[src] = said{mood: mood, text: m.reason, since: now, at: now}
		}
	}
}

// before stamps what output of before a restart says, in the order it is heard, with a time before all that came since. What a hook said
// meanwhile is newer, although it may be heard first.
func (m *machine) before(h *agents.Hint) {
	if h.At.IsZero() && !m.past.IsZero() {
		m.past = m.past.Add(time.Microsecond)
		h.At = m.past
	}
}

// rehearMost bounds the output that is heard again after a restart.
const rehearMost = 256 << 10

// rehear hears, after a restart, what the log has and the stored state does not know of: the server may have died between the
// two. Then the screen is read. Call it before output flows.
func (l *live) rehear() {
	first, end := l.log.Bounds()
	quiet := signals.Scanner{Clean: safetext.Line, Signal: func(s agents.Signal) {
		l.mu.Lock()
		defer l.mu.Unlock()
		h := l.svc.cfg.Agents.Read(l.row.Agent, s)
		h.Reason = safetext.Cut(h.Reason, safetext.MaxLine)
		h.Reason = l.hiding.text(h.Reason)
		l.machine.before(&h)
		l.machine.hint(time.Now(), h)
	}}
	l.mu.Lock()
	off := max(first, l.machine.upTo, end-rehearMost)
	l.machine.upTo = end
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

// evidence takes what a source knows of the session's state, stamps the time and judges. Any goroutine may call it, not
// holding l.mu.
func (l *live) evidence(h agents.Hint) {
	h.Reason = safetext.Line(h.Reason)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Reason = l.hiding.text(h.Reason)
	l.machine.hint(time.Now(), h)
	l.steering.hint(h)
	l.judge()
}

// Correct sets the state of a running session by hand, because somebody sees that it is wrong: working, waiting or idle, until
// any source says something new; auto takes that back. Errors: not_found, session_not_running, invalid_state.
func (s *Service) Correct(ctx context.Context, actor accounts.Actor, id, state string) (Session, error) {
	mood := agents.MoodNamed(state)
	switch {
	case state == "auto":
		mood = agents.Unsaid
	case mood != agents.Busy && mood != agents.Asking && mood != agents.Ready:
		return Session{}, fault.New(fault.Invalid, "invalid_state", "state is working, waiting, idle or auto.").With("field", "state")
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
	return s.dress(l.snapshot()), nil
}
