package daemon

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/bytelog"
)

// batch is the most that is read before it is appended. A PTY gives some 4 KiB a read whatever it is asked for: reading on until
// nothing more is there makes one append, one frame and one wake-up of many such pieces, and delays no single byte.
const batch = 64 << 10

// batches are buffers for one batch. A pump holds one only while there is something to read.
var batches = sync.Pool{New: func() any { return new([batch]byte) }}

// pump moves what a program writes into its log.
type pump struct {
	p       *process
	file    *os.File
	log     *bytelog.Log
	read    atomic.Int64
	discard atomic.Bool   // read to nowhere
	ended   chan struct{} // closed when nothing more is read

	most  int64        // bytes the log keeps
	hosts atomic.Int32 // that follow the log
	taken atomic.Int64 // offset the furthest of them has reached
	slow  time.Time    // since when taken is what it was at seen; the pump's alone
	seen  int64
}

func newPump(p *process, f *os.File, l *bytelog.Log, most int64) *pump {
	return &pump{p: p, file: f, log: l, ended: make(chan struct{}), most: most}
}

const (
	heedEvery = 2 * time.Millisecond
	heedFor   = 5 * time.Second // a host that takes nothing for so long holds up nobody
)

// heed lets a program wait that writes faster than its host reads, before what the host has not taken would be dropped: as any
// terminal does. Without a host, or with one that takes nothing any more, a program never waits.
func (pu *pump) heed() {
	for pu.hosts.Load() > 0 {
		_, end := pu.log.Bounds()
		taken := pu.taken.Load()
		if end-taken <= pu.most/2 {
			return
		}
		now := time.Now()
		if taken != pu.seen || pu.slow.IsZero() {
			pu.seen, pu.slow = taken, now
		}
		if now.Sub(pu.slow) > heedFor {
			return
		}
		select {
		case <-pu.p.exited: // what it left in its pipe must be read before that is closed
			return
		case <-time.After(heedEvery):
		}
	}
}

// followed notes that a host follows the log from off.
func (pu *pump) followed(off int64) {
	if pu.hosts.Add(1) == 1 {
		pu.taken.Store(off)
		return
	}
	pu.took(off)
}

// took notes that a host has everything before off.
func (pu *pump) took(off int64) {
	for was := pu.taken.Load(); off > was && !pu.taken.CompareAndSwap(was, off); was = pu.taken.Load() {
	}
}

func (pu *pump) run() {
	defer close(pu.ended)
	defer pu.end()
	rc, err := pu.file.SyscallConn()
	if err != nil {
		return
	}
	wait := againAfter
	for {
		err := pu.step(rc.Read)
		if err == nil {
			wait = againAfter
			continue
		}
		// A terminal that nobody holds open answers EIO. While the program runs it may be opened again: /dev/tty.
		if !errors.Is(err, unix.EIO) || pu.p.term == nil || !pu.again(wait) {
			return
		}
		wait = min(2*wait, time.Second)
	}
}

// againAfter is how long a terminal that nobody holds open is left alone at first.
const againAfter = 20 * time.Millisecond

func (pu *pump) end() {
	_ = pu.file.Close()
	pu.p.d.mu.Lock()
	defer pu.p.d.mu.Unlock()
	delete(pu.p.d.pumps, pu)
}

// again waits before a terminal is read again, unless the program has ended.
func (pu *pump) again(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-pu.p.exited:
		return false
	case <-t.C:
		return true
	}
}

// errEnd says that an output has come to its end.
var errEnd = errors.New("end of output")

// waiting reports whether there is something to read now.
func (pu *pump) waiting() bool {
	rc, err := pu.file.SyscallConn()
	if err != nil {
		return false
	}
	var some bool
	_ = rc.Control(func(fd uintptr) { // it fails only once the file is closed: then all was read
		at := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(at, 0)
		some = err == nil && n > 0 && at[0].Revents&unix.POLLIN != 0
	})
	return some
}

// step waits until there is something to read, and moves one batch.
func (pu *pump) step(wait func(func(fd uintptr) bool) error) error {
	pu.heed()
	var buf *[batch]byte
	var n int
	var rerr error
	err := wait(func(fd uintptr) bool {
		if buf == nil {
			buf = batches.Get().(*[batch]byte)
		}
		n, rerr = readAll(int(fd), buf[:])
		if n == 0 && rerr == unix.EAGAIN {
			batches.Put(buf)
			buf = nil
			return false
		}
		return true
	})
	if buf != nil {
		defer batches.Put(buf)
	}
	if n > 0 {
		pu.read.Add(int64(n))
		if !pu.discard.Load() {
			pu.p.d.wrote()                // first: who has read the bytes is told when they came
			_, _ = pu.log.Append(buf[:n]) // it fails only when the log has ended: then nobody waits for these bytes
		}
	}
	switch {
	case err != nil:
		return err
	case rerr == unix.EAGAIN:
		return nil
	}
	return rerr
}

// readAll reads until buf is full, nothing more is there (EAGAIN), or the end.
func readAll(fd int, buf []byte) (n int, err error) {
	for n < len(buf) {
		k, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case k == 0:
			return n, errEnd
		default:
			n += k
		}
	}
	return n, nil
}
