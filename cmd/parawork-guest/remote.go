package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/internal/logfile"
)

// secrets are the token and what all processes are given.
func secrets(o options) (token string, given []string, err error) {
	if o.bootfile == "" {
		token, err = readToken(o)
		return token, nil, err
	}
	l, err := bootfile.Take(o.bootfile)
	if err == nil && l.Token == "" {
		err = errors.New("the boot file has no token")
	}
	return l.Token, l.Env, err
}

// listenAt listens at a unix socket only its user can reach. One that is there is of a guest that has died.
func listenAt(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	old := unix.Umask(0o077)
	l, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// maxLog is how much of what the guest says is kept, twice.
const maxLog = 1 << 20

// openLog opens the file the guest writes what it says to: standard error without a name.
func openLog(path string) (io.Writer, error) {
	if path == "" {
		return os.Stderr, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the guest's log: %w", err)
	}
	f, err := logfile.Open(path, maxLog)
	if err != nil {
		return nil, fmt.Errorf("opening the guest's log: %w", err)
	}
	return f, nil
}
