// Package atomicfile replaces files as a whole: whoever reads meanwhile, or after the process was killed, finds the old content or the new
// one, never a part. What is written goes to a new file in the same folder first; links that somebody else put there are not followed.
package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// Unfinished begins the names of new files. A kill may leave one behind: it is of no use to anybody.
const Unfinished = ".new-"

// Write replaces the file at path. After a power cut it may be the old one, or damaged: for what can be made again.
func Write(path string, content []byte, mode fs.FileMode) error {
	return replace(path, bytes.NewReader(content), mode, false)
}

// WriteDurable replaces the file at path, which is the new one after a power cut, too.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	return replace(path, bytes.NewReader(content), mode, true)
}

// CopyDurable replaces the file at path with all that content gives, as WriteDurable does. An error of content leaves the old file.
func CopyDurable(path string, content io.Reader, mode fs.FileMode) error {
	return replace(path, content, mode, true)
}

// Copy replaces the file at path with all that content gives, as Write does. An error of content leaves the old file.
func Copy(path string, content io.Reader, mode fs.FileMode) error {
	return replace(path, content, mode, false)
}

// CopyIn is Copy for a file below a root, and never follows a link out of it: for folders in which others write, too.
func CopyIn(root *os.Root, name string, content io.Reader, mode fs.FileMode) (err error) {
	temp := path.Join(path.Dir(name), ".parawork-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(temp)
		}
	}()
	if _, err = io.Copy(f, content); err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Rename(temp, name)
}

func replace(path string, content io.Reader, mode fs.FileMode, durable bool) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), Unfinished+name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, content)
	if mode != 0o600 { // which it was made with
		err = errors.Join(err, f.Chmod(mode))
	}
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil || !durable {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes sure that the names in a folder outlive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
