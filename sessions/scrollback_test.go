package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
)

// scrolled reads the whole scrollback, page by page.
func (s *server) scrolled(t *testing.T, id string, limit int) []string {
	t.Helper()
	var all []string
	for q := (history.ScrollbackQuery{Limit: limit, Plain: true}); ; {
		got, err := s.Scrollback(t.Context(), id, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Lines) > limit {
			t.Fatalf("%d lines of at most %d", len(got.Lines), limit)
		}
		all = slices.Concat(got.Lines, all)
		if q.Before = got.Next; got.Next == "" {
			return all
		}
	}
}

func TestScrollbackIsWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	const lines = 36_000
	row := s.run(t, "sh", "-c", fmt.Sprintf(`stty -echo; printf 'ready\r'; read x; seq -f 'line %%.0f of output with some more text' 1 %d; printf '\033[3J\033[2J\033[H'; read x; seq -f 'line %%.0f' %d %d; read x`, lines, lines+1, lines+500))
	var want []string
	for i := range lines {
		want = append(want, fmt.Sprintf("line %d of output with some more text", i+1))
	}
	w := s.watch(t, row.ID, sessions.Attach{Writer: true})
	key := func() {
		t.Helper()
		if err := w.Input(t.Context(), []byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	w.shows(t, "ready\r")
	key()
	w.shows(t, "\x1b[3J\x1b[2J\x1b[H")
	check := func(what string, limit int) {
		t.Helper()
		got := s.scrolled(t, row.ID, limit)
		// The last ones are still on the screen, or were when it was erased.
		if len(got) < lines-33 || !slices.Equal(got[:lines-33], want[:lines-33]) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("%s: %d lines, want %d; they differ at %d: %q", what, len(got), lines, i, got[i:min(i+3, len(got))])
		}
	}
	check("live", 2000)
	check("in other pieces", 1777)
	s.end()
	s = h.start()
	check("after a restart", 2000)
	w = s.watch(t, row.ID, sessions.Attach{Writer: true})
	key()
	w.shows(t, fmt.Sprint("line ", lines+500))
	if got := s.scrolled(t, row.ID, 2000); got[len(got)-1] != fmt.Sprintf("line %d", lines+500-31) {
		t.Errorf("it ends with %q", got[len(got)-3:])
	}
	// Without the kept screens the same can be read, in longer pieces.
	s.end()
	if err := os.Remove(filepath.Join(h.dir, "sessions", row.ID, "pages")); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	check("without the kept screens", 2000)
	for _, bad := range []string{"x", "1", "-5.3", "99999999999.1", "1.x", "5.-7"} {
		if _, err := s.Scrollback(t.Context(), row.ID, history.ScrollbackQuery{Before: bad}); fault.CodeOf(err) != "invalid_cursor" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	styled, err := s.Scrollback(t.Context(), s.ended(t, s.run(t, "sh", "-c", `for i in $(seq 40); do printf '\033[31mred\033[m %d\n' $i; done`).ID).ID, history.ScrollbackQuery{})
	if err != nil || len(styled.Lines) == 0 || !strings.HasPrefix(styled.Lines[0], "\x1b[31mred\x1b[39m 1") {
		t.Errorf("%q, %v", styled.Lines, err)
	}
}
