package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Serve handles the server's requests over a connection that Dial has made, until it ends or ctx does. It returns when every handler has
// returned: their requests' contexts end with the connection. The error says why it ended; errors.Is(err, ctx.Err()) when ctx did, and it is
// a fault with wire.CodeRevoked or wire.CodeReplaced when the server told the machine not to reconnect.
func Serve(ctx context.Context, nc net.Conn, h http.Handler) error {
	c, ok := nc.(*conn)
	if !ok {
		return errors.New("serving a tunnel: the connection is not one of Dial's")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	limits := c.timing.config()
	limits.MaxConcurrentStreams = machineStreams
	limits.MaxReceiveBufferPerConnection = machineWindow
	var handlers sync.WaitGroup
	var entry sync.Mutex // of handlers: none begins once they are being waited for
	over := false
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entry.Lock()
			if over {
				entry.Unlock()
				return
			}
			handlers.Add(1)
			entry.Unlock()
			defer handlers.Done()
			defer c.note(r)
			if r.URL.Path == byePath {
				c.goodbye(w, r)
				return
			}
			h.ServeHTTP(w, r)
		}),
		Protocols:         protocols,
		HTTP2:             limits,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: handshakeTime, // of the first bytes, which identify HTTP/2
		MaxHeaderBytes:    headerSize,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
	}
	l := &single{conn: c}
	served := make(chan struct{})
	go func() { // ends with srv
		defer close(served)
		_ = srv.Serve(l)
	}()
	select {
	case <-ctx.Done():
	case <-c.done:
	}
	err := context.Cause(ctx)
	_ = c.Close()
	cancel()
	_ = srv.Close()
	<-served
	entry.Lock()
	over = true
	entry.Unlock()
	handlers.Wait()
	if err != nil {
		return err
	}
	if b := c.said(); b != nil && b.Code != "" {
		return fault.New(fault.Gone, b.Code, "%s", b.Reason)
	}
	return errors.New(c.words())
}

// note logs a handler's panic, which ends its stream: the other end only sees that it ended.
func (c *conn) note(r *http.Request) {
	x := recover()
	if x == nil {
		return
	}
	if x != http.ErrAbortHandler { // which is how a handler aborts its response
		c.log.Error("a request of the server failed: this is a bug", "method", r.Method, "path", clean(r.URL.Path), "panic", x, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler)
}

// goodbye receives the server's reason for disconnecting this machine.
func (c *conn) goodbye(w http.ResponseWriter, r *http.Request) {
	var b bye
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBye))
	if err != nil || json.Unmarshal(body, &b) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.Code, b.Reason = clean(b.Code), clean(b.Reason)
	c.say(b)
	w.WriteHeader(http.StatusNoContent)
}

// single is a listener with one connection to accept.
type single struct {
	conn *conn
	once sync.Once
}

func (l *single) Accept() (net.Conn, error) {
	var first net.Conn
	l.once.Do(func() { first = l.conn })
	if first != nil {
		return first, nil
	}
	<-l.conn.done
	return nil, net.ErrClosed
}

func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return address{} }

// Conn turns the request and response of a stream (Link.Stream) into one connection, at the machine. It sends the response's head. The
// handler must not return while the connection is needed: when it returns, the connection ends, after everything written was sent. Close
// makes pending reads and writes return.
func Conn(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	rc := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if err := rc.Flush(); err != nil {
		return nil, fmt.Errorf("accepting a stream: %w", err)
	}
	return &served{w: w, rc: rc, body: r.Body}, nil
}

// served is the machine's end of a stream.
type served struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	body io.ReadCloser

	mu     sync.Mutex
	closed bool
}

func (s *served) Read(p []byte) (int, error) { return s.body.Read(p) }

// Write sends p at once.
func (s *served) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil {
		err = s.rc.Flush()
	}
	return n, err
}

func (s *served) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	// End a write that waits for the other end to read; earlier writes are not affected.
	_ = s.rc.SetWriteDeadline(time.Now().Add(goodbyeTime))
	return s.body.Close()
}

func (s *served) LocalAddr() net.Addr                { return address{} }
func (s *served) RemoteAddr() net.Addr               { return address{} }
func (s *served) SetDeadline(time.Time) error        { return os.ErrNoDeadline }
func (s *served) SetReadDeadline(time.Time) error    { return os.ErrNoDeadline }
func (s *served) SetWriteDeadline(t time.Time) error { return os.ErrNoDeadline }
