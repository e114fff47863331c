package daemon

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
)

// batch is the most that is read before it is appended. A PTY returns some 4 KiB per read, whatever the buffer: reading until
// nothing more is there merges many such pieces into one append, one frame and one wake-up, and delays no single byte.
const batch = 64 << 10

// batches are buffers for one batch. A pump holds one only while there is something to read.
var batches = sync.Pool{New: func() any { return new([batch]byte) }}

// pump moves what a program writes into its log.
type pump struct {
	p       *process
	file    *os.File
	log     *bytelog.Log
	read    atomic.Int64
	discard atomic.Bool   // read and discarded
	ended   chan struct{} // closed when nothing more is read

	most  int64        // bytes the log keeps
	hosts atomic.Int32 // that follow the log
	taken atomic.Int64 // offset the furthest of them has reached
	heard atomic.Int64 // acknowledgements, also of nothing new: the host lives, and its disk is full
	alone atomic.Int64 // 1 more than the offset after which only this log has the output, as reported by a host with a full disk; 0: not reported
	slow  time.Time    // since when taken is what it was at seen, and heard at word; the pump's alone
	seen  int64
	word  int64
}

func newPump(p *process, f *os.File, l *bytelog.Log, most int64) *pump {
	return &pump{p: p, file: f, log: l, ended: make(chan struct{}), most: most}
}

// backlog is how much output of a stream is held in memory for a disk that accepts nothing: twice what a host holds.
const backlog = 2 * bytelog.DefaultBacklogBytes

const (
	recheckEvery = 2 * time.Millisecond
	recheckFor   = 5 * time.Second // how long to wait for a host that takes nothing
)

// recheck makes a program wait that writes faster than its host reads, before output the host has not taken would be dropped: as
// any terminal does. Without a host, or with one that takes nothing any more, a program waits only where nothing else has its
// output: when the disk accepts nothing, once the memory limit is reached.
func (pu *pump) recheck() {
	for pu.mustWait() {
		select {
		case <-pu.p.exited: // what it left in its pipe must be read before that is closed
			return
		case <-time.After(recheckEvery):
		}
	}
}

func (pu *pump) mustWait() bool {
	hosts, full := pu.hosts.Load() > 0, pu.log.Full()
	if !hosts {
		return full // until the disk has space: see Daemon.repair
	}
	_, end := pu.log.Bounds()
	taken, alone := pu.taken.Load(), pu.alone.Load()
	// If a host has not reported yet that its disk is full, too, nothing is lost: of what it took it holds no more than stays in
	// memory here.
	behind := full && end-taken > backlog/4
	switch {
	case alone > 0 && (full || end-alone+1 > pu.most/2):
	case full || end-taken <= pu.most/2:
		return behind
	}
	now := time.Now()
	if heard := pu.heard.Load(); taken != pu.seen || heard != pu.word || pu.slow.IsZero() {
		pu.seen, pu.word, pu.slow = taken, heard, now
	}
	return now.Sub(pu.slow) <= recheckFor || behind
}

// acked records what a host has stored, and whether its disk is full.
func (pu *pump) acked(a guest.Ack) {
	alone := int64(0)
	if a.Full {
		alone = a.Offset + 1
	}
	pu.alone.Store(alone)
	pu.heard.Add(1)
}

// followed records that a host follows the log from off.
func (pu *pump) followed(off int64) {
	if pu.hosts.Add(1) == 1 {
		pu.taken.Store(off)
		return
	}
	pu.took(off)
}

// took records that a host has everything before off.
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

// againAfter is the first pause before a terminal that nobody holds open is read again.
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

// errEnd reports the end of an output.
var errEnd = errors.New("end of output")

// waiting reports whether there is something to read now.
func (pu *pump) waiting() bool {
	rc, err := pu.file.SyscallConn()
	if err != nil {
		return false
	}
	var some bool
	_ = rc.Control(func(fd uintptr) { // it fails only once the file is closed: then everything was read
		at := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(at, 0)
		some = err == nil && n > 0 && at[0].Revents&unix.POLLIN != 0
	})
	return some
}

// step waits until there is something to read, and moves one batch.
func (pu *pump) step(wait func(func(fd uintptr) bool) error) error {
	pu.recheck()
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
			pu.p.d.wrote()                // first: readers of the bytes want the time they came
			_, _ = pu.log.Append(buf[:n]) // it fails only when the log has ended: then nobody waits for these bytes
			if pu.log.Degraded() != nil {
				pu.p.d.repairLater()
			}
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
		k, err := read(fd, buf[n:])
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
