package screen

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// frozen is a screen whose frames never end by themselves.
func frozen(cols, rows, scrollback int) *Screen {
	now := time.Unix(0, 0)
	return New(Config{Cols: cols, Rows: rows, Scrollback: scrollback, Now: func() time.Time { return now }})
}

// exact reports whether a snapshot can bring a viewer to this state to the last bit.
func exact(s *Screen) bool {
	b := s.buf
	behindEmpty := b.x == s.cols && !b.row(b.y).cells[s.cols-1].hasText()
	otherSet := s.charset != s.sets[s.level] && !s.restoredSet()
	outside := s.modes.origin && (b.y < b.first || b.y > b.last) && b == &s.alt
	return !behindEmpty && !otherSet && !outside
}

// cases returns how many generated cases to try. PARAWORK_SCREEN_TIMES multiplies it, for runs by hand.
func cases(n uint64) uint64 {
	times, err := strconv.ParseUint(os.Getenv("PARAWORK_SCREEN_TIMES"), 10, 32)
	if err != nil {
		times = 1
	}
	return n * times
}

// checkSnapshot checks that a snapshot makes a fresh screen the same, and a used one too.
func checkSnapshot(t *testing.T, what string, s *Screen) {
	t.Helper()
	if !exact(s) {
		return
	}
	snap := s.Snapshot(AllLines)
	again := frozen(s.cols, s.rows, s.hist.max)
	again.Write(snap)
	if d := differences(again.dump(), s.dump()); d != "" {
		t.Fatalf("%s: a fresh screen after the snapshot:\n%s\nsnapshot %q", what, d, snap)
	}
	if third := again.Snapshot(AllLines); !bytes.Equal(third, snap) {
		t.Fatalf("%s: the snapshot of the snapshot differs:\n%q\n%q", what, third, snap)
	}
	if got, want := again.Modes(), s.Modes(); got != want {
		t.Fatalf("%s: modes\n got %+v\nwant %+v", what, got, want)
	}
	used := frozen(s.cols, s.rows, s.hist.max)
	used.Write([]byte("\x1b[?1049h\x1b[20h\x1b[?25l\x1b]10;#123456\x07\x1b[3;4r\x1b[4mtext\x1b7\x1b[38;5"))
	used.Write(snap)
	if d := differences(used.dump(), s.dump()); d != "" {
		t.Fatalf("%s: a used screen after the snapshot:\n%s", what, d)
	}
}

func TestSnapshotAtEveryByte(t *testing.T) {
	t.Parallel()
	for seed := range cases(4) {
		g := newGenerator(seed)
		out := g.stream(30)
		s := frozen(g.cols, g.rows, 20)
		for i := range out {
			s.Write(out[i : i+1])
			checkSnapshot(t, fmt.Sprintf("seed %d after %q", seed, out[:i+1]), s)
		}
	}
}

// TestGoingOn checks that a viewer that was given a snapshot ends where one does that read everything.
func TestGoingOn(t *testing.T) {
	t.Parallel()
	for seed := range cases(200) {
		g := newGenerator(seed + 1_000_000)
		g.tame = true
		out := g.stream(50)
		cut := g.IntN(len(out) + 1)
		s := frozen(g.cols, g.rows, 20)
		s.Write(out[:cut])
		if !exact(s) || s.cur.normal().halfUnderlined() || s.cur.link != 0 && s.cur.bg&hasExt == 0 {
			continue
		}
		v := frozen(g.cols, g.rows, 20)
		v.keep = 20
		s.keep = 20
		v.Write(s.Snapshot(AllLines))
		rest := out[cut-s.Held():]
		if bytes.Contains(out, []byte("\x1b[3J")) {
			continue // moves a saved cursor by what was above the screen
		}
		s.Write(rest[s.Held():])
		v.Write(rest)
		if d := differences(v.dump(), s.dump()); d != "" {
			t.Fatalf("seed %d, cut at %d of %q: %s", seed, cut, out, d)
		}
	}
}

func TestAnyChunks(t *testing.T) {
	t.Parallel()
	for seed := range cases(300) {
		g := newGenerator(seed + 2_000_000)
		out := g.stream(60)
		whole := frozen(g.cols, g.rows, 20)
		whole.Write(out)
		parts := frozen(g.cols, g.rows, 20)
		most := 1 + g.IntN(9)
		for rest := out; len(rest) > 0; {
			n := min(len(rest), 1+g.IntN(most))
			parts.Write(rest[:n])
			rest = rest[n:]
		}
		if d := differences(parts.dump(), whole.dump()); d != "" {
			t.Fatalf("seed %d: %q in pieces: %s", seed, out, d)
		}
		if a, b := parts.Snapshot(AllLines), whole.Snapshot(AllLines); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: snapshots differ\n%q\n%q", seed, a, b)
		}
	}
}

// TestSweeps checks that nothing on the screen changes when unused styles, graphemes and links are given back.
func TestSweeps(t *testing.T) {
	t.Parallel()
	for seed := range cases(60) {
		g := newGenerator(seed + 3_000_000)
		s, other := frozen(g.cols, g.rows, 20), frozen(g.cols, g.rows, 20)
		for range 100 {
			p := []byte(g.piece())
			s.Write(p)
			s.sweep()
			other.Write(p)
		}
		if d := differences(s.dump(), other.dump()); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

func TestResizeAnyhow(t *testing.T) {
	t.Parallel()
	for seed := range cases(20) {
		g := newGenerator(seed + 4_000_000)
		s := frozen(g.cols, g.rows, 1+g.IntN(40))
		for range 12 {
			s.Write(g.stream(8))
			s.Resize(4+g.IntN(60), g.IntN(20))
			s.dump()
			if s.rows > 1 {
				checkSnapshot(t, fmt.Sprint("seed ", seed), s)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	for seed := range uint64(40) {
		g := newGenerator(seed)
		f.Add(g.stream(20), uint8(g.cols), uint8(g.rows), uint16(seed*37))
	}
	f.Fuzz(func(t *testing.T, out []byte, cols, rows uint8, how uint16) {
		c, r := int(cols%90)+4, int(rows%40)+2
		answers := 0
		whole := New(Config{Cols: c, Rows: r, Scrollback: 30, Answer: func(p []byte) { answers += len(p) }, Event: func(Event) {}, Now: func() time.Time { return time.Unix(0, 0) }})
		whole.SetAnswering(true)
		whole.Write(out)
		if answers > maxAnswers {
			t.Fatalf("%d bytes of answers", answers)
		}
		parts := frozen(c, r, 30)
		step := int(how%7) + 1
		for at := 0; at < len(out); at += step {
			parts.Write(out[at:min(len(out), at+step)])
		}
		mustEqual(t, "in pieces", parts.dump(), whole.dump())
		checkSnapshot(t, "fuzz", parts)
		parts.LastLines(20)
		parts.Text()
		parts.Resize(4+int(how>>8)%120, 2+int(how)%50)
		parts.Write(out)
		parts.dump()
		checkSnapshot(t, "fuzz, resized", parts)
	})
}
