package offer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

const (
	// drainIn bounds what is still read from a rejected program: when a connection is closed with unread bytes, its last data is
	// lost.
	drainIn    = 2 * time.Second
	maxDrained = 1 << 20
)

// Gateway offers connections of the sandbox's programs to the server's model gateway.
type Gateway struct {
	queue
	l net.Listener // nil: it could not be created
}

// NewGateway listens at a port of the system's choice: several sandboxes may share one loopback.
func NewGateway(cfg Config) *Gateway {
	g := &Gateway{queue: newQueue(cfg, "the model gateway", guest.MaxGatewayConns)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		cfg.Log.Warn("the model gateway cannot be offered", "error", err)
		return g
	}
	g.l = l
	return g
}

// Port is the port of the sandbox's loopback at which programs find it, 0 where it cannot be offered.
func (g *Gateway) Port() int {
	if g.l == nil {
		return 0
	}
	return g.l.Addr().(*net.TCPAddr).Port
}

// Serve accepts connections until Close.
func (g *Gateway) Serve() {
	if g.l == nil {
		return
	}
	g.accept(g.l, func(conn proxycopy.Conn) {
		if !g.offer(conn, nil) {
			turnAway(conn)
		}
	})
}

// Close accepts no more connections.
func (g *Gateway) Close() {
	if g.l != nil {
		_ = g.l.Close()
	}
}

// turnAway tells a program that nobody answers, in the format its libraries expect.
func turnAway(conn proxycopy.Conn) {
	defer conn.Close()
	const words = `{"type":"error","error":{"type":"api_error","code":"server_away","message":"Parawork: the server does not answer. Try again in a moment."}}`
	_ = conn.SetDeadline(time.Now().Add(drainIn))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(words), words)
	_ = conn.CloseWrite()
	_, _ = io.CopyN(io.Discard, conn, maxDrained)
}

var errNoGateway = fault.New(fault.Unsupported, "gateway_unsupported", "This sandbox offers no model gateway.")

// Handle passes the next connection to the host that requests it. It waits until there is one.
func (g *Gateway) Handle(w http.ResponseWriter, r *http.Request) error {
	if g.l == nil {
		return errNoGateway
	}
	return g.queue.Handle(w, r)
}
