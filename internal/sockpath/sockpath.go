// Package sockpath makes short paths for long ones: a unix socket's address holds only about a hundred bytes, and data folders may lie
// deeper than that.
package sockpath

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Fits reports whether a path fits into a socket's address on this system.
func Fits(path string) bool { return len(path) <= most }

// Short returns a path to the entry name of the folder dir that fits. The folder must not be a link. done releases what the path needs; a
// listening socket works on without it.
func Short(dir, name string) (path string, done func(), err error) { return short(dir, name) }

// linked uses a link with a short name in a folder of this user's own, where descriptors have no paths. The link stays: the next caller for
// the folder finds it, and the system cleans its temporary folder.
func linked(temp, dir, name string) (string, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	links := filepath.Join(temp, "parawork-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(links, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making the folder of short paths: %w", err)
	}
	// In a world-writable folder, it could be somebody else's, and so could the links in it.
	info, err = os.Lstat(links)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not this user's own folder; remove it", links)
	}
	sum := sha256.Sum256([]byte(dir))
	link := filepath.Join(links, hex.EncodeToString(sum[:6]))
	if to, err := os.Readlink(link); err != nil || to != dir {
		fresh := link + "." + strconv.Itoa(os.Getpid())
		if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.Symlink(dir, fresh); err != nil {
			return "", fmt.Errorf("making a short path: %w", err)
		}
		if err := os.Rename(fresh, link); err != nil {
			return "", fmt.Errorf("making a short path: %w", err)
		}
	}
	path := filepath.Join(link, name)
	if !Fits(path) {
		return "", fmt.Errorf("the socket %s has no path that is short enough; set TMPDIR to a shorter folder", path)
	}
	return path, nil
}
