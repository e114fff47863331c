package bytelog_test

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/bytelog"
)

// deflate is a codec of the standard library.
type deflate struct{}

func (deflate) Encode(dst, p []byte) []byte {
	b := bytes.NewBuffer(dst)
	w, err := flate.NewWriter(b, 1)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func (deflate) Decode(dst, p []byte) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(p))
	for {
		if len(dst) == cap(dst) {
			var one [1]byte
			if n, err := r.Read(one[:]); n == 0 && err == io.EOF {
				return dst, nil
			}
			return nil, fmt.Errorf("too long")
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func pack(t testing.TB, l *bytelog.Log) int {
	t.Helper()
	n, err := l.Pack(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func names(t testing.TB, dir, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPackedLogReadsTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := bytelog.Config{Dir: dir, SegmentBytes: 700_001, RingBytes: 64 << 10, Codec: deflate{}}
	l := open(t, cfg)
	fill(t, l, 5_000_000)
	if n := pack(t, l); n != 7 { // the last one is still written
		t.Fatalf("packed %d segments", n)
	}
	fill(t, l, 5_100_000)
	check := func(l *bytelog.Log) {
		t.Helper()
		buf := make([]byte, 90_000)
		for range 200 {
			off := rand.Int64N(5_100_000)
			n, from, err := l.ReadAt(buf, off)
			if err != nil || from != off || n == 0 || !bytes.Equal(buf[:n], pattern(off, n)) {
				t.Fatalf("at %d: %d bytes from %d, %v", off, n, from, err)
			}
		}
	}
	check(l)
	l.Finish()
	l.ReleaseMemory()
	if pack(t, l) != 1 || l.Unpacked() || len(names(t, dir, "*.seg")) != 0 {
		t.Fatal("the end was not packed")
	}
	check(l)
	again := open(t, cfg)
	again.Finish()
	check(again)
	if end, gaps, err := follow(again, 0); end != 5_100_000 || len(gaps) > 0 || err != nil {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
	var size int64
	for _, f := range names(t, dir, "*") {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if again.DiskBytes() != size || l.DiskBytes() != size {
		t.Fatalf("%d and %d bytes on disk, are %d", again.DiskBytes(), l.DiskBytes(), size)
	}
}

// Readers go on while segments are packed under them and the writer writes.
func TestPackingUnderReaders(t *testing.T) {
	t.Parallel()
	l := open(t, bytelog.Config{Dir: t.TempDir(), SegmentBytes: 300_000, RingBytes: 64 << 10, Codec: deflate{}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if end, gaps, err := follow(l, 0); end != 6_000_000 || len(gaps) > 0 || err != nil {
				t.Errorf("to %d, gaps %v, %v", end, gaps, err)
			}
		})
	}
	done := make(chan struct{})
	wg.Go(func() {
		for {
			pack(t, l)
			select {
			case <-done:
				return
			default:
			}
		}
	})
	fill(t, l, 6_000_000)
	l.Finish()
	close(done)
	wg.Wait()
}

// A process may die at any step of packing: what it leaves reads the same.
func TestLeftoversOfPacking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := bytelog.Config{Dir: dir, SegmentBytes: 400_000, Codec: deflate{}}
	l := open(t, cfg)
	fill(t, l, 1_300_000)
	_ = l.Close()
	first := filepath.Join(dir, fmt.Sprintf("%020d", 0))
	plain, err := os.ReadFile(first + ".seg")
	if err != nil {
		t.Fatal(err)
	}
	pack(t, l)
	put := func(name string, raw []byte) {
		t.Helper()
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(first + ".segz")
	if err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func(){
		"half a packed file":        func() { put(first+".packing", good[:len(good)/2]) },
		"both forms":                func() { put(first+".seg", plain) },
		"a damaged one and a plain": func() { put(first+".segz", good[:len(good)-3]); put(first+".seg", plain) },
	} {
		leave()
		l := open(t, cfg)
		l.Finish()
		if end, gaps, err := follow(l, 0); end != 1_300_000 || len(gaps) > 0 || err != nil {
			t.Errorf("%s: to %d, gaps %v, %v", name, end, gaps, err)
		}
		pack(t, l)
		if n := len(names(t, dir, "*.packing")) + len(names(t, dir, "*.seg")); n != 0 {
			t.Errorf("%s: %d files left", name, n)
		}
	}
	// What is damaged and there only once is a gap, not a lie.
	put(first+".segz", good[:len(good)-3])
	l = open(t, cfg)
	l.Finish()
	if end, gaps, err := follow(l, 0); end != 1_300_000 || len(gaps) != 1 || err != nil {
		t.Errorf("to %d, gaps %v, %v", end, gaps, err)
	}
}

func TestCapCountsPackedBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, bytelog.Config{Dir: dir, MaxBytes: 1 << 20, SegmentBytes: 200_000, RingBytes: 64 << 10, Codec: deflate{}})
	zeros := make([]byte, 50_000)
	for range 200 { // 10 MB that pack to next to nothing
		if _, err := l.Append(zeros); err != nil {
			t.Fatal(err)
		}
		pack(t, l)
	}
	if first, end := l.Bounds(); first != 0 || end != 10_000_000 {
		t.Fatalf("kept %d to %d", first, end)
	}
	l.DropBefore(5_000_000)
	if first, _ := l.Bounds(); first < 4_700_000 {
		t.Fatalf("first %d", first)
	}
	if n := len(names(t, dir, "*")); n > 30 {
		t.Fatalf("%d files", n)
	}
}

func FuzzPackedSegment(f *testing.F) {
	dir := f.TempDir()
	l := open(f, bytelog.Config{Dir: dir, Codec: deflate{}})
	fill(f, l, 1000)
	l.Finish()
	pack(f, l)
	raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%020d.segz", 0)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.segz", 0)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := bytelog.Open(bytelog.Config{Dir: dir, Codec: deflate{}})
		if err != nil {
			return
		}
		l.Finish()
		first, end := l.Bounds()
		buf := make([]byte, 1000)
		for off := first; off < end; {
			n, from, err := l.ReadAt(buf, off)
			if n == 0 || err != nil {
				break
			}
			off = from + int64(n)
		}
	})
}
