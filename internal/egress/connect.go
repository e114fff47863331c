package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// TunnelEnv names the environment variable with the address of Connect's tunnel.
const TunnelEnv = "PARAWORK_TUNNEL"

// directHeader marks connections that never go through the server's own HTTP proxy: ssh and git's own protocol.
const directHeader = "X-Parawork-Direct"

// Connect connects in and out with host and port through the tunnel that env names: what ssh calls a ProxyCommand, and git a proxy. It
// returns when the other end has closed.
func Connect(ctx context.Context, args []string, env func(string) string, in io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: HOST PORT")
	}
	u, err := url.Parse(env(TunnelEnv))
	if err != nil || u.Host == "" || u.User == nil {
		return errors.New("only the server itself uses this program")
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("the server's way out is closed: %w", err)
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(2 * tunnelPatience))
	conn, err := askProxy(raw, u.User, net.JoinHostPort(args[0], args[1]), directHeader+": 1\r\n")
	if err != nil {
		return err
	}
	_ = raw.SetDeadline(time.Time{})
	go func() { // ends with the connection, or with the program
		_, _ = io.Copy(conn, in)
		_ = closeWrite(conn)
	}()
	_, err = io.Copy(out, conn)
	return err
}
