package history

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parawork/parawork/guest"
)

// SizeAt returns the terminal's size at an offset of its output, and the offset up to which it applies: old output is shown in
// the width it was printed for, also on the server's own screen.
func (r *Recording) SizeAt(off int64) (s guest.Size, until int64) {
	d, until, ok := r.notes.SizeUntil(off)
	if !ok {
		return r.size0, until
	}
	return guest.Size{Cols: d.Cols, Rows: d.Rows}, until
}

// noFollow are the flags for opening a file next to a log: a hostile program may be able to put links and FIFOs into the folder.
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
		return nil, errors.New(filepath.Base(path) + " does not contain what the server wrote there")
	}
	return io.ReadAll(io.LimitReader(f, most))
}
