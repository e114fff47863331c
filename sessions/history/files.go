package history

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parawork/parawork/guest"
)

// SizeAt returns the terminal's size at an offset of its output, and the offset from which on it is another one: whoever shows
// old output, the server's own screen among them, shows it as wide as it was.
func (r *Recording) SizeAt(off int64) (s guest.Size, until int64) {
	d, until, ok := r.notes.SizeUntil(off)
	if !ok {
		return r.size0, until
	}
	return guest.Size{Cols: d.Cols, Rows: d.Rows}, until
}

// noFollow are the flags for opening a file beside a log: the folder may lie where a hostile program can put links and FIFOs.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

// readRegular reads a regular file of at most most bytes.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errors.New(filepath.Base(path) + " is not what was written there")
	}
	return io.ReadAll(io.LimitReader(f, most))
}
