package instance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// DataLock keeps a second server away from the data folder. The kernel gives it up when the process ends, however it ends.
type DataLock struct{ f *os.File }

// LockData makes the data folder, if need be, and locks it.
func LockData(dir string) (*DataLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "data_dir_unusable", "The data folder %s cannot be created: %v. Set dataDir to a folder that the server can write to.", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "parawork.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "data_dir_unusable", "The data folder %s cannot be written: %v. Set dataDir to a folder that the server can write to.", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	// A server that was killed while it started a program leaves the lock to that for a moment: until the program runs.
	for tries := 0; errors.Is(err, syscall.EWOULDBLOCK) && tries < lockTries; tries++ {
		time.Sleep(lockPause)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data folder: %w", err)
		}
		return nil, fault.New(fault.Conflict, "data_dir_in_use", "%s uses the data folder %s. Stop it first, or set dataDir to another folder.", holder(f), dir)
	}
	if err := f.Truncate(0); err == nil { // the number is for people only
		_, _ = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	}
	return &DataLock{f}, nil
}

// How long to wait for the lock: three seconds.
const (
	lockTries = 60
	lockPause = 50 * time.Millisecond
)

// holder says who has the lock.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			return fmt.Sprintf("Another Parawork server (process %d)", pid)
		}
	}
	return "Another Parawork server"
}

// Release gives the data folder back.
func (l *DataLock) Release() { _ = l.f.Close() }
