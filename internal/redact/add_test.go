package redact_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/redact"
)

// A secret that is made known later is masked from there on, at every place where its pieces may be cut.
func TestAddLater(t *testing.T) {
	t.Parallel()
	const first, later = "first-secret-value", "a later and longer secret value"
	for cut := range len(later) + 1 {
		m := redact.New(first)
		var out strings.Builder
		out.Write(m.Write([]byte("before " + first + " ")))
		m.Add(later, first)
		out.Write(m.Write([]byte("x" + later[:cut])))
		out.Write(m.Write([]byte(later[cut:] + " end")))
		out.Write(m.Flush())
		seen := "" // of a beginning shorter than MinPrefix
		if cut < redact.MinPrefix {
			seen = later[:cut]
		}
		want := "before " + strings.Repeat("*", len(first)) + " x" + seen + strings.Repeat("*", len(later)-len(seen)) + " end"
		if out.String() != want {
			t.Errorf("cut at %d: %q", cut, out.String())
		}
	}
}

// A text is masked by itself, whatever went through the stream before it.
func TestText(t *testing.T) {
	t.Parallel()
	m := redact.New("swordfish-1", "multi\nline-of-secret")
	m.Write([]byte("swordf"))
	for in, want := range map[string]string{
		"ish-1":                   "ish-1",
		"a swordfish-1 swordfish": "a *********** swordfish",
		"say line-of-secret":      "say **************",
		"":                        "",
	} {
		if got := m.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
