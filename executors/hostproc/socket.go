//go:build linux || darwin

package hostproc

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/internal/sockpath"
)

// SocketName is the guest's socket in a sandbox's folder.
const SocketName = "guest.sock"

// socketPath returns a path to the folder's socket that fits into a socket address. done releases its resources.
func socketPath(dir string) (path string, done func(), err error) {
	if path = filepath.Join(dir, SocketName); sockpath.Fits(path) {
		return path, func() {}, nil
	}
	return sockpath.Short(dir, SocketName)
}

// Dial opens a pipe to the guest of a folder.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("dialing the guest: %w", err)
	}
	return conn, nil
}

// Listen makes the folder's socket and returns its listener as a file to hand over. Only the owner may connect.
func Listen(dir string) (*os.File, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making the guest's socket: %w", err)
	}
	defer l.Close()
	// The guest owns the socket's file from now on: closing our copy must not remove it.
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(filepath.Join(dir, SocketName), 0o600); err != nil {
		return nil, err
	}
	f, err := l.File()
	if err != nil {
		return nil, fmt.Errorf("handing over the guest's socket: %w", err)
	}
	return f, nil
}
