package screen

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// hostile is output made to cost time or memory.
func hostile() map[string][]byte {
	const size = 1 << 16
	r := rand.New(rand.NewPCG(5, 5))
	gen := func(piece func(i int) string) []byte {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(piece(i))
		}
		return []byte(b.String())
	}
	rep := func(s string) []byte { return gen(func(int) string { return s }) }
	costly := func(s string) []byte { return rep(s)[:size/8] } // every few bytes fill the screen
	return map[string][]byte{
		"colours": gen(func(i int) string {
			return fmt.Sprintf("\x1b[38;2;%d;%d;%d;48;2;%d;%d;1mx", i&255, i>>8&255, i>>16, i*7&255, i>>5&255)
		}),
		"links":      gen(func(i int) string { return fmt.Sprintf("\x1b]8;;https://example.com/%d\x07x", i) }),
		"long links": gen(func(i int) string { return fmt.Sprintf("\x1b]8;id=%d;x:%s\x07x", i, strings.Repeat("y", 8000)) }),
		"marks":      gen(func(i int) string { return "e" + strings.Repeat(string(rune(0x300+i%100)), 40) }),
		"graphemes": gen(func(i int) string {
			return "👩\u200d" + string(rune(0x1f300+r.IntN(300))) + "\u200d" + string(rune(0x1f300+r.IntN(300)))
		}),
		"endless title": append([]byte("\x1b]0;"), rep("title ")...),
		"endless DCS":   append([]byte("\x1bP+q"), rep("00")...),
		"endless APC":   append([]byte("\x1b_G"), rep("AAAA")...),
		"parameters":    append([]byte("\x1b["), rep("1;2:3;")...),
		"digits":        append([]byte("\x1b["), rep("9")...),
		"titles":        rep("\x1b]2;" + strings.Repeat("t", 5000) + "\x07\x1b[22t"),
		"questions":     rep("\x1b[c\x1b[6n\x1b]10;?\x07\x1b[>q"),
		"switches":      rep("\x1b[?1049h\x1b[?1049l"),
		"insert lines":  costly("\x1b[H\x1b[999L\x1b[44m"),
		"scroll":        rep("\x1b[2;59r\x1b[999S\x1b[3T"),
		"columns":       rep("\x1b[3'}\x1b[2 @x"),
		"repeat":        costly("x\x1b[99999b"),
		"resets":        rep("\x1bc"),
		"soft resets":   rep("\x1b[!p"),
		"erase":         rep("\x1b[41m\x1b[2J\x1b[42m\x1b[1J"),
		"newlines":      rep("\n"),
		"wraps":         rep("世"),
		"tabs":          rep("\t\x1bH\x1b[99I\x1b[99Z"),
		"kitty":         rep("\x1b[>31u\x1b[99<u\x1b[=5;2u"),
		"colour table":  gen(func(i int) string { return fmt.Sprintf("\x1b]4;%d;#123456\x07", i&255) }),
		"alignment":     costly("\x1b#8"),
		"noise": gen(func(int) string {
			b := make([]byte, 64)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return string(b)
		}),
		"noise in sequences": gen(func(int) string {
			b := make([]byte, 8)
			for i := range b {
				b[i] = byte(0x20 + r.IntN(0x60))
			}
			return "\x1b[" + string(b)
		}),
	}
}

// TestHostile checks that nothing a program may print takes much time or memory.
func TestHostile(t *testing.T) {
	for name, out := range hostile() {
		t.Run(name, func(t *testing.T) {
			var s *Screen
			var took time.Duration
			got := heapOf(1, func() *Screen {
				s = New(Config{Cols: 200, Rows: 60, Answer: func(p []byte) {
					if len(p) > maxAnswers {
						t.Errorf("%d bytes of answers", len(p))
					}
				}})
				s.SetAnswering(true)
				began := time.Now()
				for at := 0; at < len(out); at += 32 << 10 {
					s.Write(out[at:min(len(out), at+32<<10)])
				}
				took = time.Since(began)
				return s
			})
			began := time.Now()
			snap := s.Snapshot(AllLines)
			t.Logf("%d KiB, %.1f MB/s, snapshot %d KiB in %v", got>>10, float64(len(out))/1e6/took.Seconds(), len(snap)>>10, time.Since(began))
			if got > 24<<20 {
				t.Errorf("a screen takes %d MiB", got>>20)
			}
			if took > 30*time.Second {
				t.Errorf("64 KiB took %v", took)
			}
			again := New(Config{Cols: 200, Rows: 60})
			again.Write(snap)
			if exact(s) {
				mustEqual(t, "after a snapshot", again.dump(), s.dump())
			}
		})
	}
}

func TestEndlessTitleIsDropped(t *testing.T) {
	s := New(Config{Cols: 80, Rows: 24})
	s.Write([]byte("\x1b]0;"))
	s.Write(bytes.Repeat([]byte("x"), 1<<20))
	s.Write([]byte("\x07\x1b]2;short\x07"))
	if s.Title() != "short" {
		t.Errorf("title %.40q", s.Title())
	}
}

// TestTablesRecover checks that full tables take new entries again once the old ones are gone from the screen.
func TestTablesRecover(t *testing.T) {
	t.Parallel()
	const clear = "\x1b]8;;\x07\x1b[m\x1b[H\x1b[2J\x1b[3J"
	first := func(s *Screen) cell { return s.main.row(0).cells[0] }
	for name, c := range map[string]struct {
		many      int // enough to fill the table
		fill      func(s *Screen, i int)
		live      func(s *Screen) int
		most      int
		recovered func(s *Screen) bool // after the same once more on an empty screen
	}{
		"styles": {
			many: maxStyles + 3*sweepEvery, most: maxStyles,
			fill:      func(s *Screen, i int) { fmt.Fprintf(s, "\x1b[38;2;%d;%d;%dmx", i&255, i>>8&255, i>>16) },
			live:      func(s *Screen) int { return s.styles.live() },
			recovered: func(s *Screen) bool { return s.styles.list[first(s).style()].fg&modeMask == modeRGB },
		},
		"links": {
			many: maxLinks + 2*sweepEvery, most: maxLinks,
			fill:      func(s *Screen, i int) { fmt.Fprintf(s, "\x1b]8;;x:%d\x07x", i) },
			live:      func(s *Screen) int { return s.links.live() },
			recovered: func(s *Screen) bool { return s.styles.list[first(s).style()].link != 0 },
		},
		"graphemes": {
			many: maxClusters + 2*sweepEvery, most: maxClusters,
			fill: func(s *Screen, i int) {
				fmt.Fprintf(s, "%c%c", 'a'+i%26, 0x300+i/26%96)
				fmt.Fprintf(s, "%c", 0x300+i/26/96%96)
			},
			live:      func(s *Screen) int { return s.clusters.live() },
			recovered: func(s *Screen) bool { return first(s)&combined != 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{Cols: 200, Rows: 60, Scrollback: 800})
			for i := range c.many {
				c.fill(s, i)
			}
			if n := c.live(s); n < c.most/2 || n > c.most {
				t.Errorf("%d of at most %d", n, c.most)
			}
			s.Write([]byte(clear))
			for i := range 2 * sweepEvery {
				s.Write([]byte("\x1b[H"))
				c.fill(s, c.many+i)
			}
			if !c.recovered(s) {
				t.Error("the table is still full")
			}
			if n := c.live(s); n > 4*sweepEvery {
				t.Errorf("%d are left", n)
			}
		})
	}
}
