package daemon

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

// rename renames without replacing anything.
func (d *Daemon) rename(from, to string) error {
	a, b, err := d.parents(from, to)
	if err != nil {
		return err
	}
	defer a.Close()
	defer b.Close()
	err = unix.Renameat2(int(a.Fd()), path.Base(from), int(b.Fd()), path.Base(to), unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not every file system can
		return d.renameGently(from, to)
	}
	return err
}
