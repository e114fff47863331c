package sessions_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/history"
	scr "github.com/parawork/parawork/sessions/screen"
)

func (s *server) export(t *testing.T, id string, f history.Format) string {
	t.Helper()
	x, err := s.Export(t.Context(), id, f)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	raw, err := io.ReadAll(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// story runs a session that prints letters cut in the middle, long lines, a redraw, and changes its size on the way.
func story(t *testing.T, s *server) sessions.Session {
	t.Helper()
	row := s.run(t, "sh", "-c", `stty -echo; printf 'caf\303'; sleep 0.2; printf '\251\r\n'; echo "`+strings.Repeat("wide ", 40)+`"; printf '10%%\r100%%\r\n'
		read a; seq -f 'number %.0f' 1 60; printf '\033[1mend\033[0m'; read b`)
	sc := s.watch(t, row.ID, sessions.Attach{UserID: "u", Writer: true})
	sc.shows(t, "100%")
	sc.Wish(guest.Size{Cols: 60, Rows: 20})
	eventually(t, "the size holds", func() bool { return sc.cells() == [2]uint16{60, 20} })
	if err := sc.Input(t.Context(), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "end")
	if err := sc.Input(t.Context(), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	return s.ended(t, row.ID)
}

func TestExports(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := story(t, s)
	packed(t, h, row.ID)
	raw := s.output(t, row.ID)
	if got := s.export(t, row.ID, history.RawBytes); got != raw {
		t.Errorf("raw export has %d bytes, want %d", len(got), len(raw))
	}

	lines := strings.Split(strings.TrimSuffix(s.export(t, row.ID, history.PlainText), "\n"), "\n")
	want := []string{"café", strings.TrimSpace(strings.Repeat("wide ", 40)), "100%"}
	for i := range 60 {
		want = append(want, fmt.Sprintf("number %d", i+1))
	}
	want = append(want, "end")
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("text is %q", lines)
	}

	in := bufio.NewScanner(strings.NewReader(s.export(t, row.ID, history.Asciicast)))
	in.Scan()
	var head struct{ Version, Width, Height, Timestamp int }
	if err := json.Unmarshal(in.Bytes(), &head); err != nil || head.Version != 2 || head.Width != 120 || int64(head.Timestamp) != row.StartedAt/1000 {
		t.Errorf("head %s (%v)", in.Text(), err)
	}
	var all strings.Builder
	last, sizes := 0.0, []string{}
	for in.Scan() {
		var e [3]any
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		at, data := e[0].(float64), e[2].(string)
		if at < last || strings.ContainsRune(data, '\ufffd') {
			t.Errorf("event %s after %v", in.Text(), last)
		}
		last = at
		switch e[1] {
		case "o":
			all.WriteString(data)
		case "r":
			sizes = append(sizes, data)
			if !strings.Contains(all.String(), "100%") || strings.Contains(all.String(), "number 1") {
				t.Errorf("the size changed after %q", all.String())
			}
		}
	}
	if all.String() != raw || len(sizes) != 1 || sizes[0] != "60x20" {
		t.Errorf("%d of %d bytes, sizes %v, %v s", all.Len(), len(raw), sizes, last)
	}
	if _, err := s.Export(t.Context(), "ses_none", history.RawBytes); !fault.Is(err, fault.NotFound) {
		t.Errorf("an export of nothing: %v", err)
	}
	// A reader who leaves in the middle ends the export.
	x, err := s.Export(t.Context(), row.ID, history.Asciicast)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
}

// A moment is what a terminal that saw everything up to its offset shows; what comes next goes on from there.
func TestMoments(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := story(t, s)
	raw := []byte(s.output(t, row.ID))
	resized := bytes.Index(raw, []byte("100%")) + 6
	for _, at := range []int{0, 3, 4, 5, 50, resized, resized + 30, len(raw)} {
		m, err := s.Moment(t.Context(), row.ID, int64(at))
		if err != nil {
			t.Fatal(err)
		}
		if m.Offset > int64(at) || m.Offset < int64(at)-3 {
			t.Errorf("at %d: goes on at %d", at, m.Offset)
		}
		got := scr.New(scr.Config{Cols: int(m.Cols), Rows: int(m.Rows)})
		_, _ = got.Write(m.Snapshot)
		_, _ = got.Write(raw[m.Offset:at])
		want := scr.New(scr.Config{Cols: 120, Rows: 32})
		_, _ = want.Write(raw[:min(at, resized)])
		if at > resized {
			want.Resize(60, 20)
			_, _ = want.Write(raw[resized:at])
		}
		a, b := got.Text(), want.Text()
		if at != resized && (a.Cols != b.Cols || strings.Join(a.Lines, "\n") != strings.Join(b.Lines, "\n") || a.Cursor != b.Cursor) {
			t.Errorf("at %d of %d:\n%q %v\n%q %v", at, len(raw), a.Lines, a.Cursor, b.Lines, b.Cursor)
		}
	}
	if _, err := s.Moment(t.Context(), row.ID, int64(len(raw)+1)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a moment beyond the end: %v", err)
	}
}

func TestTiming(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "stty -echo; echo ready; while read x; do echo $x; done")
	eventually(t, "it reads", func() bool { return strings.Contains(s.output(t, row.ID), "ready") })
	for n := 0; n < 10; { // what comes soon after something else shares its moment
		before := s.get(t, row.ID).Bytes
		s.types(t, row.ID, "line\r")
		eventually(t, "it answers", func() bool { return s.get(t, row.ID).Bytes > before })
		tm, err := s.Timing(t.Context(), row.ID, 0, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		n = len(tm.At)
	}
	s.types(t, row.ID, "\x04")
	row = s.ended(t, row.ID)
	tm, err := s.Timing(t.Context(), row.ID, 0, 0, 1000)
	if err != nil || !tm.Exact || len(tm.At) < 8 || tm.Offset[len(tm.Offset)-1] != row.Bytes || tm.End != row.Bytes || len(tm.Sizes) != 1 {
		t.Fatalf("%+v, %v", tm, err)
	}
	few, err := s.Timing(t.Context(), row.ID, 0, 0, 3)
	if err != nil || few.Exact || len(few.At) > 6 || len(few.At) < 2 {
		t.Fatalf("%+v, %v", few, err)
	}
	part, err := s.Timing(t.Context(), row.ID, tm.At[2], tm.At[4], 1000)
	if err != nil || len(part.At) != 3 || part.At[0] != tm.At[2] {
		t.Fatalf("%+v, %v", part, err)
	}
}
