package agents

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/homedir"
)

// Files are the files of a home, by names relative to it. Agents write there too: implementations read only regular files and
// reach nothing outside the home. A homedir.Dir is one implementation, the home behind a guest another.
type Files interface {
	// Stat does not follow a link. fs.ErrNotExist.
	Stat(name string) (homedir.Info, error)
	Open(name string) (homedir.File, error)
	// ReadFile reads a regular file whole: fs.ErrNotExist, homedir.ErrNotPlain, homedir.ErrTooLarge.
	ReadFile(name string) ([]byte, error)
	// WriteFile replaces whatever is there, atomically, by a file only its owner can read. It does not follow a link.
	WriteFile(name string, b []byte) error
	Mkdir(name string) error
	Symlink(to, name string) error
	Remove(name string) error
	RemoveAll(name string) error
	Glob(pattern string) ([]string, error)
}

// Inside is a sandbox with its own home, whose files are reached through the sandbox's guest.
type Inside struct {
	Key   string // identifies the home among all others
	Home  string // absolute path of the home, as the agent sees it
	Files Files
	// Host is set where the sandbox uses the programs of this server; otherwise they are looked up in the sandbox.
	Host bool
	// Machine is set where the sandbox runs on a member's own machine and uses its programs, not those of an image.
	Machine bool
	// Boundary is set where the sandbox isolates an agent, so that it needs no sandbox of its own.
	Boundary bool
	// Own is set where the home is a person's own, with their logins: no login is written into it or removed from it.
	Own bool
}

// lockHere locks a home on this server, also against other servers that use the same data folder. The lock file is outside the
// home, where no agent finds it.
func lockHere(dir string) (unlock func(), err error) {
	locks := filepath.Join(filepath.Dir(dir), ".locks")
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(locks, filepath.Base(dir)), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Since(start) > 5*time.Second {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
	}
}

// there reports whether a non-empty regular file exists under a name.
func there(files Files, name string) bool {
	i, err := files.Stat(name)
	return err == nil && i.Regular() && i.Size > 0
}

// readHead reads the first bytes of a regular file.
func readHead(files Files, name string, n int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, _, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p := make([]byte, min(n, size))
	k, err := f.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) { // otherwise it was truncated meanwhile
		return nil, err
	}
	return p[:k], nil
}
