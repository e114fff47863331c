package screen

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestScrolled(t *testing.T) {
	t.Parallel()
	s := New(Config{Cols: 10, Rows: 2, Archive: true})
	s.Write([]byte("plain  \r\n\x1b[31mred\x1b[m and\r\n0123456789\x1b[1mabcdefghij\x1b[mXY\r\n\x1b[44m  \x1b[m\r\n世界世界世界\r\n\x1b]8;;http://x\x07link\x1b]8;;\x07\r\n" +
		"\x1b[3J\x1b[2Jkept\r\nmore\r\n.\r\n."))
	want := []string{"plain", "\x1b[31mred\x1b[39m and", "0123456789\x1b[0;1mabcdefghij\x1b[mXY", "\x1b[44m  \x1b[49m", "世界世界世界"}
	got := s.Scrolled(false)
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if !slices.Contains(got, "kept") || slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "http") }) {
		t.Errorf("got %q", got)
	}
	for i, l := range s.Scrolled(true) {
		if i == 2 && l != "0123456789abcdefghijXY" || i == 1 && l != "red and" || strings.Contains(l, "\x1b") {
			t.Errorf("plain %d: %q", i, l)
		}
	}
	s.Write([]byte("\x1bc"))
	if n := len(s.Scrolled(true)); n < len(got) {
		t.Errorf("%d lines after a reset, %d before", n, len(got))
	}
}

// TestScrolledIsWhatWasPrinted: every line, once, whatever the pieces it is read in.
func TestScrolledIsWhatWasPrinted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var want []string
	for i := range 2000 {
		l := fmt.Sprintf("%d %s", i, strings.Repeat("abc 世 ", i%40))
		want = append(want, strings.TrimRight(l, " "))
		out.WriteString(l + "\r\n")
	}
	bytes := []byte(out.String())
	var got []string
	next := New(Config{Cols: 60, Rows: 12})
	for at := 0; at < len(bytes); {
		// A page begins with the screen as it was there, without what had scrolled off it.
		page := New(Config{Cols: 60, Rows: 12, Scrollback: 5000, Archive: true})
		page.Write(next.Snapshot(0))
		n := min(1000+at%700, len(bytes)-at)
		page.Write(bytes[at-next.Held() : at+n])
		next.Write(bytes[at : at+n])
		at += n
		lines := page.Scrolled(true)
		got = append(got, lines...)
	}
	// A line that was wrapped over the edge of a page comes in pieces.
	if a, b := strings.ReplaceAll(strings.Join(got, ""), " ", ""), strings.ReplaceAll(strings.Join(want, ""), " ", ""); !strings.HasPrefix(b, a) || len(b)-len(a) > 12*60 {
		t.Errorf("%d characters of %d", len(a), len(b))
	}
}
