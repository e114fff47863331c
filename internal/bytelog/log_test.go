package bytelog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/bytelog"
)

// pattern returns the bytes [off, off+n) of a stream in which every offset differs from its neighbours.
func pattern(off int64, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte((uint64(off+int64(i)) * 0x9E3779B97F4A7C15) >> 40)
	}
	return p
}

func open(t testing.TB, cfg bytelog.Config) *bytelog.Log {
	t.Helper()
	l, err := bytelog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func fill(t testing.TB, l *bytelog.Log, to int64) {
	t.Helper()
	_, off := l.Bounds()
	for off < to {
		n := min(to-off, int64(1+rand.IntN(70_000)))
		end, err := l.Append(pattern(off, int(n)))
		if err != nil || end != off+n {
			t.Fatalf("append at %d: end %d, %v", off, end, err)
		}
		off = end
	}
}

// follow reads from off to the end of a finished log and checks every byte. It returns the offsets of the gaps it met.
func follow(l *bytelog.Log, off int64) (end int64, gaps [][2]int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		changed := l.Changed()
		n, from, err := l.ReadAt(buf, off)
		if from > off {
			gaps = append(gaps, [2]int64{off, from})
		}
		if n > 0 && !bytes.Equal(buf[:n], pattern(from, n)) {
			return off, gaps, fmt.Errorf("wrong bytes at %d", from)
		}
		off = from + int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return off, gaps, nil
		case err != nil:
			return off, gaps, err
		case n == 0:
			<-changed
		}
	}
}

func TestEveryByteFromEveryOffset(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		l := open(t, bytelog.Config{Dir: dir, SegmentBytes: 100_000, RingBytes: 128 << 10})
		fill(t, l, 1_000_000)
		l.Finish()
		first, end := l.Bounds()
		if end != 1_000_000 || (dir != "" && first != 0) || (dir == "" && (first == 0 || first > end-(64<<10))) {
			t.Fatalf("bounds %d %d with dir %q", first, end, dir)
		}
		for range 50 {
			from := first + rand.Int64N(end-first+1)
			got, gaps, err := follow(l, from)
			if err != nil || got != end || len(gaps) > 0 {
				t.Fatalf("from %d: to %d, gaps %v, %v", from, got, gaps, err)
			}
		}
		if dir == "" {
			if _, gaps, err := follow(l, 0); err != nil || len(gaps) != 1 || gaps[0] != [2]int64{0, first} {
				t.Fatalf("reading dropped bytes: gaps %v, %v", gaps, err)
			}
		}
		if _, err := l.Append([]byte("x")); !errors.Is(err, bytelog.ErrClosed) {
			t.Fatalf("append after Finish: %v", err)
		}
	}
}

func TestGoesOnAfterReopening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var at int64
	for _, to := range []int64{10, 70_000, 70_001, 300_000} {
		l := open(t, bytelog.Config{Dir: dir, SegmentBytes: 64 << 10})
		if _, end := l.Bounds(); end != at {
			t.Fatalf("end %d after reopening, want %d", end, at)
		}
		fill(t, l, to)
		at = to
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, bytelog.Config{Dir: dir})
	l.Finish()
	if end, gaps, err := follow(l, 0); err != nil || end != at || len(gaps) > 0 {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
}

func TestTornEndIsOnlyShorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, bytelog.Config{Dir: dir, SegmentBytes: 1000})
	fill(t, l, 5500)
	_ = l.Close()
	if err := os.Truncate(filepath.Join(dir, fmt.Sprintf("%020d.seg", 5000)), 123); err != nil {
		t.Fatal(err)
	}
	l = open(t, bytelog.Config{Dir: dir, SegmentBytes: 1000})
	if _, end := l.Bounds(); end != 5123 {
		t.Fatalf("end %d, want 5123", end)
	}
	fill(t, l, 9000)
	l.Finish()
	if end, gaps, err := follow(l, 0); err != nil || end != 9000 || len(gaps) > 0 {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
}

