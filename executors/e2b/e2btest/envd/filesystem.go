package envd

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type (
	pathRequest struct {
		Path string `json:"path"`
	}
	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	listDirRequest struct {
		Path  string `json:"path"`
		Depth uint32 `json:"depth"`
	}
	entryInfo struct {
		Name          string            `json:"name,omitempty"`
		Type          string            `json:"type,omitempty"`
		Path          string            `json:"path,omitempty"`
		Size          string            `json:"size,omitempty"` // int64
		Mode          uint32            `json:"mode,omitempty"`
		Permissions   string            `json:"permissions,omitempty"`
		Owner         string            `json:"owner,omitempty"`
		Group         string            `json:"group,omitempty"`
		ModifiedTime  string            `json:"modifiedTime,omitempty"`
		SymlinkTarget *string           `json:"symlinkTarget,omitempty"`
		Metadata      map[string]string `json:"metadata,omitempty"`
	}
	entryAnswer struct {
		Entry *entryInfo `json:"entry,omitempty"`
	}
)

func (s *server) filesystemRoutes(mux *http.ServeMux) {
	const service = "filesystem.Filesystem/"
	unary(mux, s, service+"Stat", s.stat)
	unary(mux, s, service+"MakeDir", s.makeDir)
	unary(mux, s, service+"Move", s.move)
	unary(mux, s, service+"ListDir", s.listDir)
	unary(mux, s, service+"Remove", s.remove)
	unary(mux, s, service+"CreateWatcher", s.createWatcher)
	unary(mux, s, service+"GetWatcherEvents", s.watcherEvents)
	unary(mux, s, service+"RemoveWatcher", s.removeWatcher)
	serverStream(mux, s, service+"WatchDir", s.watchDir)
}

// describe describes a path; for a link, the link itself.
func describe(path string) (*entryInfo, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	e := &entryInfo{Name: filepath.Base(path), Path: path, Mode: uint32(st.Mode().Perm()), Permissions: st.Mode().String(),
		ModifiedTime: st.ModTime().UTC().Format(time.RFC3339Nano)}
	if st.Size() > 0 {
		e.Size = strconv.FormatInt(st.Size(), 10)
	}
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		target, _ := filepath.EvalSymlinks(path)
		target = cmp.Or(target, path)
		e.Type, e.SymlinkTarget = "FILE_TYPE_SYMLINK", &target
	case st.IsDir():
		e.Type = "FILE_TYPE_DIRECTORY"
	case st.Mode().IsRegular():
		e.Type = "FILE_TYPE_FILE"
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = strconv.Itoa(int(sys.Uid)), strconv.Itoa(int(sys.Gid))
		if u, err := user.LookupId(e.Owner); err == nil {
			e.Owner = u.Username
		}
		if g, err := user.LookupGroupId(e.Group); err == nil {
			e.Group = g.Name
		}
	}
	return e, nil
}

func fileError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist): // a file where a folder would have to be is another case
		return refuse("not_found", "file not found: %s", path)
	}
	return refuse("internal", "error getting file info: %v", err)
}

func (s *server) stat(_ context.Context, u *account, in *pathRequest) (any, error) {
	path, err := u.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	e, err := describe(path)
	if err != nil {
		return nil, err
	}
	return entryAnswer{e}, nil
}

func (s *server) makeDir(_ context.Context, u *account, in *pathRequest) (any, error) {
	path, err := u.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("internal", "error getting file info: %v", err)
	}
	if err == nil {
		if st.IsDir() {
			return nil, refuse("already_exists", "directory already exists: %s", path)
		}
		return nil, refuse("invalid_argument", "path already exists but it is not a directory: %s", path)
	}
	if s.full() {
		return nil, refuse("internal", "failed to create directory: mkdir %s: no space left on device", path)
	}
	if err := u.makeDirs(path); err != nil {
		return nil, refuse("internal", "%v", err)
	}
	e, err := describe(path)
	if err != nil {
		return nil, err
	}
	return entryAnswer{e}, nil
}

func (s *server) move(_ context.Context, u *account, in *moveRequest) (any, error) {
	from, err := u.resolve(in.Source)
	if err != nil {
		return nil, err
	}
	to, err := u.resolve(in.Destination)
	if err != nil {
		return nil, err
	}
	if err := u.makeDirs(filepath.Dir(to)); err != nil {
		return nil, refuse("internal", "%v", err)
	}
	if err := os.Rename(from, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, refuse("not_found", "source file not found: %v", err)
		}
		return nil, refuse("internal", "error renaming: %v", err)
	}
	e, err := describe(to)
	if err != nil {
		return nil, err
	}
	return entryAnswer{e}, nil
}

func (s *server) listDir(_ context.Context, u *account, in *listDirRequest) (any, error) {
	path, err := u.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if !st.IsDir() {
		return nil, refuse("invalid_argument", "path is not a directory: %s", path)
	}
	depth := max(int(in.Depth), 1)
	out := []*entryInfo{}
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if p == path || err != nil {
			return nil
		}
		rel, _ := filepath.Rel(path, p)
		if n := strings.Count(rel, "/") + 1; n > depth {
			return fs.SkipDir
		}
		if e, err := describe(p); err == nil {
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		return nil, fileError(path, err)
	}
	return struct {
		Entries []*entryInfo `json:"entries,omitempty"`
	}{out}, nil
}

func (s *server) remove(_ context.Context, u *account, in *pathRequest) (any, error) {
	path, err := u.resolve(in.Path)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(path); err != nil {
		return nil, refuse("internal", "error removing file or directory: %v", err)
	}
	return empty{}, nil
}

func (s *server) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.diskFull
}
