package sessions_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/find"
	"github.com/parawork/parawork/sessions/history"
)

func (s *server) search(t *testing.T, q history.SearchQuery) history.Found {
	t.Helper()
	q.Limit = cmp.Or(q.Limit, 50)
	f, err := s.Search(t.Context(), s.h.ws.ID, q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(s string) find.Query { return find.Query{Text: s} }

// finds is search to its end, however often the time is up before.
func (s *server) finds(t *testing.T, q history.SearchQuery) history.Found {
	t.Helper()
	f := s.search(t, q)
	for f.Late {
		q.Cursor = f.Next
		next := s.search(t, q)
		next.Hits, next.Skipped, next.Bytes = append(f.Hits, next.Hits...), max(f.Skipped, next.Skipped), f.Bytes
		f = next
	}
	return f
}

// Tail is the last bytes a session printed.
func (s *server) Tail(t *testing.T, id string) string {
	t.Helper()
	b, _, _, err := s.Output(t.Context(), id, max(0, s.get(t, id).Bytes-100), 100)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// packed waits until everything an ended session printed is packed.
func packed(t *testing.T, h *harness, id string) {
	t.Helper()
	dir := filepath.Join(h.dir, "sessions", id)
	eventually(t, "the output is packed", func() bool {
		plain, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
		packed, _ := filepath.Glob(filepath.Join(dir, "*.segz"))
		ready, _ := filepath.Glob(filepath.Join(dir, "*.find"))
		return len(plain) == 0 && len(packed) > 0 && len(ready) > 0
	})
}

func TestSearchOverSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	a := s.run(t, "sh", "-c", `printf 'first \033[31mneed\033[1mle\033[0m here\r\nand Needle again\n'`)
	s.ended(t, a.ID)
	packed(t, h, a.ID)
	b := s.run(t, "sh", "-c", `echo third needle; read x`)
	eventually(t, "it is printed", func() bool { return strings.Contains(s.output(t, b.ID), "third") })

	found := s.search(t, history.SearchQuery{Query: text("needle")})
	if len(found.Hits) != 3 || found.Next != "" || found.Late {
		t.Fatalf("found %+v", found)
	}
	want := []string{"third needle", "and Needle again", "first needle here"}
	for i, hit := range found.Hits {
		if hit.Line != want[i] || !strings.EqualFold(string([]rune(hit.Line)[hit.Start:hit.End]), "needle") || hit.At == 0 || hit.AgentName == "" {
			t.Errorf("hit %d is %+v, want %q", i, hit, want[i])
		}
		raw := s.output(t, hit.SessionID)
		if n := raw[hit.Offset]; n != 'n' && n != 'N' {
			t.Errorf("hit %d stands at %d, which is %q", i, hit.Offset, n)
		}
	}
	if f := s.search(t, history.SearchQuery{Query: find.Query{Text: "Needle", Case: true}}); len(f.Hits) != 1 {
		t.Errorf("with case: %+v", f.Hits)
	}
	if f := s.search(t, history.SearchQuery{Query: find.Query{Text: `(first|third) n\w+e`, Regex: true}}); len(f.Hits) != 2 {
		t.Errorf("expression: %+v", f.Hits)
	}
	if f := s.search(t, history.SearchQuery{Query: text("needle"), Agent: "codex"}); len(f.Hits) != 0 {
		t.Errorf("another agent: %+v", f.Hits)
	}
	// Page by page it is the same.
	var lines []string
	for q := (history.SearchQuery{Query: text("needle"), Limit: 1}); ; {
		f := s.search(t, q)
		for _, hit := range f.Hits {
			lines = append(lines, hit.Line)
		}
		if q.Cursor = f.Next; q.Cursor == "" || len(lines) > 5 {
			break
		}
	}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("pages %q", lines)
	}
	if _, err := s.Search(t.Context(), h.ws.ID, history.SearchQuery{Query: text("x"), Cursor: "rubbish"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a bad cursor: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, h.ws.ID, history.SearchQuery{Query: text("x")}); !errors.Is(err, context.Canceled) {
		t.Errorf("a search nobody waits for: %v", err)
	}
}

// A damaged search file is rewritten once more is printed, and the output it covered is still found.
func TestADamagedSearchFileIsWrittenAnew(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `echo the early needle; seq 1 1600000; read x; seq 1 800000; echo the last; read x`)
	files := func() []string {
		files, _ := filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "*.find"))
		return files
	}
	eventually(t, "search files are written", func() bool { return len(files()) > 1 })
	eventually(t, "it waits", func() bool { return strings.Contains(s.Tail(t, row.ID), "1600000") })
	s.end()
	if err := os.WriteFile(files()[0], []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is written anew", func() bool {
		now := files()
		if len(now) < 2 || !strings.Contains(s.Tail(t, row.ID), "the last") {
			return false
		}
		b, err := os.ReadFile(now[0])
		return err == nil && string(b) != "rubbish"
	})
	if f := s.finds(t, history.SearchQuery{Query: text("early needle")}); len(f.Hits) != 1 {
		t.Errorf("found %+v", f)
	}
}

