package daemon

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// serveMove gives a file, a link or a folder another path. Missing folders on the way are made; nothing is ever replaced, and a link is moved, not
// followed.
func (d *Daemon) serveMove(w http.ResponseWriter, r *http.Request) error {
	from, to := r.URL.Query().Get("path"), r.URL.Query().Get("to")
	raw, err := inRoot(from, false)
	if err != nil {
		return err
	}
	target, err := inRoot(to, false)
	if err != nil {
		return err
	}
	info, err := d.root.Lstat(raw)
	if err != nil {
		return fromDisk(err, from)
	}
	if info.IsDir() && strings.HasPrefix(target, raw+"/") {
		return fault.New(fault.Invalid, "invalid_path", "A folder cannot be moved into itself.")
	}
	if err := d.holdsNoGit(raw, info); err != nil {
		return err
	}
	if dir := path.Dir(target); dir != "." {
		if err := d.root.MkdirAll(dir, 0o755); err != nil {
			return fromDisk(err, to)
		}
	}
	if err := d.rename(raw, target); errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return errThere(to)
	} else if err != nil {
		return fromDisk(err, from)
	}
	if d.cfg.Changes != nil {
		d.cfg.Changes.Hint()
	}
	if info, err = d.root.Lstat(target); err != nil {
		return fromDisk(err, to)
	}
	answer(w, http.StatusOK, d.fileInfo(target, info))
	return nil
}

// holdsNoGit refuses to move a folder that is a repository of its own: a submodule or a worktree knows its place by absolute paths.
func (d *Daemon) holdsNoGit(raw string, info fs.FileInfo) error {
	if !info.IsDir() {
		return nil
	}
	if _, err := d.root.Lstat(path.Join(raw, ".git")); err == nil {
		return fault.New(fault.Conflict, "git_directory", "%q is a git repository of its own. Move it in a terminal.", guest.EncodePath(raw))
	}
	return nil
}

// renameGently renames where the system cannot rename without replacing: it looks first.
func (d *Daemon) renameGently(from, to string) error {
	if _, err := d.root.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return d.root.Rename(from, to)
}

// parents opens the folders that two paths are in.
func (d *Daemon) parents(from, to string) (a, b *os.File, err error) {
	if a, err = d.root.OpenFile(path.Dir(from), os.O_RDONLY|syscall.O_DIRECTORY, 0); err != nil {
		return nil, nil, err
	}
	if b, err = d.root.OpenFile(path.Dir(to), os.O_RDONLY|syscall.O_DIRECTORY, 0); err != nil {
		_ = a.Close()
		return nil, nil, err
	}
	return a, b, nil
}
