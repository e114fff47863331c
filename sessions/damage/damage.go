// Package damage distinguishes temporary problems with a session's files from those that last until somebody repairs a file. It
// renames unusable files, so that nothing of them is lost.
package damage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// passing lists the file errors that end on their own, or once somebody frees space on the disk.
var passing = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR,
	syscall.EBUSY, syscall.ETIMEDOUT, syscall.ESTALE, os.ErrDeadlineExceeded, context.Canceled, context.DeadlineExceeded}

// Lasting reports whether err means that a file cannot be used until somebody repairs it: it is missing, is not a regular file,
// or is forbidden. All other errors, such as those of a full disk or of a database, are worth another try.
func Lasting(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok && !slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}

// Words describes which file below dataDir is damaged, and how.
func Words(dataDir string, err error) string {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return "see the server's log"
	}
	path, rerr := filepath.Rel(dataDir, e.Path)
	if rerr != nil || !filepath.IsLocal(path) {
		path = filepath.Base(e.Path)
	}
	return fmt.Sprintf("%s: %v", path, e.Err)
}

// mark follows the old name in the name of a renamed file.
const mark = ".aside-"

// SetAside renames what err says is damaged in dir, or dir itself, and returns the new name.
func SetAside(dir string, err error) (kept string, _ error) {
	path := dir
	if e, ok := errors.AsType[*fs.PathError](err); ok && strings.HasPrefix(e.Path, dir+string(filepath.Separator)) {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			path = e.Path
		}
	}
	kept = fmt.Sprintf("%s%s%d", path, mark, time.Now().UnixNano())
	return kept, os.Rename(path, kept)
}

// Aside returns the renamed copies of a file or folder.
func Aside(path string) []string {
	kept, _ := filepath.Glob(path + mark + "*") // IDs have no special characters
	return kept
}
