package sessions_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions"
	terminal "github.com/parawork/parawork/sessions/screen"
)

// screenful draws what a full-screen program and a prompt do: colours, wide characters, another screen, a title, odd modes.
const screenful = `printf '\033]2;a title\007\033[31mred\033[1;44m bold on blue \033[m\r\n世界 👩\xe2\x80\x8d💻 e\xcc\x81\r\n'
seq 1 200 | sed 's/$/\r/'
printf '\033[?1049h\033[2J\033[5;7H\033[38;2;1;2;3malternate\033[?2004h\033[?1003;1006h\033[3 q\033[4;10r\033[6;9H'
printf 'ready'`

// terminalOf is the terminal of a viewer that was given what sc was.
func (sc *screen) terminalOf() *terminal.Screen {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	size := sc.snapSize
	if sc.snap == nil {
		size = sc.marks[0].size
	}
	s := terminal.New(terminal.Config{Cols: int(size[0]), Rows: int(size[1]), Scrollback: 3000})
	_, _ = s.Write(sc.snap)
	at := sc.from
	for _, m := range sc.marks {
		if m.at > at {
			_, _ = s.Write(sc.got[at-sc.from : m.at-sc.from])
			at = m.at
		}
		s.Resize(int(m.size[0]), int(m.size[1]))
	}
	_, _ = s.Write(sc.got[max(at-sc.from, 0):])
	return s
}

// sameScreen checks that a viewer who comes now sees, cell for cell, what one sees who has read everything.
func sameScreen(t *testing.T, what string, s *server, id string) *screen {
	t.Helper()
	all := s.watch(t, id, sessions.Attach{})
	fresh := s.attach(t, id, sessions.Attach{})
	eventually(t, "both have all bytes", func() bool { _, end := s.bounds(t, id); return all.at() == end && fresh.at() == end })
	a, b := all.terminalOf(), fresh.terminalOf()
	if got, want := b.Snapshot(terminal.AllLines), a.Snapshot(terminal.AllLines); !bytes.Equal(got, want) {
		t.Errorf("%s: the screen differs\n got %.2000q\nwant %.2000q", what, got, want)
	}
	if fresh.gaps > 0 || fresh.snap == nil {
		t.Errorf("%s: %d gaps, %d bytes of screen", what, fresh.gaps, len(fresh.snap))
	}
	text, _, err := s.Screen(t.Context(), id, 0)
	if err != nil || strings.Join(text.Lines, "\n") != strings.Join(a.Text().Lines, "\n") || text.AltScreen != a.AltScreen() {
		t.Errorf("%s: as text %q, %v, want %q", what, text.Lines, err, a.Text().Lines)
	}
	return fresh
}

// at is the offset a viewer has reached.
func (sc *screen) at() int64 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.from + int64(len(sc.got))
}

