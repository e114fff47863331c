package screen

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// op is one step of a comparison.
type op struct {
	W []byte `json:"w,omitempty"`
	R []int  `json:"r,omitempty"`
}

type request struct {
	Cols       int  `json:"cols"`
	Rows       int  `json:"rows"`
	Scrollback int  `json:"scrollback"`
	Ops        []op `json:"ops"`
}

// xterm is a process that answers what the viewers' terminal makes of output.
type xterm struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startXterm(t testing.TB) *xterm {
	t.Helper()
	if os.Getenv("PARAWORK_XTERM") == "" {
		t.Skip("SKIPPED: PARAWORK_XTERM does not name a folder with @xterm/headless and @xterm/addon-unicode-graphemes in node_modules; the screen is not compared with xterm.js")
	}
	cmd := exec.Command("node", "testdata/xterm.mjs")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &xterm{in, bufio.NewReaderSize(out, 1<<20)}
}

func (x *xterm) run(t testing.TB, r request) dump {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	text, err := x.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var d dump
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func apply(r request) *Screen {
	s := New(Config{Cols: r.Cols, Rows: r.Rows, Scrollback: r.Scrollback, ViewerScrollback: r.Scrollback})
	for _, o := range r.Ops {
		if o.R != nil {
			s.Resize(o.R[0], o.R[1])
		} else {
			s.Write(o.W)
		}
	}
	return s
}

// snapshotRequest asks for what a viewer makes of a snapshot.
func snapshotRequest(s *Screen, scrollback int) request {
	return request{Cols: s.cols, Rows: s.rows, Scrollback: scrollback, Ops: []op{{W: s.Snapshot(AllLines)}}}
}

// compare compares a screen with a viewer's terminal: after the same output, and after a snapshot. It returns what differs.
func (x *xterm) compare(t testing.TB, r request) string {
	t.Helper()
	s := apply(r)
	if d := differences(s.dump(), x.run(t, r)); d != "" {
		return "after the same output: " + d
	}
	if s.buf.x == s.cols && !s.buf.row(s.buf.y).cells[s.cols-1].hasText() {
		return "" // no output leaves the cursor behind an empty cell
	}
	if s.charset != s.sets[s.level] && !s.restoredSet() {
		return "" // restored on the other screen; it ends with the next choice of a set
	}
	if d := differences(x.run(t, snapshotRequest(s, r.Scrollback)), s.dump()); d != "" {
		return fmt.Sprintf("after a snapshot: %s\nsnapshot %q", d, s.Snapshot(AllLines))
	}
	return ""
}

func TestLikeXterm(t *testing.T) {
	x := startXterm(t)
	n, from := 400, uint64(0)
	if testing.Short() {
		n = 50
	}
	if v := os.Getenv("PARAWORK_XTERM_CASES"); v != "" { // more, in runs by hand: "count from"
		fmt.Sscan(v, &n, &from)
	}
	failed := 0
	for seed := from; seed < from+uint64(n); seed++ {
		g := newGenerator(seed)
		g.tame = true
		r := request{Cols: g.cols, Rows: g.rows, Scrollback: 1 + g.IntN(30)}
		resizes := g.IntN(3) == 0
		if resizes {
			r.Scrollback = 500 // xterm.js mixes up the oldest lines when wrapping anew makes more than there may be
		}
		for range 1 + g.IntN(3) {
			out := []byte{0} // xterm.js knows the character before a resize, ours not: neither does now
			for range 1 + g.IntN(40) {
				out = append(out, g.piece()...)
			}
			r.Ops = append(r.Ops, op{W: out})
			if resizes && g.IntN(3) == 0 {
				cols, rows := 4+g.IntN(30), 2+g.IntN(10)
				if s := apply(r); s.AltScreen() {
					cols = max(cols, s.cols) // xterm.js keeps what is cut off a line out of sight, and finds it again
				}
				r.Ops = append(r.Ops, op{R: []int{cols, rows}})
			}
		}
		if d := x.compare(t, r); d != "" {
			t.Errorf("seed %d: %s", seed, x.minimize(t, r))
			if failed++; failed > 5 {
				t.Fatal("too many differences")
			}
		}
	}
}

// minimize makes a request that shows a difference small.
func (x *xterm) minimize(t testing.TB, r request) string {
	for changed := true; changed; {
		changed = false
		for i := 0; i < len(r.Ops); i++ {
			try := r
			try.Ops = slices.Delete(slices.Clone(r.Ops), i, i+1)
			if x.compare(t, try) != "" {
				r, changed = try, true
				i--
			}
		}
		for i := range r.Ops {
			for size := len(r.Ops[i].W) / 2; size > 0; size /= 2 {
				for at := 0; at+size <= len(r.Ops[i].W); {
					try := r
					try.Ops = slices.Clone(r.Ops)
					w := slices.Delete(slices.Clone(r.Ops[i].W), at, at+size)
					try.Ops[i] = op{W: w}
					if len(w) > 0 && x.compare(t, try) != "" {
						r, changed = try, true
					} else {
						at += size
					}
				}
			}
		}
	}
	text := fmt.Sprintf("%dx%d scrollback %d", r.Cols, r.Rows, r.Scrollback)
	for _, o := range r.Ops {
		if o.R != nil {
			text += fmt.Sprintf(" resize %v", o.R)
		} else {
			text += fmt.Sprintf(" %q", o.W)
		}
	}
	return text + "\n" + x.compare(t, r)
}
