// Package logfile writes a program's log to two files of limited size.
package logfile

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// File is a log for troubleshooting: a file that starts over when it is full, and the one before it. Safe for concurrent use.
type File struct {
	path string
	max  int64 // bytes of each of the two
	mu   sync.Mutex
	f    *os.File
	size int64
}

// Open opens it, to append at its end. It follows no links.
func Open(path string, max int64) (*File, error) {
	l := &File{path: path, max: max}
	return l, l.open()
}

func (l *File) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	l.f, l.size = f, st.Size()
	return nil
}

// Write adds b whole.
func (l *File) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, fs.ErrClosed
	}
	if l.size > 0 && l.size+int64(len(b)) > l.max {
		_ = l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1") // otherwise it grows: better than to log nothing
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

// Close closes it. Later lines are lost.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

var _ io.WriteCloser = (*File)(nil)
