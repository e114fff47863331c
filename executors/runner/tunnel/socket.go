package tunnel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// buffers are those of WebSocket frames, needed only during a write: idle connections hold none.
var buffers sync.Pool

// socket makes a WebSocket a byte stream: the contents of binary messages in order. One reader and one writer at a time.
type socket struct {
	ws   *websocket.Conn
	read io.Reader // the current message, nil between two

	out      io.WriteCloser // the message being gathered, nil when writes go out at once
	deadline atomic.Int64   // of writes, ns UTC; 0 = none
}

func newSocket(ws *websocket.Conn) *socket {
	ws.SetReadLimit(socketFrame)
	ws.EnableWriteCompression(false)
	return &socket{ws: ws}
}

func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.read == nil {
			kind, r, err := s.ws.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the other end does not speak our protocol")
			}
			s.read = r
		}
		n, err := s.read.Read(p)
		if errors.Is(err, io.EOF) {
			s.read, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends p as a message, or adds it to the one being gathered.
func (s *socket) Write(p []byte) (int, error) {
	if s.out != nil {
		return s.out.Write(p)
	}
	s.arm()
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *socket) arm() {
	var at time.Time
	if ns := s.deadline.Load(); ns != 0 {
		at = time.Unix(0, ns)
	}
	_ = s.ws.SetWriteDeadline(at)
}

// gather combines writes until send into one message.
func (s *socket) gather() error {
	s.arm()
	var err error
	s.out, err = s.ws.NextWriter(websocket.BinaryMessage)
	return err
}

func (s *socket) send() error {
	out := s.out
	s.out = nil
	return out.Close()
}

func (s *socket) Close() error                      { return s.ws.NetConn().Close() }
func (s *socket) LocalAddr() net.Addr               { return s.ws.LocalAddr() }
func (s *socket) RemoteAddr() net.Addr              { return s.ws.RemoteAddr() }
func (s *socket) SetReadDeadline(t time.Time) error { return s.ws.SetReadDeadline(t) }

func (s *socket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetWriteDeadline is for writes that begin later.
func (s *socket) SetWriteDeadline(t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	s.deadline.Store(ns)
	return nil
}

// conn is the authenticated connection: TLS over a socket. Each write leaves as one WebSocket message, whatever the number of TLS records.
// It records how it ended.
type conn struct {
	net.Conn
	under  *socket
	timing Timing
	log    *slog.Logger

	write sync.Mutex
	last  atomic.Int64 // ns UTC, when something was last read

	once sync.Once
	done chan struct{}

	mu    sync.Mutex
	cause error // the first error of reading or writing before it was closed on this side
	bye   *bye  // the reason given by the other end, or by this one
}

func newConn(inner net.Conn, under *socket, timing Timing, log *slog.Logger) *conn {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	c := &conn{Conn: inner, under: under, timing: timing.or(), log: log, done: make(chan struct{})}
	c.last.Store(time.Now().UnixNano())
	return c
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.last.Store(time.Now().UnixNano())
	}
	if err != nil {
		c.failed(err)
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.under.gather()
	n := 0
	if err == nil {
		n, err = c.Conn.Write(p)
		if serr := c.under.send(); err == nil {
			err = serr
		}
	}
	if err != nil {
		c.failed(fmt.Errorf("writing: %w", err))
	}
	return n, err
}

func (c *conn) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	select {
	case <-c.done:
	default:
		c.cause = err
	}
}

// Close cuts the connection at once: the inner TLS sends no close message, which could wait for a dead network.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.under.Close()
}

// quiet returns how long nothing has been read.
func (c *conn) quiet() time.Duration {
	return time.Since(time.Unix(0, c.last.Load()))
}
