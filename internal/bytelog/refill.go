package bytelog

import (
	"errors"
	"syscall"
)

// ErrMissing says that bytes the disk lacks are no longer in memory: Fill must provide them before anything after them is written.
var ErrMissing = errors.New("byte log waits for bytes that are held elsewhere")

// isFull reports whether an error means that the disk is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// DiskFull reports whether bytes are in memory only because the disk is full, and not because it is broken.
func (l *Log) DiskFull() bool { return isFull(l.Degraded()) }

// OnDisk returns the offset up to which every byte was written to the disk; the log's end where it is in memory only.
func (l *Log) OnDisk() int64 {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.disk == nil || l.degraded.Load() == nil {
		return l.end.Load()
	}
	return l.disk.end()
}

// Missing returns the range that is neither on disk nor in memory, and that Fill needs; from equals to when there is none.
func (l *Log) Missing() (from, to int64) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.missing()
}

func (l *Log) missing() (from, to int64) {
	if l.disk == nil || l.degraded.Load() == nil {
		return 0, 0
	}
	to, some := l.back.first()
	if !some {
		to = l.end.Load()
	}
	from = l.disk.end()
	return from, max(from, to)
}

// Fill writes to disk the range that Missing returns, in order: p begins at off, and the part of it outside of that range is ignored. It
// works also after Finish. The error is ErrMissing when p begins after the range's first byte, or the disk's error.
func (l *Log) Fill(p []byte, off int64) error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	from, to := l.missing()
	if off+int64(len(p)) <= from || off >= to {
		return nil
	}
	if off > from {
		return ErrMissing
	}
	p = p[from-off : min(int64(len(p)), to-off)]
	_, err := l.disk.write(p, from)
	if err != nil {
		l.degrade(err)
	}
	if l.finished.Load() {
		l.disk.closeFile()
	}
	return err
}

// Forgo lets the log continue without its missing bytes, when nobody has them any more.
func (l *Log) Forgo() {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.filled = false
}
