package screen

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

const corpusSize = 4 << 20

var words = strings.Fields("the of server session terminal output func return error package context workspace reading writing snapshot agent branch merge commit line file change value string buffer cursor screen history")

func sentence(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// plainLines is what a build or a test run prints.
func plainLines() []byte {
	r := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for n := 0; b.Len() < corpusSize; n++ {
		fmt.Fprintf(&b, "%06d %s\r\n", n, sentence(r, 20+r.IntN(80)))
	}
	return []byte(b.String())
}

// colorDiffs is what git diff and pagers with colours print.
func colorDiffs() []byte {
	r := rand.New(rand.NewPCG(2, 2))
	var b strings.Builder
	for n := 0; b.Len() < corpusSize; n++ {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "\x1b[32m+\x1b[m\x1b[32m%s\x1b[m\r\n", sentence(r, 20+r.IntN(60)))
		case 1:
			fmt.Fprintf(&b, "\x1b[31m-%s\x1b[1;7m%s\x1b[27;22m%s\x1b[m\r\n", sentence(r, 10), sentence(r, 8), sentence(r, 20))
		case 2:
			fmt.Fprintf(&b, "\x1b[38;5;%dm%4d\x1b[39m \x1b[38;2;%d;120;200m%s\x1b[39m \x1b[48;5;22m%s\x1b[0m\r\n", 230+r.IntN(20), n, r.IntN(8)*30, sentence(r, 25), sentence(r, 20))
		default:
			fmt.Fprintf(&b, " %s\r\n", sentence(r, 20+r.IntN(60)))
		}
	}
	return []byte(b.String())
}

// agentOutput is what a coding agent's interface prints: frames that draw a few rows again, and now and then text above.
func agentOutput() []byte {
	r := rand.New(rand.NewPCG(3, 3))
	spin := []string{"✻", "✽", "✶", "✳", "✢", "·"}
	var b strings.Builder
	for n := 0; b.Len() < corpusSize; n++ {
		b.WriteString("\x1b[?2026h\x1b[?25l")
		for range 7 {
			b.WriteString("\x1b[2K\x1b[1A")
		}
		b.WriteString("\x1b[2K\x1b[G")
		if n%4 == 0 {
			fmt.Fprintf(&b, "\x1b[38;2;255;255;255m●\x1b[39m \x1b[1mUpdate\x1b[22m(%s.go)\r\n  ⎿  %s\r\n", words[r.IntN(len(words))], sentence(r, 50))
		}
		fmt.Fprintf(&b, "\x1b[38;2;215;119;87m%s %s…\x1b[39m \x1b[38;2;153;153;153m(%ds · ↑ %d tokens · esc to interrupt)\x1b[39m\r\n\r\n", spin[n%len(spin)], sentence(r, 9), n, n*37)
		b.WriteString("\x1b[2m\x1b[38;2;136;136;136m╭" + strings.Repeat("─", 100) + "╮\x1b[39m\x1b[22m\r\n")
		fmt.Fprintf(&b, "\x1b[2m│\x1b[22m > %-97s \x1b[2m│\x1b[22m\r\n", sentence(r, r.IntN(60)))
		b.WriteString("\x1b[2m\x1b[38;2;136;136;136m╰" + strings.Repeat("─", 100) + "╯\x1b[39m\x1b[22m\r\n")
		fmt.Fprintf(&b, "  \x1b[38;2;153;153;153m? for shortcuts\x1b[39m%60s\x1b[38;2;78;186;101m%s\x1b[39m\r\n\r\n", "", sentence(r, 12))
		b.WriteString("\x1b[?25h\x1b[?2026l")
	}
	return []byte(b.String())
}

func benchmarkWrite(b *testing.B, corpus []byte) {
	s := New(Config{Cols: 120, Rows: 32})
	b.SetBytes(int64(len(corpus)))
	b.ReportAllocs()
	for b.Loop() {
		for at := 0; at < len(corpus); at += 16 << 10 {
			s.Write(corpus[at:min(len(corpus), at+16<<10)])
		}
	}
}

