package sessions_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
)

// BenchmarkOutput measures a fast program through guest, log and one viewer that acknowledges as a browser does.
func BenchmarkOutput(b *testing.B) {
	for _, viewers := range []int{1, 10} {
		b.Run(map[int]string{1: "one-viewer", 10: "ten-viewers"}[viewers], func(b *testing.B) {
			h := newHarness(b)
			s := h.start()
			const size = 64<<20 + 1
			b.SetBytes(size * int64(viewers))
			for b.Loop() {
				row := s.run(b, "sh", "-c", "stty raw -echo; printf r; read x; yes 0123456789012345678901234567890123456789 | head -c 67108864")
				for s.get(b, row.ID).Bytes == 0 {
					time.Sleep(time.Millisecond)
				}
				var wg sync.WaitGroup
				for range viewers {
					v, err := s.Attach(b.Context(), row.ID, sessions.Attach{Writer: true, From: new(int64)})
					if err != nil {
						b.Fatal(err)
					}
					wg.Go(func() {
						defer v.Close()
						buf := make([]byte, 64<<10+9)
						got, acked := 0, 0
						for {
							f, err := v.Next(b.Context(), buf)
							if err != nil {
								break
							}
							if f[0] == 0 {
								if got += len(f) - 9; got-acked >= 64<<10 {
									v.Ack(int64(got))
									acked = got
								}
							}
						}
						if got != size {
							b.Errorf("%d bytes, want %d", got, size)
						}
					})
				}
				if err := s.Input(b.Context(), h.actor, row.ID, "\n"); err != nil {
					b.Fatal(err)
				}
				wg.Wait()
			}
		})
	}
}

// BenchmarkEcho measures a key from a viewer's Input to the frame with its echo.
func BenchmarkEcho(b *testing.B) {
	h := newHarness(b)
	s := h.start()
	row := s.run(b, "sh", "-c", "stty raw -echo; cat")
	v, err := s.Attach(b.Context(), row.ID, sessions.Attach{Writer: true})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	buf := make([]byte, 64<<10+9)
	echo := func() {
		if err := v.Input(b.Context(), []byte("x")); err != nil {
			b.Fatal(err)
		}
		for {
			if f, err := v.Next(b.Context(), buf); err != nil {
				b.Fatal(err)
			} else if f[0] == 0 {
				v.Ack(1 << 40)
				return
			}
		}
	}
	time.Sleep(200 * time.Millisecond) // for stty
	echo()
	for b.Loop() {
		echo()
	}
}

// BenchmarkIdleSessions reports the memory one idle session with some history takes in this process, guest included.
func BenchmarkIdleSessions(b *testing.B) {
	h := newHarness(b)
	s := h.start()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const n = 50
	before := heap()
	for range n {
		row := s.run(b, "sh", "-c", "seq 1 100000; sleep 1000")
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if got, err := s.Get(b.Context(), row.ID); err != nil || got.Bytes >= 688894 {
				break
			}
		}
	}
	time.Sleep(time.Second)
	for b.Loop() {
	}
	b.ReportMetric(float64(heap()-before)/n/1024, "KiB/session")
}
