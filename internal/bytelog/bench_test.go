package bytelog_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/internal/bytelog"
)

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name string
		dir  bool
		size int
	}{{"ring/4K", false, 4 << 10}, {"ring/64K", false, 64 << 10}, {"disk/4K", true, 4 << 10}, {"disk/64K", true, 64 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := bytelog.Config{MaxBytes: 64 << 20}
			if c.dir {
				cfg.Dir = b.TempDir()
			}
			l := open(b, cfg)
			p := make([]byte, c.size)
			b.SetBytes(int64(c.size))
			for b.Loop() {
				if _, err := l.Append(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReaders measures the writer with 100 readers that follow, one of them stalled.
func BenchmarkReaders(b *testing.B) {
	for _, readers := range []int{1, 100} {
		b.Run(map[int]string{1: "1", 100: "100_one_stalled"}[readers], func(b *testing.B) {
			l := open(b, bytelog.Config{Dir: b.TempDir(), MaxBytes: 64 << 20, RingBytes: 1 << 20})
			var wg sync.WaitGroup
			var delivered atomic.Int64
			stalled := make(chan struct{})
			for i := range readers {
				wg.Go(func() {
					buf := make([]byte, 64<<10)
					off := int64(0)
					for {
						changed := l.Changed()
						n, from, err := l.ReadAt(buf, off)
						if err != nil {
							return
						}
						off = from + int64(n)
						delivered.Add(int64(n))
						if i == 1 {
							<-stalled
						}
						if n == 0 {
							<-changed
						}
					}
				})
			}
			p := make([]byte, 64<<10)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				if _, err := l.Append(p); err != nil {
					b.Fatal(err)
				}
			}
			l.Finish()
			close(stalled)
			wg.Wait()
			b.ReportMetric(float64(delivered.Load())/1e6/b.Elapsed().Seconds(), "delivered_MB/s")
		})
	}
}
