// Package wsstream makes a WebSocket a stream of bytes that notices when the other end is gone.
package wsstream

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Config is how a stream treats its WebSocket.
type Config struct {
	// Ping is how often the other end is pinged, which keeps what is between from closing a quiet connection; 0 = the other end pings.
	Ping time.Duration
	// Quiet is how long a connection that is read may be silent although it is pinged: then it is cut.
	Quiet time.Duration
	// Piece is how many bytes one message carries.
	Piece int
	// Limit bounds a message that is received, in bytes.
	Limit int64
}

// writeWithin is how long one message may take to be taken.
const writeWithin = 30 * time.Second

// Conn is the contents of binary messages in order. It is read by one goroutine at a time, by Read or by Next.
type Conn struct {
	ws    *websocket.Conn
	cfg   Config
	rest  io.Reader    // the current message; nil between two
	limit atomic.Int64 // of reading, ns UTC; 0 = none

	mu   sync.Mutex // of what is written
	once sync.Once
	stop chan struct{}
	work sync.WaitGroup
}

// New takes over a WebSocket.
func New(ws *websocket.Conn, cfg Config) *Conn {
	c := &Conn{ws: ws, cfg: cfg, stop: make(chan struct{})}
	ws.SetReadLimit(cfg.Limit)
	usual := ws.PingHandler()
	ws.SetPingHandler(func(data string) error { c.arm(); return usual(data) })
	ws.SetPongHandler(func(string) error { c.arm(); return nil })
	if cfg.Ping > 0 {
		c.work.Go(c.ping)
	}
	return c
}

// ping ends with the connection.
func (c *Conn) ping() {
	t := time.NewTicker(c.cfg.Ping)
	defer t.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
			if err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeWithin)); err != nil {
				_ = c.ws.NetConn().Close()
				return
			}
		}
	}
}

// arm lets the connection be silent for a while from now.
func (c *Conn) arm() {
	at := time.Now().Add(c.cfg.Quiet)
	if ns := c.limit.Load(); ns != 0 && ns < at.UnixNano() {
		at = time.Unix(0, ns)
	}
	_ = c.ws.SetReadDeadline(at)
}

// Next returns the next message: websocket.BinaryMessage or TextMessage. The one before is over then. The error is io.EOF when the other end
// has closed the connection in order.
func (c *Conn) Next() (kind int, message io.Reader, err error) {
	c.arm()
	kind, message, err = c.ws.NextReader()
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
		err = io.EOF
	}
	return kind, message, err
}

func (c *Conn) Read(p []byte) (int, error) {
	for {
		c.arm()
		if c.rest == nil {
			kind, r, err := c.Next()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the other end does not speak this protocol")
			}
			c.rest = r
		}
		n, err := c.rest.Read(p)
		if errors.Is(err, io.EOF) {
			c.rest, err = nil, nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, c.cfg.Piece)
		if err := c.send(websocket.BinaryMessage, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// WriteText sends a text message.
func (c *Conn) WriteText(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(websocket.TextMessage, text)
}

func (c *Conn) send(kind int, b []byte) error {
	_ = c.ws.SetWriteDeadline(time.Now().Add(writeWithin))
	return c.ws.WriteMessage(kind, b)
}

// Close cuts the connection.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.stop)
		_ = c.ws.NetConn().Close()
	})
	c.work.Wait()
	return nil
}

// LocalAddr is this end's.
func (c *Conn) LocalAddr() net.Addr { return c.ws.LocalAddr() }

// RemoteAddr is the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.ws.RemoteAddr() }

// SetDeadline is SetReadDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline changes nothing: each message has its own bound.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline is for a handshake: a read that was late ends the connection.
func (c *Conn) SetReadDeadline(t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	c.limit.Store(ns)
	c.arm()
	return nil
}
