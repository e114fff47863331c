package hostgit

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// removeUnused removes a file that no other process has open: the kernel grants a write lease only on such a file.
func removeUnused(root *os.Root, name string) (removed bool, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // its git has renamed it to its final name
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil: // a file system without leases, or a file of another user
		return false, err
	}
	return true, root.Remove(name)
}