// Most of a long history is never read; what is found stands where it was printed, packed or not, also after a restart and when
// a search file is damaged.
func TestSearchOfALongHistory(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `seq -f 'line %.0f of the build' 1 180000; echo the only needle; seq -f 'line %.0f of the tests' 1 180000; read x`)
	eventually(t, "all is printed and something is packed", func() bool {
		files, _ := filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "*.segz"))
		return len(files) > 0 && strings.Contains(s.Tail(t, row.ID), "line 180000 of the tests")
	})
	check := func(when string, skips bool) {
		t.Helper()
		f := s.finds(t, history.SearchQuery{Query: text("only needle")})
		if len(f.Hits) != 1 || f.Hits[0].Line != "the only needle" {
			t.Fatalf("%s: %+v", when, f)
		}
		if skips { // once the search files are there, which are written as it goes
			eventually(t, when+": much is skipped", func() bool {
				f := s.finds(t, history.SearchQuery{Query: text("only needle")})
				return len(f.Hits) == 1 && f.Skipped >= f.Bytes/4
			})
		}
		b, _, _, err := s.Output(t.Context(), row.ID, f.Hits[0].Offset, 6)
		if err != nil || string(b) != "only n" {
			t.Errorf("%s: at the offset stands %q (%v)", when, b, err)
		}
		// Newest first, the same lines page after page as in one.
		q := history.SearchQuery{Query: find.Query{Text: `line \d*0000 of`, Regex: true}, Limit: 7}
		var got []string
		for pages := 0; pages < 20; {
			f := s.search(t, q)
			if !f.Late {
				pages++
			}
			for _, hit := range f.Hits {
				got = append(got, hit.Line)
			}
			if q.Cursor = f.Next; q.Cursor == "" {
				break
			}
		}
		if len(got) != 36 || got[0] != "line 180000 of the tests" || got[35] != "line 10000 of the build" {
			t.Errorf("%s: %d lines, %q", when, len(got), got)
		}
	}
	check("running", true)
	h.search = 1 // of the server that starts below: each page ends as soon as it may
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); err != nil {
		t.Fatal(err)
	}
	s.ended(t, row.ID)
	packed(t, h, row.ID)
	check("ended", true)
	want := s.output(t, row.ID)
	s.end()
	s = h.start()
	if s.output(t, row.ID) != want {
		t.Fatal("other bytes after a restart")
	}
	files, _ := filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "*.find"))
	if err := os.WriteFile(files[0], []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("with a damaged search file", false)
	// Two files that cover the same bytes: each line is found once.
	files, _ = filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "*.find"))
	last := files[len(files)-1]
	b, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	start, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(last), ".find"), 10, 64)
	if err != nil || start < 1 {
		t.Fatalf("%s: %v", last, err)
	}
	again := filepath.Join(filepath.Dir(last), strings.Repeat("0", 20-len(strconv.FormatInt(start-1, 10)))+strconv.FormatInt(start-1, 10)+".find")
	if err := os.WriteFile(again, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f := s.finds(t, history.SearchQuery{Query: text("line 180000 of the tests")})
	if len(f.Hits) != 1 || f.Hits[0].Repeats != 0 {
		t.Errorf("with two search files of the same bytes: %+v", f.Hits)
	}
}

// What a server that died left unpacked is packed by the next.
func TestLeftHistoryIsPacked(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "echo", "hello")
	s.ended(t, row.ID)
	packed(t, h, row.ID)
	s.end()
	dir := filepath.Join(h.dir, "sessions", row.ID)
	files, _ := filepath.Glob(filepath.Join(dir, "*.segz"))
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000000.seg"), []byte("hello\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	packed(t, h, row.ID)
	if s.output(t, row.ID) != "hello\r\n" {
		t.Fatalf("%q", s.output(t, row.ID))
	}
}
