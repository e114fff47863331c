//go:build linux || darwin

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/internal/sockpath"
)

// socketName is the socket guests call, in a folder of its own that is mounted in the container.
const socketName = "host"

// listen makes the socket in dir and listens. A server that still listens there, because it has not ended yet, loses its callers.
func listen(ctx context.Context, dir, token string) (*reversedial.Acceptor, error) {
	path, done, err := sockpath.Short(dir, socketName)
	if err != nil {
		return nil, err
	}
	defer done()
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	if err := reversedial.TakeOver(ctx, dial, token); err != nil {
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
	// The guest runs as a user of its own. Nobody else can reach this folder, and callers must know the token.
	if err := os.Chmod(path, 0o666); err != nil {
		_ = l.Close()
		return nil, err
	}
	return reversedial.Open(l, token), nil
}
