// Package atomicfile replaces files atomically: a reader sees the old content or the new one, never a part, also after the process was
// killed. It first writes a new file in the same folder, and follows no link that somebody else put there.
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

// Unfinished begins the names of new files. A kill may leave one behind, which can be deleted.
const Unfinished = ".new-"

// Write replaces the file at path. After a power failure it may be the old one, or damaged: for content that can be made again.
func Write(path string, content []byte, mode fs.FileMode) error {
	return replace(path, bytes.NewReader(content), mode, false)
}

// WriteDurable replaces the file at path. The new content survives a power failure.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	return replace(path, bytes.NewReader(content), mode, true)
}

// CopyDurable replaces the file at path with all bytes of content, as WriteDurable does. If reading content fails, the old file stays.
func CopyDurable(path string, content io.Reader, mode fs.FileMode) error {
	return replace(path, content, mode, true)
}

// Copy replaces the file at path with all bytes of content, as Write does. If reading content fails, the old file stays.
func Copy(path string, content io.Reader, mode fs.FileMode) error {
	return replace(path, content, mode, false)
}

// CopyIn is Copy for a file below a root, and never follows a link out of it: also for folders in which others write.
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
	if mode != 0o600 { // the mode it was made with
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

// SyncDir makes the names in a folder survive a power failure.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