func BenchmarkWriteAgent(b *testing.B) { benchmarkWrite(b, agentOutput()) }
func BenchmarkWriteDiffs(b *testing.B) { benchmarkWrite(b, colorDiffs()) }
func BenchmarkWritePlain(b *testing.B) { benchmarkWrite(b, plainLines()) }

// BenchmarkWriteUnicode is text in other scripts.
func BenchmarkWriteUnicode(b *testing.B) {
	benchmarkWrite(b, []byte(strings.Repeat("日本語のテキストと emoji 😀👩\u200d💻 und Umlaute äöü, кириллица и ещё.\r\n", corpusSize/100)))
}

func colorful(cols, rows int) *Screen {
	s := New(Config{Cols: cols, Rows: rows})
	diffs := colorDiffs()
	s.Write(diffs[:300<<10])
	r := rand.New(rand.NewPCG(4, 4))
	for y := range rows {
		fmt.Fprintf(s, "\x1b[%dH", y+1)
		for x := 0; x < cols; x += 8 {
			fmt.Fprintf(s, "\x1b[38;5;%d;48;2;%d;%d;30m%s", r.IntN(256), r.IntN(256), r.IntN(256), sentence(r, 8))
		}
	}
	return s
}

func BenchmarkSnapshot(b *testing.B) {
	for _, c := range []struct {
		name  string
		above int
	}{{"screen", 0}, {"screen+1000", 1000}} {
		b.Run(c.name, func(b *testing.B) {
			s := colorful(200, 60)
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = s.AppendSnapshot(buf[:0], c.above)
			}
			b.SetBytes(int64(len(buf)))
			b.ReportMetric(float64(len(buf)), "bytes")
		})
	}
}

func BenchmarkText(b *testing.B) {
	s := colorful(200, 60)
	for b.Loop() {
		s.Text()
	}
}

func BenchmarkResize(b *testing.B) {
	s := New(Config{Cols: 120, Rows: 32})
	s.Write(plainLines()[:400<<10])
	cols := 120
	for b.Loop() {
		cols = 220 - cols
		s.Resize(cols, 32)
	}
}

// heapOf returns how much memory n of what build makes take, each.
func heapOf(n int, build func() *Screen) uint64 {
	var before, after runtime.MemStats
	keep := make([]*Screen, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range keep {
		keep[i] = build()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(keep)
	return (after.HeapAlloc - before.HeapAlloc) / uint64(n)
}

func TestMemory(t *testing.T) {
	plain, diffs, agent := plainLines(), colorDiffs(), agentOutput()
	for _, c := range []struct {
		name string
		out  []byte
		most uint64
	}{
		{"new", nil, 60 << 10},
		{"agent at rest", agent[:200<<10], 200 << 10},
		{"coloured diffs", diffs[:200<<10], 250 << 10},
		{"plain lines", plain[:200<<10], 250 << 10},
	} {
		got := heapOf(20, func() *Screen {
			s := New(Config{Cols: 120, Rows: 32})
			s.Write(c.out)
			return s
		})
		t.Logf("%s: %d KiB", c.name, got>>10)
		if got > c.most {
			t.Errorf("%s: a screen takes %d bytes, more than %d", c.name, got, c.most)
		}
	}
}

// TestSnapshotSpeed fails when a snapshot takes far longer than it was made to, so that it is noticed; benchmarks tell more.
func TestSnapshotSpeed(t *testing.T) {
	s := colorful(200, 60)
	best := time.Hour
	for range 20 {
		began := time.Now()
		s.Snapshot(0)
		best = min(best, time.Since(began))
	}
	if t.Logf("snapshot of 200x60: %v", best); best > 10*time.Millisecond {
		t.Errorf("a snapshot takes %v", best)
	}
}
