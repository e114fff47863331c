// Package arrange moves files of a guest's root.
package arrange

import (
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Rename gives a file, a link or a folder another path below the root. It replaces nothing: the error is fs.ErrExist. No link on the way leads out of
// the root, and one that is renamed is not followed.
func Rename(root *os.Root, from, to string) error {
	a, err := root.OpenFile(path.Dir(from), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := root.OpenFile(path.Dir(to), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer b.Close()
	err = exclusively(int(a.Fd()), path.Base(from), int(b.Fd()), path.Base(to))
	if !unable(err) {
		return err
	}
	// Not every file system can rename without replacing.
	if _, err := root.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return root.Rename(from, to)
}