func (s *server) bounds(t *testing.T, id string) (first, end int64) {
	t.Helper()
	_, first, end, err := s.Output(t.Context(), id, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return first, end
}

func TestFreshViewerSeesTheScreen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `stty raw -echo; `+screenful+`; read x; seq 1 300 | sed 's/$/\r/'; printf 'more'; read x; printf '\033[?1049lback'`)
	w := s.watch(t, row.ID, sessions.Attach{Writer: true})
	w.shows(t, "ready")
	f := sameScreen(t, "alternate screen", s, row.ID)
	if f.from != w.at() {
		t.Errorf("the screen stands at %d of %d", f.from, w.at())
	}
	key := func(sc *screen, want string) {
		t.Helper()
		if err := sc.Input(t.Context(), []byte("\n")); err != nil {
			t.Fatal(err)
		}
		sc.shows(t, want)
	}
	key(w, "more")
	f.shows(t, "more")
	sameScreen(t, "after more", s, row.ID)
	s.end()
	s = h.start()
	sameScreen(t, "after a restart", s, row.ID)
	s.end()
	if err := os.Remove(filepath.Join(h.dir, "sessions", row.ID, "screen")); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	sameScreen(t, "with nothing stored", s, row.ID)
	s.end()
	if err := os.WriteFile(filepath.Join(h.dir, "sessions", row.ID, "screen"), []byte("PWS1 nonsense of some length, longer than a head"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	sameScreen(t, "with nonsense stored", s, row.ID)
	w = s.watch(t, row.ID, sessions.Attach{Writer: true})
	key(w, "back")
	s.ended(t, row.ID)
	f = sameScreen(t, "ended", s, row.ID)
	<-f.over
	if f.exit == nil {
		t.Error("no exit")
	}
}

func TestStoredScreenOfOtherBytesIsNotUsed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.ended(t, s.run(t, "sh", "-c", "stty raw; seq 1 1000 | sed 's/$/\\r/'").ID)
	sameScreen(t, "ended", s, row.ID)
	b := []byte(s.output(t, row.ID))
	s.end()
	// The log of an ended session may be packed: a plain one of other bytes takes its place.
	segments, err := filepath.Glob(filepath.Join(h.dir, "sessions", row.ID, "*.seg*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range segments {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	seg := filepath.Join(h.dir, "sessions", row.ID, fmt.Sprintf("%020d.seg", 0))
	if err := os.WriteFile(seg, bytes.ToUpper(bytes.ReplaceAll(b, []byte("999"), []byte("xyz"))), 0o600); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	f := sameScreen(t, "other bytes", s, row.ID)
	if !bytes.Contains(f.snap, []byte("XYZ")) {
		t.Error("the screen is one of other bytes")
	}
}

func TestScreenSleepsAndWakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.ScreenSleep = 20 * time.Millisecond }
	s := h.start()
	row := s.run(t, "sh", "-c", `stty raw -echo; `+screenful+`; while read x; do printf '\033[35mline %s\r\n' "$x"; done`)
	w := s.watch(t, row.ID, sessions.Attach{Writer: true})
	w.shows(t, "ready")
	for i := range 5 {
		stored := filepath.Join(h.dir, "sessions", row.ID, "screen")
		_ = os.Remove(stored)
		if err := w.Input(t.Context(), fmt.Appendf(nil, "%d\n", i)); err != nil {
			t.Fatal(err)
		}
		w.shows(t, fmt.Sprintf("line %d", i))
		eventually(t, "the screen is stored", func() bool { _, err := os.Stat(stored); return err == nil })
		sameScreen(t, "woken", s, row.ID)
	}
}

func TestSizesStandBetweenTheBytes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `stty raw -echo; trap 'printf "\r\nsize "; stty size; seq 1 60 | tr "\n" " "' WINCH; echo ready; while :; do sleep 0.05; done`)
	w := s.watch(t, row.ID, sessions.Attach{UserID: "a", Writer: true})
	w.shows(t, "ready")
	var numbers strings.Builder // as the program writes them after each size
	for i := range 60 {
		fmt.Fprintf(&numbers, "%d ", i+1)
	}
	for _, size := range []guest.Size{{Cols: 54, Rows: 40}, {Cols: 159, Rows: 72}, {Cols: 80, Rows: 24}} {
		w.Wish(size)
		w.shows(t, fmt.Sprintf("size %d %d\n%s", size.Rows, size.Cols, numbers.String())) // to its last byte: nothing comes while screens are compared
	}
	check := func(what string, sc *screen) {
		t.Helper()
		eventually(t, what, func() bool { return sc.at() == w.at() && sc.cells() == [2]uint16{80, 24} })
		sc.mu.Lock()
		defer sc.mu.Unlock()
		for i, want := range [][2]uint16{{120, 32}, {54, 40}, {159, 72}, {80, 24}} {
			if i >= len(sc.marks) || sc.marks[i].size != want {
				t.Fatalf("%s: sizes %v", what, sc.marks)
			}
			// A program is notified of its size only after it was set.
			if at := bytes.Index(sc.got, fmt.Appendf(nil, "size %d %d", want[1], want[0])); i > 0 && (at < 0 || int64(at) < sc.marks[i].at) {
				t.Errorf("%s: %v told at %d, the program said so at %d", what, want, sc.marks[i].at, at)
			}
		}
	}
	check("live", w)
	check("again", s.watch(t, row.ID, sessions.Attach{}))
	sameScreen(t, "after sizes", s, row.ID)
	s.end()
	s = h.start()
	check("after a restart", s.watch(t, row.ID, sessions.Attach{}))
	sameScreen(t, "after a restart", s, row.ID)
}

func TestTail(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	long := strings.Repeat("0123456789", 30)
	row := s.ended(t, s.run(t, "sh", "-c", "echo first; echo "+long+"; echo; echo last; echo; echo").ID)
	_, last, err := s.Screen(t.Context(), row.ID, 3)
	if err != nil || len(last) != 3 || last[0] != long || last[1] != "" || last[2] != "last" {
		t.Errorf("%q, %v", last, err)
	}
	if text, last, err := s.Screen(t.Context(), row.ID, 0); err != nil || last != nil || text.Lines[0] != "first" {
		t.Errorf("%q, %q, %v", text.Lines, last, err)
	}
}
