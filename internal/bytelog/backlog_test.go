package bytelog_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/bytelog"
)

// fullDisk takes so many bytes, refuses so many writes, and then takes everything.
type fullDisk struct{ room, refusals int }

func (d *fullDisk) write(f *os.File, p []byte, off int64) (int, error) {
	if d.refusals == 0 {
		return f.WriteAt(p, off)
	}
	if len(p) <= d.room {
		d.room -= len(p)
		return f.WriteAt(p, off)
	}
	n, err := f.WriteAt(p[:d.room], off)
	d.room -= n
	if err == nil {
		d.refusals--
		err = syscall.ENOSPC
	}
	return n, err
}

// whole checks that a log holds every byte once, now and for whoever opens its folder.
func whole(t *testing.T, what string, l *bytelog.Log, cfg bytelog.Config, want int64) {
	t.Helper()
	l.Finish()
	if err := l.Retry(); err != nil {
		t.Fatalf("%s: after all there is room: %v", what, err)
	}
	l.ReleaseMemory()
	if end, gaps, err := follow(l, 0); err != nil || end != want || len(gaps) > 0 {
		t.Fatalf("%s: to %d, gaps %v, %v", what, end, gaps, err)
	}
	again, err := bytelog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	again.Finish()
	if end, gaps, err := follow(again, 0); err != nil || end != want || len(gaps) > 0 {
		t.Fatalf("%s: after reopening to %d, gaps %v, %v", what, end, gaps, err)
	}
}

// Wherever a disk becomes full, in the middle of a write or between two, and however often it refuses: once it takes bytes again
// every byte is there once and in its place. So it is when several times what the ring
// holds comes meanwhile.
func TestADiskFullAtAnyByteLosesNone(t *testing.T) {
	t.Parallel()
	const total = 800
	for _, refusals := range []int{1, 2, 5} {
		for room := 0; room <= total; room++ {
			now := time.Unix(1000, 0)
			cfg := bytelog.Config{Dir: t.TempDir(), SegmentBytes: 230, RingBytes: 64 << 10, Now: func() time.Time { return now }}
			l := open(t, cfg)
			l.WriteBy((&fullDisk{room, refusals}).write)
			for off := int64(0); off < total; off += 50 {
				if _, err := l.Append(pattern(off, 50)); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Second)
			}
			for l.Retry() != nil {
			}
			whole(t, fmt.Sprintf("full at %d, %d times", room, refusals), l, cfg, total)
		}
	}
	for room := 0; room < 1<<20; room += 299_991 {
		now := time.Unix(1000, 0)
		cfg := bytelog.Config{Dir: t.TempDir(), SegmentBytes: 200_000, RingBytes: 64 << 10, Now: func() time.Time { return now }}
		l := open(t, cfg)
		l.WriteBy((&fullDisk{room, 1}).write)
		fill(t, l, int64(room)+900_000)
		if l.Degraded() == nil {
			t.Fatal("not degraded")
		}
		seen := int64(0)
		buf := make([]byte, 32<<10)
		for seen < int64(room)+900_000 {
			n, from, err := l.ReadAt(buf, seen)
			if err != nil || n == 0 || from != seen || string(buf[:n]) != string(pattern(from, n)) {
				t.Fatalf("a reader at %d got %d bytes at %d: %v", seen, n, from, err)
			}
			seen += int64(n)
		}
		whole(t, fmt.Sprintf("full at %d", room), l, cfg, int64(room)+900_000)
	}
}

// A log is full when its backlog is, and no longer once the disk or its reader has taken it. Only from a writer that ignores that are bytes
// dropped, the oldest, and every reader sees where.
func TestAFullLogAsksToWait(t *testing.T) {
	t.Parallel()
	disk := &fullDisk{room: 1000, refusals: 1 << 30}
	cfg := bytelog.Config{Dir: t.TempDir(), RingBytes: 64 << 10, BacklogBytes: 200_000}
	l := open(t, cfg)
	l.WriteBy(disk.write)
	fill(t, l, 150_000)
	if l.Full() || l.Degraded() == nil {
		t.Fatalf("full %v, degraded %v", l.Full(), l.Degraded())
	}
	fill(t, l, 300_000)
	if !l.Full() {
		t.Fatal("not full with 299,000 bytes")
	}
	l.DropBefore(150_000)
	if l.Full() {
		t.Fatal("full with 150,000 bytes")
	}
	fill(t, l, 3_000_000)
	first, end := l.Bounds()
	if first != 0 || end != 3_000_000 || !l.Full() {
		t.Fatalf("bounds %d to %d, full %v", first, end, l.Full())
	}
	disk.refusals = 0
	l.Finish()
	if err := l.Retry(); err != nil || l.Full() {
		t.Fatalf("with room: %v, full %v", err, l.Full())
	}
	hole := [2]int64{1000, 3_000_000 - 200_000 - 1<<20}
	for _, l := range []*bytelog.Log{l, open(t, cfg)} {
		l.Finish()
		if end, gaps, err := follow(l, 0); err != nil || end != 3_000_000 || len(gaps) != 1 || gaps[0] != hole {
			t.Fatalf("to %d, gaps %v, want %v; %v", end, gaps, hole, err)
		}
	}
}

// A log may be opened on a disk that has no room even for its folder.
func TestAFolderIsMadeOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a small disk is made only on Linux: a folder that finds no room is NOT TESTED here")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,nr_inodes=2"); err != nil {
		t.Skipf("a small disk could not be mounted (%v): a folder that finds no room is NOT TESTED here", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	if err := os.WriteFile(disk+"/last", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := bytelog.Config{Dir: disk + "/log/terminal"}
	l := open(t, cfg)
	fill(t, l, 300_000)
	if l.Degraded() == nil {
		t.Fatal("not degraded")
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=1m,nr_inodes=20"); err != nil {
		t.Fatal(err)
	}
	whole(t, "a disk without names", l, cfg, 300_000)
}
