package journal_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parawork/parawork/sessions/journal"
)

const far = int64(1) << 50

func open(t testing.TB, path string, end int64) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Config{Path: path, End: end})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func flush(t testing.TB, j *journal.Journal) {
	t.Helper()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
}

func all(t testing.TB, j *journal.Journal) (out []journal.Entry) {
	t.Helper()
	if err := j.Scan(0, func(e journal.Entry) bool {
		e.Data = append(json.RawMessage(nil), e.Data...)
		out = append(out, e)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i, e := range out {
		if e.Seq != int64(i) {
			t.Fatalf("entry %d has number %d", i, e.Seq)
		}
	}
	return out
}

func TestEntriesComeBackInOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path, far)
	j.Note(journal.Size, 1000, 0, journal.Dims{Cols: 80, Rows: 24})
	j.Mark(1010, 50)
	j.Mark(1040, 90) // within 50 ms: one mark
	j.Mark(1061, 200)
	flush(t, j)
	j.Note(journal.Input, 900, 200, journal.Keys{UserID: "u", Bytes: 3}) // a clock that went back
	j.Mark(2000, 500)
	check := func(j *journal.Journal) {
		t.Helper()
		want := []struct {
			kind    journal.Kind
			at, off int64
		}{{journal.Size, 1000, 0}, {journal.Time, 1010, 90}, {journal.Time, 1061, 200}, {journal.Input, 900, 200}, {journal.Time, 2000, 500}}
		got := all(t, j)
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d: %v", len(got), len(want), got)
		}
		for i, w := range want {
			if e := got[i]; e.Kind != w.kind || e.At != w.at || e.Offset != w.off {
				t.Errorf("entry %d is %+v, want %+v", i, e, w)
			}
		}
		if string(got[3].Data) != `{"user_id":"u","name":"","bytes":3,"since":0,"from":0}` {
			t.Errorf("data %s", got[3].Data)
		}
	}
	check(j) // partly in memory
	flush(t, j)
	check(j)
	check(open(t, path, far))
	if d, ok := j.SizeAt(300); !ok || d.Cols != 80 {
		t.Errorf("size %v %v", d, ok)
	}
}

func TestTimesAndOffsets(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal"), far)
	for i := range int64(1000) {
		j.Mark(10_000+i*100, (i+1)*1000)
		if i%100 == 0 {
			flush(t, j)
		}
	}
	for _, c := range []struct{ off, at int64 }{{0, 10_000}, {999, 10_000}, {1000, 10_100}, {500_500, 60_000}, {999_999, 109_900}, {1_000_000, 0}} {
		if at, err := j.TimeAt(c.off); at != c.at || err != nil {
			t.Errorf("byte %d came at %d, want %d (%v)", c.off, at, c.at, err)
		}
	}
	for _, c := range []struct{ at, off int64 }{{0, 0}, {10_000, 1000}, {10_099, 1000}, {60_050, 501_000}, {1 << 40, 1_000_000}} {
		if off, err := j.OffsetAt(c.at); off != c.off || err != nil {
			t.Errorf("at %d output was at %d, want %d (%v)", c.at, off, c.off, err)
		}
	}
}

// A crash may leave any part of the last block, or garbage in its place: everything before it holds and the journal goes on.
func TestTornEndIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path, far)
	j.Mark(1, 10)
	j.Note(journal.State, 2, 10, journal.Change{State: "idle"})
	flush(t, j)
	whole := j.Bytes()
	j.Note(journal.State, 3, 20, journal.Change{State: "working"})
	flush(t, j)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := whole; size < int64(len(raw)); size++ {
		for _, tail := range [][]byte{nil, make([]byte, 100), {0xff, 0xff, 0xff, 0xff, 1, 2, 3}} {
			if err := os.WriteFile(path, append(append([]byte(nil), raw[:size]...), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			again := open(t, path, far)
			if got := all(t, again); len(got) != 2 {
				t.Fatalf("cut at %d: %d entries", size, len(got))
			}
			again.Mark(9, 30)
			flush(t, again)
			if got := all(t, open(t, path, far)); len(got) != 3 || got[2].Offset != 30 {
				t.Fatalf("cut at %d: after going on %v", size, got)
			}
		}
	}
}

// What a journal says of bytes that are gone after a crash is gone too.
func TestEntriesBeyondTheLogAreDropped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path, far)
	j.Mark(1, 10)
	flush(t, j)
	j.Mark(100, 5000)
	j.Note(journal.Size, 101, 5000, journal.Dims{Cols: 99, Rows: 9})
	flush(t, j)
	again := open(t, path, 4000)
	if got := all(t, again); len(got) != 1 {
		t.Fatalf("%d entries", len(got))
	}
	if len(again.Sizes()) != 0 {
		t.Fatal("a size of bytes that are gone")
	}
}

func TestFailingDiskKeepsWhatFits(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "session")
	j := open(t, filepath.Join(dir, "journal"), far)
	j.Mark(1, 10)
	if j.Flush() == nil {
		t.Fatal("wrote into a folder that is not there")
	}
	for i := range int64(200_000) {
		j.Mark(100+100*i, 20+i)
	}
	if j.Flush() == nil || j.Lost() == 0 {
		t.Fatalf("lost %d", j.Lost())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for j.Pending() {
		flush(t, j)
	}
	if got := all(t, j); len(got) < 10_000 || got[0].Offset != 10 {
		t.Fatalf("%d entries", len(got))
	}
}

// However long a session runs, its journal stays below its cap, its marks only grow coarser.
func TestCap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(journal.Config{Path: path, MaxBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100_000) {
		j.Mark(50*i, 1000*i)
		if i%50 == 0 {
			flush(t, j)
		}
	}
	if n := j.Bytes(); n > 64<<10 || n < 32<<10 {
		t.Fatalf("%d bytes", n)
	}
	big := make([]byte, 100<<10)
	j.Note(journal.State, 1, 1, string(big))
	flush(t, j)
	if n := j.Bytes(); n > 65<<10 {
		t.Fatalf("%d bytes", n)
	}
}

func TestWritersAndReadersTogether(t *testing.T) {
	t.Parallel()
	j := open(t, filepath.Join(t.TempDir(), "journal"), far)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				last := int64(-1)
				if err := j.Scan(0, func(e journal.Entry) bool {
					if e.Seq != last+1 {
						t.Errorf("entry %d after %d", e.Seq, last)
						return false
					}
					last = e.Seq
					return true
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 300 {
			if err := j.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range int64(30_000) {
		j.Mark(i*30, i)
		if rand.IntN(100) == 0 {
			j.Note(journal.State, i*30, i, journal.Change{State: "idle"})
		}
	}
	close(done)
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal")
	j := open(f, path, far)
	j.Note(journal.Size, 1, 0, journal.Dims{Cols: 80, Rows: 24})
	j.Mark(2, 3)
	flush(f, j)
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(journal.Config{Path: path, End: far})
		if err != nil {
			return
		}
		if err := j.Scan(0, func(journal.Entry) bool { return true }); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkMark(b *testing.B) {
	j := open(b, filepath.Join(b.TempDir(), "journal"), far)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		j.Mark(i/10, i*1000)
		if i%20_000 == 0 {
			flush(b, j)
		}
	}
}
