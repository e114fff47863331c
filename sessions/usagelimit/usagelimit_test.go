package usagelimit

import (
	"testing"
	"time"
)

func TestClaudesMessages(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 7, 23, 0, 0, time.UTC) // 08:23 in Berlin
	for text, want := range map[string]time.Time{
		"You've hit your session limit · resets 10:23am (UTC)":                 time.Date(2026, 11, 28, 10, 23, 0, 0, time.UTC),
		"You've hit your limit · resets 3pm (Europe/Berlin)":                   time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC),
		"You've hit your limit · resets 2am (Europe/Berlin)":                   time.Date(2026, 11, 29, 1, 0, 0, 0, time.UTC), // tomorrow's
		"You've hit your limit · resets 12am (Europe/Berlin)":                  time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC),
		"You've hit your weekly limit · resets Dec 3, 11:30am (Asia/Calcutta)": time.Date(2026, 12, 3, 6, 0, 0, 0, time.UTC),
		"You've hit your weekly limit · resets Dec 3 at 4pm (America/Recife)":  time.Date(2026, 12, 3, 19, 0, 0, 0, time.UTC),
		"Claude AI usage limit reached|1795861421":                             time.Unix(1795861421, 0),
		// Over, too far away, of no zone or none at all: unknown.
		"You've hit your limit · resets 7:20am (UTC)":                   {},
		"You've hit your weekly limit · resets Dec 24 at 4pm (UTC)":     {},
		"You've hit your limit · resets 3pm":                            {},
		"You've hit your limit · resets 3pm (Nowhere/Town)":             {},
		"You've hit your limit · resets 3pm (../../etc/passwd)":         {},
		"You've hit your limit · resets 93:99pm (UTC)":                  {},
		"Claude AI usage limit reached|1":                               {},
		"Claude AI usage limit reached|99999999999":                     {},
		"API Error: Request rejected (429) · Please try again later.":   {},
		"You've hit your org's monthly spend limit · ask your admin to": {},
	} {
		l := OfClaude("rate_limit", text, at)
		if l == nil {
			t.Fatalf("%s: no limit", text)
		}
		if got := l.Until; want.IsZero() && got != 0 || !want.IsZero() && got != want.UnixMilli() {
			t.Errorf("%s: until %v, want %v", text, time.UnixMilli(got).UTC(), want)
		}
	}
	if l := OfClaude("server_error", "You've hit your limit · resets 3pm (UTC)", at); l != nil {
		t.Error("another error became a limit because of its words")
	}
	if l := OfClaude("rate_limit", "You've hit your org's monthly spend limit", at); l.Kind != Spend {
		t.Errorf("kind %s", l.Kind)
	}
}

func TestClaudesYearEnds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 30, 12, 0, 0, 0, time.UTC)
	if l := OfClaude("rate_limit", "You've hit your weekly limit · resets Jan 2, 9am (UTC)", at); l.Until != time.Date(2027, 1, 2, 9, 0, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("until %v", time.UnixMilli(l.Until).UTC())
	}
}

func TestCodexsWindows(t *testing.T) {
	t.Parallel()
	at := time.Unix(1795850621, 0)
	both := []Window{{100, 300, at.Unix() + 3600}, {100, 10080, at.Unix() + 86400}}
	if l := OfCodex("usage_limit_exceeded", both, at); l.Kind != Weekly || l.Until != (at.Unix()+86400)*1000 {
		t.Errorf("%+v", l)
	}
	if l := OfCodex("usage_limit_exceeded", []Window{{100, 300, at.Unix() + 3600}, {40, 10080, at.Unix() + 86400}}, at); l.Kind != Session || l.Until != (at.Unix()+3600)*1000 {
		t.Errorf("%+v", l)
	}
	for _, w := range [][]Window{nil, {{Used: 12, Resets: at.Unix() + 60}}, {{Used: 100, Resets: at.Unix() - 60}}, {{Used: 100, Resets: 1 << 62}}, {{Used: 100, Resets: at.Unix() + 9*86400}}} {
		if l := OfCodex("usage_limit_exceeded", w, at); l == nil || l.Until != 0 {
			t.Errorf("%+v of %+v", l, w)
		}
	}
	if OfCodex("other", both, at) != nil || OfCodex("", both, at) != nil {
		t.Error("another error became a limit")
	}
}
