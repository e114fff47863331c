package daemon

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownFiles is where the system lists this program's open files by number.
const ownFiles = "/proc/self/fd/"

// nameless creates a file in a folder that has no name yet: see name. Not every file system supports that.
func (d *Daemon) nameless(dir string) (*os.File, error) {
	if _, err := os.Lstat(ownFiles); err != nil {
		return nil, err // it could not be given a name
	}
	return d.root.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
}

// name gives a nameless file its name. fs.ErrExist where the name is taken.
func (d *Daemon) name(f *os.File, target string) error {
	dir, err := d.root.OpenFile(path.Dir(target), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	from := ownFiles + strconv.Itoa(int(f.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, from, int(dir.Fd()), path.Base(target), unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "linkat", Old: from, New: target, Err: err}
	}
	return nil
}
