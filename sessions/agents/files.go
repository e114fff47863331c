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

// Files are those of a home, by names relative to it. Agents write there too: only regular files are read, and nothing outside is
// ever reached. A homedir.Dir is one, and so is the home behind a guest.
type Files interface {
	// Stat does not follow a link. fs.ErrNotExist.
	Stat(name string) (homedir.Info, error)
	Open(name string) (homedir.File, error)
	// ReadFile reads a regular file whole: fs.ErrNotExist, homedir.ErrNotPlain, homedir.ErrTooLarge.
	ReadFile(name string) ([]byte, error)
	// WriteFile replaces whatever lies there by a file of its owner alone, whole or not at all. A link is not followed.
	WriteFile(name string, b []byte) error
	Mkdir(name string) error
	Symlink(to, name string) error
	Remove(name string) error
	RemoveAll(name string) error
	Glob(pattern string) ([]string, error)
}

// Inside is a place with a home of its own: what an agent keeps there is reached through the place's guest.
type Inside struct {
	Key   string // names the home among all others
	Home  string // absolute path of the home, as the agent sees it
	Files Files
	// Host says that the programs are those of this machine; else they are looked for in the place.
	Host bool
	// Machine says that the place is a member's own machine and has its programs, where they are no image's.
	Machine bool
	// Boundary says that the place keeps an agent in, so that it needs no fence of its own.
	Boundary bool
	// Own says that the home is a person's own, with logins of theirs: none is written into it or taken out of it.
	Own bool
}

// lockHere takes the lock of a home on this machine, also against other servers on the same data folder. It lies outside the home,
// where no agent finds it.
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

// there reports whether a regular file with something in it lies under a name.
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
	if err != nil && !errors.Is(err, io.EOF) { // else it was cut meanwhile
		return nil, err
	}
	return p[:k], nil
}
