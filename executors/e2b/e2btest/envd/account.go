package envd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// account is a Unix user of the sandbox.
type account struct {
	name, home string
	uid, gid   int
	workdir    string
	same       bool // everybody is the user envd runs as
}

// user is who a call is made as: the name in a Basic header, without a password, or the template's default.
func (s *server) user(r *http.Request) (*account, error) {
	name, _, _ := r.BasicAuth() // another kind of header is not looked at
	u, err := s.account(name)
	if err != nil {
		return nil, refuse("unauthenticated", "invalid username: '%s'", name)
	}
	return u, nil
}

func (s *server) account(name string) (*account, error) {
	s.mu.Lock()
	in := s.init
	s.mu.Unlock()
	name = cmp.Or(name, in.DefaultUser)
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &account{name: name, home: u.HomeDir, uid: uid, gid: gid, workdir: in.DefaultWorkdir, same: in.OneUser}, nil
}

// resolve is the absolute path a call means: absolute, below the home (~), or relative to the home.
func (a *account) resolve(path string) (string, error) {
	switch {
	case path == "":
		if a.workdir != "" {
			return a.workdir, nil
		}
		return a.home, nil
	case path == "~" || strings.HasPrefix(path, "~/"):
		return filepath.Join(a.home, path[1:]), nil
	case strings.HasPrefix(path, "~"):
		return "", refuse("invalid_argument", "cannot expand user-specific home dir")
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	}
	return filepath.Join(a.home, path), nil
}

// own gives a file to the account.
func (a *account) own(path string) error {
	if a.same {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// makeDirs makes a folder and what is missing above it, for the account.
func (a *account) makeDirs(path string) error {
	if st, err := os.Stat(path); err == nil {
		if !st.IsDir() {
			return fmt.Errorf("path is a file: %s", path)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to stat directory: %w", err)
	}
	if parent := filepath.Dir(path); parent != path {
		if err := a.makeDirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("failed to create directory: %w", err)
	}
	return a.own(path)
}
