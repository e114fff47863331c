package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

const (
	// gatewayPatience is how long a program's connection waits for a host: a restarting server is back by then, and agents wait
	// longer for an answer.
	gatewayPatience = 2 * time.Minute
	// gatewayTakeIn is how long a host that asked may take to confirm a connection: its pipe may be dead.
	gatewayTakeIn = 15 * time.Second
	// gatewayDrain bounds what is still read from a rejected program: when a connection is closed with unread bytes, its last
	// data is lost.
	gatewayDrain = 2 * time.Second
	maxDrained   = 1 << 20
)

// gateway accepts connections of the sandbox's programs to the server's model gateway. It judges nothing: the host does.
type gateway struct {
	d    *Daemon
	l    net.Listener // nil: it could not be created
	port int
	next chan offered  // passes a connection to a waiting host
	free chan struct{} // a slot for each connection

	mu   sync.Mutex
	host string        // the current host, whose streams count
	left chan struct{} // closed when another host replaces it
}

// newGateway listens at a port of the system's choice: several sandboxes may share one loopback.
func newGateway(d *Daemon) *gateway {
	g := &gateway{d: d, next: make(chan offered), free: make(chan struct{}, guest.MaxGatewayConns), left: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.cfg.Log.Warn("the model gateway cannot be offered", "error", err)
		return g
	}
	g.l, g.port = l, l.Addr().(*net.TCPAddr).Port
	return g
}

// serve accepts connections until close.
func (g *gateway) serve() {
	if g.l == nil {
		return
	}
	for {
		conn, err := g.l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			g.d.cfg.Log.Warn("connection to the model gateway not accepted", "error", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors: others may be closed
			continue
		}
		select {
		case g.free <- struct{}{}:
		default: // a program that floods it must not use up the guest's descriptors
			_ = conn.Close()
			continue
		}
		g.d.work.Go(func() { g.offer(&gatewayConn{TCPConn: conn.(*net.TCPConn), free: g.free}) })
	}
}

func (g *gateway) close() {
	if g.l != nil {
		_ = g.l.Close()
	}
}

// gatewayConn releases its slot when it is closed.
type gatewayConn struct {
	*net.TCPConn
	once sync.Once
	free chan struct{}
}

func (c *gatewayConn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { <-c.free })
	return err
}

// offer waits for a host that confirms the connection. A host that disconnects before confirming did not accept it.
func (g *gateway) offer(conn *gatewayConn) {
	late := time.NewTimer(gatewayPatience)
	defer late.Stop()
	for o := (offered{conn, make(chan bool, 1)}); ; {
		select {
		case g.next <- o:
			if <-o.taken {
				return
			}
		case <-late.C:
			g.turnAway(conn)
			return
		case <-g.d.over:
			_ = conn.Close()
			return
		}
	}
}

// offered is a connection on its way to a host.
type offered struct {
	conn  *gatewayConn
	taken chan bool // reports the result once
}

// turnAway tells a program that nobody answers, in the format its libraries expect.
func (g *gateway) turnAway(conn *gatewayConn) {
	defer conn.Close()
	const words = `{"type":"error","error":{"type":"api_error","code":"server_away","message":"Parawork: the server does not answer. Try again in a moment."}}`
	_ = conn.SetDeadline(time.Now().Add(gatewayDrain))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(words), words)
	_ = conn.CloseWrite()
	_, _ = io.CopyN(io.Discard, conn, maxDrained)
}

// of records the current host. The returned channel is closed when another one replaces it.
func (g *gateway) of(host string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if host != g.host {
		close(g.left)
		g.host, g.left = host, make(chan struct{})
	}
	return g.left
}

var errNoGateway = fault.New(fault.Unsupported, "gateway_unsupported", "This sandbox offers no model gateway.")

// serveGateway passes the next connection to the host. It waits until there is one.
func (d *Daemon) serveGateway(w http.ResponseWriter, r *http.Request) error {
	g := d.gateway
	if g.l == nil {
		return errNoGateway
	}
	host := r.URL.Query().Get(guest.HostQuery)
	if len(host) > guest.MaxHostName {
		return fault.New(fault.Invalid, "invalid_host", "The name of a host may have at most %d bytes.", guest.MaxHostName)
	}
	left := g.of(host)
	var o offered
	select {
	case o = <-g.next:
	case <-left:
		return errCut
	case <-r.Context().Done():
		return nil
	case <-d.over:
		return errCut
	}
	if !g.takes(w, r, left) {
		o.taken <- false
		return errCut
	}
	o.taken <- true
	conn := o.conn
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() { // ends with ctx
		select {
		case <-left:
			cancel()
		case <-ctx.Done():
		}
	}()
	return carryShared(w, r, conn, true)
}

// takes reports whether the host confirms the connection it was offered.
func (g *gateway) takes(w http.ResponseWriter, r *http.Request, left <-chan struct{}) bool {
	if begin(w) != nil {
		return false
	}
	said := make(chan bool, 1)
	go func() { // ends with the request
		_, err := io.ReadFull(r.Body, make([]byte, 1))
		said <- err == nil
	}()
	late := time.NewTimer(gatewayTakeIn)
	defer late.Stop()
	select {
	case ok := <-said:
		return ok
	case <-late.C:
	case <-left:
	case <-g.d.over:
	}
	return false
}

// carryShared carries a connection in the bodies of a request and its answer, whose header was sent. whole: the end of input from
// conn ends both directions.
func carryShared(w http.ResponseWriter, r *http.Request, conn proxycopy.Conn, whole bool) error {
	sent := make(chan struct{})
	go func() { // ends with the request's body, or with conn
		defer close(sent)
		if _, err := io.Copy(conn, r.Body); err != nil || conn.CloseWrite() != nil {
			_ = conn.Close()
		}
	}()
	rc := http.NewResponseController(w)
	from := bufio.NewReaderSize(conn, 32<<10)
	var err error
	for err == nil {
		if _, err = from.Peek(1); err != nil {
			break
		}
		var p []byte
		if p, err = from.Peek(from.Buffered()); err == nil {
			if _, err = w.Write(p); err == nil {
				_, _ = from.Discard(len(p))
				err = rc.Flush()
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		_ = conn.Close()
		return errCut
	}
	if whole {
		return nil
	}
	<-sent
	return nil
}
