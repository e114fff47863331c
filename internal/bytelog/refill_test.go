package bytelog_test

import (
	"errors"
	"os"
	"testing"

	"github.com/parawork/parawork/internal/bytelog"
)

// What a full disk made a log drop is given again, in pieces of any size and with more than is wanted: then every byte is there
// once. Nothing is written behind the hole before, so that a process that dies meanwhile leaves a log that is only shorter.
func TestWhatWasDroppedIsFilled(t *testing.T) {
	t.Parallel()
	for _, finished := range []bool{false, true} {
		disk := &fullDisk{room: 1000, refusals: 1 << 30}
		cfg := bytelog.Config{Dir: t.TempDir(), RingBytes: 64 << 10, BacklogBytes: 100_000, SegmentBytes: 300_000, Filled: true}
		l := open(t, cfg)
		l.WriteBy(disk.write)
		const end = 3_000_000
		fill(t, l, end)
		if !l.DiskFull() || l.OnDisk() != 1000 {
			t.Fatalf("full %v, on disk to %d", l.DiskFull(), l.OnDisk())
		}
		if finished {
			l.Finish()
		}
		disk.refusals = 0
		if err := l.Retry(); !errors.Is(err, bytelog.ErrMissing) || l.Degraded() == nil {
			t.Fatalf("with room: %v, degraded %v", err, l.Degraded())
		}
		again := open(t, bytelog.Config{Dir: cfg.Dir})
		if _, at := again.Bounds(); at != 1000 {
			t.Fatalf("the disk has %d bytes", at)
		}
		from, to := l.Missing()
		if from != 1000 || to <= from || to >= end {
			t.Fatalf("missing %d to %d", from, to)
		}
		if err := l.Fill(pattern(from+1, 10), from+1); !errors.Is(err, bytelog.ErrMissing) {
			t.Fatalf("behind a hole: %v", err)
		}
		for off := from - 500; off < to+70_000; off += 70_000 {
			if err := l.Fill(pattern(off, 70_100), off); err != nil {
				t.Fatal(err)
			}
		}
		if from, to = l.Missing(); from != to {
			t.Fatalf("missing %d to %d", from, to)
		}
		whole(t, "filled", l, cfg, end)
	}
}

// A log whose missing bytes are lost for good is written without them.
func TestWhatNobodyHasIsForgone(t *testing.T) {
	t.Parallel()
	disk := &fullDisk{room: 1000, refusals: 1 << 30}
	cfg := bytelog.Config{Dir: t.TempDir(), RingBytes: 64 << 10, BacklogBytes: 100_000, Filled: true}
	l := open(t, cfg)
	l.WriteBy(disk.write)
	fill(t, l, 3_000_000)
	disk.refusals = 0
	l.Finish()
	l.Forgo()
	if err := l.Retry(); err != nil {
		t.Fatal(err)
	}
	if end, gaps, err := follow(l, 0); err != nil || end != 3_000_000 || len(gaps) != 1 || gaps[0][0] != 1000 {
		t.Fatalf("to %d, gaps %v, %v", end, gaps, err)
	}
}

// grow makes a file longer without writing to it, as a power cut leaves one whose new bytes were still in memory.
func grow(t *testing.T, name string, by int64) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()+by); err != nil {
		t.Fatal(err)
	}
}

func TestZerosOfAPowerCutAreNoOutput(t *testing.T) {
	t.Parallel()
	for _, zeros := range []int64{1, 4095, 32 << 10, 100_000} {
		cfg := bytelog.Config{Dir: t.TempDir(), SegmentBytes: 200_000}
		l := open(t, cfg)
		fill(t, l, 250_000) // it is not ended: its machine is
		grow(t, bytelog.EmptySegment(cfg.Dir, 200_000), zeros)
		again := open(t, cfg)
		if _, end := again.Bounds(); end != 250_000 {
			t.Fatalf("%d zeros: it ends at %d", zeros, end)
		}
		fill(t, again, 400_000)
		whole(t, "after a power cut", again, cfg, 400_000)
	}
	// Nothing of the newest segment was written.
	cfg := bytelog.Config{Dir: t.TempDir(), SegmentBytes: 200_000}
	fill(t, open(t, cfg), 200_000)
	name := bytelog.EmptySegment(cfg.Dir, 200_000)
	if err := os.WriteFile(name, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, cfg)
	if _, end := l.Bounds(); end != 200_000 {
		t.Fatalf("it ends at %d", end)
	}
	fill(t, l, 300_000)
	whole(t, "after a power cut", l, cfg, 300_000)
}

// Zeros that a program printed are output where the log was ended; what a power cut leaves behind them later is not.
func TestPrintedZerosStay(t *testing.T) {
	t.Parallel()
	cfg := bytelog.Config{Dir: t.TempDir()}
	l := open(t, cfg)
	if _, err := l.Append(make([]byte, 70_000)); err != nil {
		t.Fatal(err)
	}
	l.Finish()
	for range 2 {
		l = open(t, cfg)
		if _, end := l.Bounds(); end != 70_000 {
			t.Fatalf("it ends at %d", end)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	grow(t, bytelog.EmptySegment(cfg.Dir, 0), 3000)
	if _, end := open(t, cfg).Bounds(); end != 70_000 {
		t.Fatalf("after a power cut it ends at %d", end)
	}
}
