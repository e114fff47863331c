// Package bytelog stores a stream of bytes by absolute offset: segments on disk and a ring of the newest bytes in memory.
//
// One writer appends; any number of readers pull, each from its own offset, and no reader ever blocks the writer or
// another reader: readers use the ring without locks, and read old bytes from files the writer no longer touches.
//
// Nothing is synced to disk: the bytes survive the death of the process, not of the machine. The offset of the end is the sum
// of the files' sizes, so a process killed in the middle of a write leaves a log that is correct, only shorter. A power
// failure may leave zeros instead of the newest bytes: Open cuts zeros at the end of the newest segment, unless Finish or Close
// recorded that they were written. The log buffers in memory what a full or broken disk does not accept, which Degraded reports, and
// writes it when the disk accepts bytes again: Append tries now and then, Retry at once. Full asks the writer to wait before the
// buffer exceeds its limit. Only when a writer goes on regardless does the log drop the oldest bytes; readers see the gap by the offset
// they get. A writer that can provide the bytes again sets Config.Filled and passes them to Fill.
//
// To follow a log, call Changed first and read afterwards, so that no append between the two is missed.
//
//	for {
//		changed := l.Changed()
//		n, from, err := l.ReadAt(buf, off)
//		...
//		if n == 0 && err == nil {
//			<-changed
//		}
//	}
package bytelog

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	DefaultSegmentBytes = 4 << 20
	DefaultRingBytes    = 256 << 10
)

// retryDisk is how long a log whose disk failed waits before it tries again.
const retryDisk = 2 * time.Second

// ErrClosed is returned by Append after Finish or Close.
var ErrClosed = errors.New("byte log is closed")

// Config says where a log lives and how large it may grow. Zero sizes mean the defaults.
type Config struct {
	Dir          string // folder of the segments, made if missing; "" = memory only
	SegmentBytes int64  // size at which a new segment is begun; default 4 MiB
	MaxBytes     int64  // bytes on disk: older whole segments are dropped beyond it; 0 = no cap. A segment is at most a quarter of it
	RingBytes    int64  // bytes in memory, allocated as needed; default 256 KiB, at least 64 KiB
	BacklogBytes int64  // bytes buffered for a failing disk before the log is Full; default 1 MiB
	Filled       bool   // Fill provides dropped bytes again: nothing is written to disk after bytes that are missing there
	Codec        Codec  // compresses full segments when Pack is called; nil: they stay as they are
	Now          func() time.Time
}

// Log is a byte log. All methods are safe for concurrent use; appends are ordered as they come.
type Log struct {
	now  func() time.Time
	ring ring
	disk *disk   // nil: memory only
	back backlog // what the disk has not accepted; empty unless degraded

	filled bool // under appendMu: see Config.Filled

	end      atomic.Int64 // offset after the last byte; published after the bytes are in the ring
	finished atomic.Bool

	appendMu sync.Mutex // one appender at a time; guards what only Append uses
	tried    time.Time  // when the failed disk was last tried

	degraded atomic.Pointer[error]

	wakeMu  sync.Mutex
	changed chan struct{} // nil: nobody waits
	waiting atomic.Bool   // changed is not nil, readable without the lock
}

// Open opens the log in cfg.Dir, or makes an empty one. It continues at the end of what was written before.
func Open(cfg Config) (*Log, error) {
	if cfg.SegmentBytes <= 0 {
		cfg.SegmentBytes = DefaultSegmentBytes
	}
	if cfg.MaxBytes > 0 {
		cfg.SegmentBytes = max(min(cfg.SegmentBytes, cfg.MaxBytes/4), 1)
	}
	if cfg.RingBytes <= 0 {
		cfg.RingBytes = DefaultRingBytes
	}
	if cfg.BacklogBytes <= 0 {
		cfg.BacklogBytes = DefaultBacklogBytes
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Log{now: cfg.Now, back: backlog{most: cfg.BacklogBytes}, filled: cfg.Filled}
	var end int64
	if cfg.Dir != "" {
		d, err := openDisk(cfg.Dir, cfg.SegmentBytes, cfg.MaxBytes, cfg.Codec)
		if err != nil {
			return nil, fmt.Errorf("opening byte log: %w", err)
		}
		l.disk, end = d, d.end()
	}
	l.ring.init(cfg.RingBytes, end)
	l.end.Store(end)
	return l, nil
}

// Append adds p and returns the log's new end. A failing disk is not an error: the log buffers the bytes in memory, and Degraded says so.
// The error is ErrClosed after Finish or Close.
func (l *Log) Append(p []byte) (end int64, err error) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.finished.Load() {
		return l.end.Load(), ErrClosed
	}
	for len(p) > 0 {
		// A piece never fills more than half the ring, so that readers can get it from there until it is persisted.
		piece := p[:min(int64(len(p)), l.ring.size()/2)]
		p = p[len(piece):]
		off := l.end.Load()
		l.ring.put(piece, off)
		l.end.Store(off + int64(len(piece)))
		if l.wake() {
			// Readers first: the write to disk takes a good part of the time of a keystroke's echo.
			runtime.Gosched()
		}
		l.persist(piece, off)
	}
	return l.end.Load(), nil
}

// persist writes piece, which begins at off, to disk, after whatever an earlier failure left out.
func (l *Log) persist(piece []byte, off int64) {
	if l.disk == nil {
		return
	}
	if l.degraded.Load() == nil {
		n, err := l.disk.write(piece, off)
		if err != nil {
			l.back.add(piece[n:], off+int64(n))
			l.degrade(err)
		}
		return
	}
	l.back.add(piece, off)
	if l.now().Sub(l.tried) >= retryDisk {
		_ = l.catchUp() // Degraded says it
	}
}

