// Package damage tells trouble with the files of a session that passes by itself from trouble that stays until somebody repairs a file, and
// sets files aside that cannot be used, so that nothing of them is lost.
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

// passing are the errors of files that end by themselves, or once somebody makes room on the machine.
var passing = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR,
	syscall.EBUSY, syscall.ETIMEDOUT, syscall.ESTALE, os.ErrDeadlineExceeded, context.Canceled, context.DeadlineExceeded}

// Lasting reports whether err says that a file cannot be used until somebody repairs it: it is missing, is something else than a file, or is
// forbidden. All other errors, such as those of a full disk or of a database, are worth another try.
func Lasting(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok && !slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}

// Words says which file below dataDir is damaged, and how.
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

// mark stands in the name of what was set aside, after its old name.
const mark = ".aside-"

// SetAside gives another name to what err says is damaged in dir, or to dir itself, and returns that name.
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

// Aside returns what was set aside of a file or folder.
func Aside(path string) []string {
	kept, _ := filepath.Glob(path + mark + "*") // ids have no special characters
	return kept
}
