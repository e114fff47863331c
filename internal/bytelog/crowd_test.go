package bytelog

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// A crowd far behind the ring reads the same old bytes while new ones come and old segments go: everybody gets what was written.
func TestCrowdBehindTheRing(t *testing.T) {
	t.Parallel()
	l, err := Open(Config{Dir: t.TempDir(), SegmentBytes: 1<<20 + 12345, RingBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := make([]byte, 5<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(all)
	if _, err := l.Append(all[:3<<20]); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for i := range 20 {
		readers.Go(func() {
			h, off, buf := sha256.New(), int64(0), make([]byte, 10_000+i*3_000)
			for {
				changed := l.Changed()
				n, from, err := l.ReadAt(buf, off)
				if err == io.EOF {
					break
				}
				if err != nil || from != off {
					t.Errorf("reader %d at %d: from %d, %v", i, off, from, err)
					return
				}
				if n == 0 {
					<-changed
				}
				h.Write(buf[:n])
				off += int64(n)
			}
			if want := sha256.Sum256(all); !bytes.Equal(h.Sum(nil), want[:]) {
				t.Errorf("reader %d read other bytes", i)
			}
		})
	}
	for off := 3 << 20; off < len(all); off += 50_000 {
		if _, err := l.Append(all[off:min(off+50_000, len(all))]); err != nil {
			t.Fatal(err)
		}
	}
	l.Finish()
	readers.Wait()
}
