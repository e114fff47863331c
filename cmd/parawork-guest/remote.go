package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/guest/call"
	"github.com/parawork/parawork/internal/logfile"
)

// secrets are the token and what all processes are given.
func secrets(o options) (b bootfile.BootFile, err error) {
	if o.bootfile == "" {
		b.Token, err = readToken(o)
		return b, err
	}
	b, err = bootfile.Take(o.bootfile)
	if err == nil && b.Token == "" {
		err = errors.New("the boot file has no token")
	}
	return b, err
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

// keepCalling has the guest call its host over the network where the boot file has a secret for that, until stop, which waits.
func keepCalling(ctx context.Context, o options, given bootfile.BootFile) (stop func()) {
	if o.callFile == "" || given.Call == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		call.Keep(ctx, call.Config{File: o.callFile, Sandbox: o.sandbox, Secret: given.Call, Token: given.Token, Socket: o.listen, Egress: o.egress})
	}()
	return func() { cancel(); <-done }
}
