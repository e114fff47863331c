package folder

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/ignored"
)

// copyFault explains why ignored files could not be copied.
func copyFault(err error) error {
	switch {
	case errors.Is(err, ignored.ErrTooLarge):
		return fault.Wrap(err, fault.TooLarge, "copy_too_large", "The ignored files to copy are more than %d files or 1 GiB. Name fewer of them in the project's settings.", ignored.MaxFiles)
	case errors.Is(err, syscall.ENOSPC):
		return fault.Wrap(err, fault.DiskFull, "runner_disk_full", "The machine's disk is full.")
	}
	return err
}

// ownerOf returns the user a file belongs to.
func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return 0
}