func TestCapAndDrop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, bytelog.Config{Dir: dir, MaxBytes: 1 << 20, RingBytes: 64 << 10})
	fill(t, l, 5<<20)
	first, end := l.Bounds()
	if kept := end - first; kept > 1<<20 || kept < 1<<19 {
		t.Fatalf("kept %d bytes of a cap of 1 MiB", kept)
	}
	if n := l.DiskBytes(); n > 1<<20 {
		t.Fatalf("%d bytes on disk", n)
	}
	l.DropBefore(end - 1)
	if f, _ := l.Bounds(); f <= first {
		t.Fatalf("first stayed at %d", f)
	}
	l.Finish()
	if got, gaps, err := follow(l, 0); err != nil || got != end || len(gaps) != 1 {
		t.Fatalf("to %d, gaps %v, %v", got, gaps, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 2 {
		t.Fatalf("%d files left", len(entries))
	}
}

// A disk that fails is played by a folder that is taken away: no new segment can be made.
func TestFailingDiskDegradesToTheRing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	now := time.Unix(1000, 0)
	l := open(t, bytelog.Config{Dir: dir, SegmentBytes: 10_000, RingBytes: 64 << 10, Now: func() time.Time { return now }})
	fill(t, l, 15_000)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 30_000)
	if l.Degraded() == nil {
		t.Fatal("not degraded")
	}
	if _, from, err := l.ReadAt(make([]byte, 1), 29_000); from != 29_000 || err != nil {
		t.Fatalf("the ring lost a byte: %d, %v", from, err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 31_000)
	if l.Degraded() == nil {
		t.Fatal("tried the disk again at once")
	}
	now = now.Add(time.Minute)
	fill(t, l, 32_000)
	if err := l.Degraded(); err != nil {
		t.Fatalf("still degraded: %v", err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 5_000_000) // more than is held for the disk: a gap
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	l.Finish()
	end, gaps, err := follow(l, 0)
	if err != nil || end != 5_000_000 || len(gaps) != 1 || gaps[0][0] != 40_000 {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
	_ = l.Close()
	again := open(t, bytelog.Config{Dir: dir})
	again.Finish()
	if end, got, err := follow(again, 0); err != nil || end != 5_000_000 || len(got) != 1 || got[0] != gaps[0] {
		t.Fatalf("after reopening: to %d, gaps %v, %v", end, got, err)
	}
}

func TestHostileFilesInTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, fmt.Sprintf("%020d.seg", 0))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.txt", "99999999999999999999.seg", "-1.seg"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := open(t, bytelog.Config{Dir: dir, RingBytes: 64 << 10})
	if _, end := l.Bounds(); end != 0 {
		t.Fatalf("end %d", end)
	}
	fill(t, l, 1000) // the link stands where the first segment should be: not followed
	if l.Degraded() == nil {
		t.Fatal("followed a link")
	}
}

func TestReleaseMemoryKeepsTheBytes(t *testing.T) {
	t.Parallel()
	l := open(t, bytelog.Config{Dir: t.TempDir()})
	fill(t, l, 200_000)
	l.Finish()
	l.ReleaseMemory()
	if end, gaps, err := follow(l, 0); err != nil || end != 200_000 || len(gaps) > 0 {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
}

// Many readers follow one writer; one of them stalls. With the disk behind it nobody loses a byte; in memory only, the stalled
// one alone has a gap.
func TestManyReadersOneStalled(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		l := open(t, bytelog.Config{Dir: dir, SegmentBytes: 1 << 20, RingBytes: 512 << 10})
		const total = 8 << 20
		release := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if i == 0 {
					<-release
				}
				end, gaps, err := follow(l, 0)
				if err != nil || end != total {
					t.Errorf("reader %d: to %d, %v", i, end, err)
				}
				if (dir != "" && len(gaps) > 0) || (i == 0 && dir == "" && len(gaps) == 0) {
					t.Errorf("reader %d with dir %q: gaps %v", i, dir, gaps)
				}
			})
		}
		fill(t, l, total)
		l.Finish()
		close(release)
		wg.Wait()
	}
}
