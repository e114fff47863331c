package tunnel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// AcceptConfig configures the acceptance of a connection. All but Timing and Log is required.
type AcceptConfig struct {
	ServerKey  ed25519.PrivateKey
	MachineKey ed25519.PublicKey // of the machine that calls
	Timing     Timing
	Log        *slog.Logger
}

// Link is a connection to a machine, at the server. Safe for concurrent use.
type Link struct {
	conn *conn
	http *http.ClientConn

	work  sync.WaitGroup
	ended chan struct{}

	mu      sync.Mutex
	closing bool
}

// Accept turns a machine's request into a Link. The caller identifies the machine (wire.ReadCall, Caller.Check); Accept verifies its key.
// When the
// error is a *fault.Error no response was sent yet; otherwise the connection was taken over and is closed.
//
// The link survives the request: it ends when the machine leaves, the network fails, or Close is called. It uses nothing of r but its
// connection then.
func Accept(w http.ResponseWriter, r *http.Request, cfg AcceptConfig) (*Link, error) {
	if !websocket.IsWebSocketUpgrade(r) || !slices.Contains(websocket.Subprotocols(r), wire.Subprotocol) {
		return nil, fault.New(fault.Invalid, "runner_protocol", "This is where members' own machines connect, with a WebSocket of the protocol %s. A proxy before the server must forward WebSockets.", wire.Subprotocol)
	}
	if _, page := r.Header["Origin"]; page {
		return nil, fault.New(fault.Forbidden, "runner_protocol", "Only machines connect here, not browsers.")
	}
	inner, err := proof(cfg.ServerKey, cfg.MachineKey)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "internal", "The server cannot prove its identity.")
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{wire.Subprotocol}, ReadBufferSize: 16 << 10, WriteBufferSize: socketFrame,
		WriteBufferPool: &buffers, HandshakeTimeout: handshakeTime}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("accepting a machine: %w", err) // the upgrader has sent a response
	}
	tune(ws.NetConn())
	l, err := newLink(r.Context(), newSocket(ws), inner, cfg)
	if err != nil {
		_ = ws.NetConn().Close()
		return nil, fmt.Errorf("accepting a machine: %w", err)
	}
	return l, nil
}

func newLink(ctx context.Context, s *socket, inner *tls.Config, cfg AcceptConfig) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	secure := tls.Server(s, inner)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("proving keys: %w", err)
	}
	c := newConn(secure, s, cfg.Timing, cfg.Log)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		Protocols:              protocols,
		HTTP2:                  c.timing.config(),
		DisableCompression:     true,
		MaxResponseHeaderBytes: headerSize,
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}
	h, err := t.NewClientConn(ctx, "http", "machine:80")
	if err != nil {
		return nil, fmt.Errorf("speaking HTTP/2: %w", err)
	}
	if !stop() {
		return nil, errors.New("proving keys took too long")
	}
	l := &Link{conn: c, http: h, ended: make(chan struct{})}
	go l.wait() // ends with the connection
	return l, nil
}

// wait ends the link when its connection has ended.
func (l *Link) wait() {
	<-l.conn.done
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	_ = l.http.Close()
	l.work.Wait()
	close(l.ended)
}

// Done is closed when the link has ended and all its work is done.
func (l *Link) Done() <-chan struct{} { return l.ended }

// Reason says why the link ended, "" while it lives.
func (l *Link) Reason() string {
	select {
	case <-l.conn.done:
		return l.conn.words()
	default:
		return ""
	}
}

// RoundTrip sends a request to the machine. The URL's path and query count, its host does not. Canceling the request's context ends the
// stream.
func (l *Link) RoundTrip(req *http.Request) (*http.Response, error) {
	out := *req
	u := *req.URL
	u.Scheme, u.Host = "http", "machine"
	out.URL, out.Host, out.RequestURI = &u, "machine", ""
	if out.Header == nil {
		out.Header = http.Header{}
	}
	resp, err := l.http.RoundTrip(&out)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		return nil, l.unreachable(err)
	}
	resp.Request = req
	return resp, nil
}

// unreachable says that the machine cannot be reached, and why.
func (l *Link) unreachable(err error) error {
	if reason := l.Reason(); reason != "" {
		return fault.Wrap(err, fault.Unavailable, wire.CodeOffline, "The machine is offline: %s", reason)
	}
	return fault.Wrap(err, fault.Unavailable, wire.CodeOffline, "The machine does not answer.")
}

// Close ends the link. It sends the machine the reason, in words; after ReasonRevoked and ReasonReplaced the machine does not reconnect.
// Close does not wait: Done is closed when the link has ended.
func (l *Link) Close(reason string) {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return
	}
	l.closing = true
	l.work.Add(1)
	l.mu.Unlock()
	l.conn.say(bye{Code: codes[reason], Reason: reason})
	go func() {
		defer l.work.Done()
		defer l.conn.Close()
		b, err := json.Marshal(bye{Code: codes[reason], Reason: reason})
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
		defer cancel()
		req := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: byePath}, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b))}).WithContext(ctx)
		resp, err := l.RoundTrip(req)
		if err != nil {
			l.conn.log.Debug("a machine could not be notified why it is disconnected", "error", err)
			return
		}
		_ = resp.Body.Close()
	}()
}

// Quiet returns how long nothing has come from the machine.
func (l *Link) Quiet() time.Duration { return l.conn.quiet() }
