// Package usagelimit reads, out of what agents themselves say of a refused request, that a limit of their provider stopped them, which one,
// and until when. It reads only what the agent wrote about the refusal, never what its tools printed, and bounds what it believes: the times
// come from a sandbox. Tried with Claude Code 2.1.197 and Codex 0.169.0 against a stand-in for their providers.
package usagelimit

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kinds of limits.
const (
	Session = "session" // a window of some hours
	Weekly  = "weekly"
	Model   = "model" // of one model
	Spend   = "spend" // of money: no time ends it
	Rate    = "rate"  // requests or tokens in a short time, or a limit that the provider does not name
)

// Longest is the longest wait that is believed.
const Longest = 8 * 24 * time.Hour

// justOver is how long after a time of the day a message that names it still means today's: it is over, and the next one is unknown.
const justOver = time.Hour

// Limit is a limit of its provider that stopped an agent.
type Limit struct {
	Kind  string `json:"kind"`
	Until int64  `json:"until,omitempty"` // ms UTC; 0 = unknown
	At    int64  `json:"at"`              // when the agent was stopped, ms UTC
}

// Words say in short which limit was reached.
func (l Limit) Words() string {
	switch l.Kind {
	case Session:
		return "reached the limit of its session window"
	case Weekly:
		return "reached its weekly limit"
	case Model:
		return "reached the limit for its model"
	case Spend:
		return "reached its spend limit"
	}
	return "reached a limit of its provider"
}

// Passes reports whether time alone ends it, so that the agent goes on by itself.
func (l *Limit) Passes() bool { return l != nil && l.Kind != Spend }

// Of returns a limit that stopped an agent at a time. An end that is over by then, or too far away, is unknown.
func Of(kind string, at, until time.Time) *Limit {
	l := &Limit{Kind: kind, At: at.UnixMilli()}
	if until.After(at) && until.Sub(at) <= Longest {
		l.Until = until.UnixMilli()
	}
	return l
}

var (
	epoch = regexp.MustCompile(`limit reached\|(\d{9,11})\b`)
	// "resets 3pm (Europe/Berlin)", "resets Jan 18, 11:30am (Asia/Calcutta)", "resets Apr 23 at 4pm (America/Recife)"
	resets = regexp.MustCompile(`\bresets (?:([A-Z][a-z]{2}) (\d{1,2})(?:, (\d{4}))?(?:,| at) )?(\d{1,2})(?::(\d{2}))?([ap]m) \(([A-Za-z0-9_+\-/]{1,64})\)`)
)

// mostText bounds the message that is read.
const mostText = 4096

// OfClaude returns the limit of a turn that Claude Code says ended with an error, nil when it was no limit. kind is the error's as its hook
// and its record name it, text its message.
func OfClaude(kind, text string, at time.Time) *Limit {
	if kind != "rate_limit" {
		return nil
	}
	text = text[:min(len(text), mostText)]
	what := Rate
	for _, w := range [...]struct{ word, kind string }{{"spend limit", Spend}, {"weekly limit", Weekly}, {"session limit", Session}, {"Opus limit", Model}, {"Sonnet limit", Model},
		{"Fable 5 limit", Model}, {"usage limit", Session}, {"hit your limit", Session}} {
		if strings.Contains(text, w.word) {
			what = w.kind
			break
		}
	}
	return Of(what, at, claudeEnd(text, at))
}

// claudeEnd reads when a limit ends from Claude Code's message, which names the zone of its times.
func claudeEnd(text string, at time.Time) time.Time {
	if m := epoch.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		return time.Unix(n, 0)
	}
	m := resets.FindStringSubmatch(text)
	if m == nil {
		return time.Time{}
	}
	zone, err := time.LoadLocation(m[7])
	if err != nil || m[7] == "Local" {
		return time.Time{}
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	hour, minute := number(m[4]), number(m[5])
	if hour < 1 || hour > 12 || minute > 59 {
		return time.Time{}
	}
	if hour %= 12; m[6] == "pm" {
		hour += 12
	}
	now := at.In(zone)
	if m[1] == "" {
		end := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, zone)
		if !end.After(at) && at.Sub(end) > justOver {
			end = time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, zone)
		}
		return end
	}
	month, err := time.Parse("Jan", m[1])
	if err != nil {
		return time.Time{}
	}
	year := now.Year()
	if m[3] != "" {
		year = number(m[3])
	}
	end := time.Date(year, month.Month(), number(m[2]), hour, minute, 0, 0, zone)
	if m[3] == "" && at.Sub(end) > Longest { // named in December, ends in January
		end = end.AddDate(1, 0, 0)
	}
	return end
}

// Window is a limit's window as Codex reports it with each answer.
type Window struct {
	Used    float64 `json:"used_percent"`
	Minutes int64   `json:"window_minutes"`
	Resets  int64   `json:"resets_at"` // seconds
}

// OfCodex returns the limit of a turn that Codex says ended with an error, nil when it was no limit. info is the error's kind, windows are
// those of the last answer. Codex's message names a time without its zone, so it is not read.
func OfCodex(info string, windows []Window, at time.Time) *Limit {
	if info != "usage_limit_exceeded" {
		return nil
	}
	kind, until := Rate, int64(0)
	for _, w := range windows { // of several that are used up, the last to end
		if w.Used >= 100 && w.Resets > until && w.Resets < 1<<40 {
			if until, kind = w.Resets, Session; w.Minutes > 24*60 {
				kind = Weekly
			}
		}
	}
	if until == 0 {
		return Of(kind, at, time.Time{})
	}
	return Of(kind, at, time.Unix(until, 0))
}
