package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

const (
	// portIn is how long a program may take to accept a connection.
	portIn = 10 * time.Second
	// maxPortStreams bounds the connections to ports that are open at once.
	maxPortStreams = 256
)

// loopbacks are the addresses at which programs are reached: many listen on only one.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// servePort connects the host with a program of the sandbox that listens on its loopback.
func (d *Daemon) servePort(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || port == 0 {
		return fault.New(fault.Invalid, "invalid_port", "The port must be a number from 1 to 65535.")
	}
	return servePipe(d, w, r, r.PathValue("port"), func(ctx context.Context) (proxycopy.Conn, error) { return d.dialPort(ctx, uint16(port)) })
}

// servePipe connects the host with what dial reaches. The answer repeats name, which the host checks.
func servePipe(d *Daemon, w http.ResponseWriter, r *http.Request, name string, dial func(context.Context) (proxycopy.Conn, error)) error {
	if d.portStreams.Add(1) > maxPortStreams {
		d.portStreams.Add(-1)
		return fault.New(fault.Conflict, "too_many_streams", "%d connections to ports of this sandbox are already open. Close some first.", maxPortStreams)
	}
	defer d.portStreams.Add(-1)
	conn, err := dial(r.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	if wantsDirect(r) {
		return joinDirect(w, r, conn, name)
	}
	return joinShared(w, r, conn, name)
}

// dialPort reaches a program at either loopback address. Where the sandbox shares its loopback with the machine it runs on, only
// sockets of the sandbox's own processes are reached: the machine's other services are none of the host's business, and the
// answer does not reveal whether there is one.
func (d *Daemon) dialPort(ctx context.Context, port uint16) (proxycopy.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, portIn)
	defer cancel()
	err := error(syscall.ECONNREFUSED)
	for _, addr := range loopbacks {
		at := netip.AddrPortFrom(addr, port)
		if !d.cfg.OwnNet && !d.listeners.own(ctx, at, d.tree.members) {
			continue
		}
		var dialer net.Dialer
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, "tcp", at.String()); err == nil {
			return conn.(proxycopy.Conn), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(err, fault.Timeout, "port_timeout", "The program at port %d of the sandbox does not accept connections.", port)
	}
	return nil, fault.Wrap(err, fault.Conflict, "port_closed", "No program in the sandbox listens at port %d. Start it there, then try again.", port)
}

// joinDirect gives the stream the whole pipe.
func joinDirect(w http.ResponseWriter, r *http.Request, conn proxycopy.Conn, name string) error {
	pipe, early, hangUp, err := direct(w, r, guest.HeaderPort, name)
	if err != nil {
		return err
	}
	defer hangUp()
	if n := early.Buffered(); n > 0 {
		if _, err := io.CopyN(conn, early, int64(n)); err != nil {
			return errHijacked
		}
	}
	whole, ok := pipe.(proxycopy.Conn)
	if !ok {
		whole = closing{pipe}
	}
	proxycopy.Both(whole, conn, proxycopy.Options{})
	return errHijacked
}

// closing is a pipe whose directions end together.
type closing struct{ net.Conn }

func (c closing) CloseWrite() error { return c.Close() }

// joinShared carries the stream in the body of a request and of its answer.
func joinShared(w http.ResponseWriter, r *http.Request, conn proxycopy.Conn, name string) error {
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	w.Header().Set(guest.HeaderPort, name)
	if err := offer.Begin(w); err != nil {
		return errCut
	}
	return offer.Carry(w, r, conn, false)
}
