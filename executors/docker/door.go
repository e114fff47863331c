//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest/call"
)

// socketName is the socket guests call, in a folder of its own that is shown to the container.
const socketName = "host"

// openDoor makes the socket in dir and begins to listen. Whoever listens there still, a server that has not ended yet, is sent away.
func openDoor(ctx context.Context, dir, token string) (*call.Door, error) {
	// A data folder's path may be longer than a socket's address can hold: the way goes through a descriptor of the folder.
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	path := "/proc/self/fd/" + strconv.Itoa(fd) + "/" + socketName
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	if err := call.TakeOver(ctx, dial, token); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making the socket the guest calls: %w", err)
	}
	l.SetUnlinkOnClose(false) // by then it may be another's
	// The guest has a user of its own. Nobody else gets as far as this folder, and callers must know the token.
	if err := os.Chmod(path, 0o666); err != nil {
		_ = l.Close()
		return nil, err
	}
	return call.Open(l, token), nil
}