// catchUp writes what the disk has not accepted so far.
func (l *Log) catchUp() error {
	for {
		p, off := l.back.front()
		if p == nil {
			l.degraded.Store(nil)
			if l.finished.Load() {
				l.sealDisk()
			}
			return nil
		}
		if l.filled && l.disk.end() < off {
			l.tried = l.now()
			return ErrMissing
		}
		n, err := l.disk.write(p, off)
		l.back.dropBefore(off + int64(n))
		if err != nil {
			l.degrade(err)
			return err
		}
	}
}

// Retry writes to disk what it has not accepted so far, also after Finish, and returns the error if that fails.
func (l *Log) Retry() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.degraded.Load() == nil {
		return nil
	}
	err := l.catchUp()
	if l.finished.Load() {
		l.disk.closeFile()
	}
	return err
}

// Full reports whether the log buffers so much for a failing disk that its writer should wait, calling Retry meanwhile. A log in memory only
// is never full.
func (l *Log) Full() bool { return l.degraded.Load() != nil && l.back.full() }

func (l *Log) degrade(err error) {
	l.tried = l.now()
	l.degraded.Store(&err)
}

// Degraded returns why bytes are in memory only, nil while all of them are on disk.
func (l *Log) Degraded() error {
	if e := l.degraded.Load(); e != nil {
		return *e
	}
	return nil
}

// ReadAt reads bytes from offset off into p. from is the offset of p[0]: larger than off when the bytes between were dropped. n is 0 with a
// nil error when nothing is there yet; the error is io.EOF at the end of a finished log. It reads what is available in one place, which may
// be less than fits into p although the log has more.
func (l *Log) ReadAt(p []byte, off int64) (n int, from int64, err error) {
	if off < 0 {
		return 0, off, fmt.Errorf("byte log: negative offset %d", off)
	}
	for {
		finished := l.finished.Load() // before end: nothing is appended once it is set
		end := l.end.Load()
		if off >= end {
			if finished {
				return 0, off, io.EOF
			}
			return 0, off, nil
		}
		if len(p) == 0 {
			return 0, off, nil
		}
		if n := l.ring.read(p, off, end); n > 0 {
			return n, off, nil
		}
		next := l.held()
		if l.disk != nil {
			if n := l.back.read(p, off); n > 0 {
				return n, off, nil
			}
			n, from, err := l.disk.read(p, off, next)
			if n > 0 || err != nil {
				return n, from, err
			}
			next = l.held()
		}
		off = max(off, next) // dropped
	}
}

// held returns the offset of the first byte in memory after which none is missing there.
func (l *Log) held() int64 {
	first := l.ring.first()
	if at, some := l.back.first(); some {
		first = min(first, at)
	}
	return first
}

// Bounds returns the offsets of the first byte that can still be read and of the end.
func (l *Log) Bounds() (first, end int64) {
	end = l.end.Load()
	first = min(l.held(), end)
	if l.disk != nil {
		if f, ok := l.disk.first(); ok {
			first = min(first, f)
		}
	}
	return first, end
}

// DiskBytes returns how many bytes the log's segments take on disk.
func (l *Log) DiskBytes() int64 {
	if l.disk == nil {
		return 0
	}
	return l.disk.bytes()
}

// Changed returns a channel that is closed at the next append, Finish or Close.
func (l *Log) Changed() <-chan struct{} {
	l.wakeMu.Lock()
	defer l.wakeMu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
		l.waiting.Store(true)
	}
	return l.changed
}

// wake wakes those who wait for a change, and reports whether anybody did.
func (l *Log) wake() bool {
	if !l.waiting.Load() {
		return false
	}
	l.wakeMu.Lock()
	defer l.wakeMu.Unlock()
	if l.changed == nil {
		return false
	}
	close(l.changed)
	l.changed = nil
	l.waiting.Store(false)
	return true
}

// DropBefore drops whole segments that end at or before off, and what is buffered before it for a failing disk. The newest segment stays.
func (l *Log) DropBefore(off int64) {
	l.back.dropBefore(off)
	if l.disk != nil {
		l.disk.dropBefore(off)
	}
}

// Finish says that no more bytes will come: readers at the end get io.EOF. The file is closed, the bytes stay readable.
func (l *Log) Finish() {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.finished.Swap(true) {
		return
	}
	if l.disk != nil {
		if l.degraded.Load() != nil {
			_ = l.catchUp() // Degraded reports it, and Retry tries again
		} else {
			l.sealDisk()
		}
		l.disk.closeFile()
	}
	l.wake()
}

// sealDisk marks zeros at the end as written, to distinguish them from those a power failure leaves. If it fails, the next Open cuts them.
func (l *Log) sealDisk() { _ = l.disk.seal() }

// Close is Finish; callers use it for a log that is merely put away, Finish for one that has ended. The files stay where they are.
func (l *Log) Close() error {
	l.Finish()
	return nil
}

// ReleaseMemory frees the ring. Only bytes on disk can be read afterwards; it does nothing unless the log is finished and wholly on disk.
func (l *Log) ReleaseMemory() {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.finished.Load() && l.disk != nil && l.degraded.Load() == nil {
		l.ring.drop(l.end.Load())
	}
}
