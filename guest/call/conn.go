package call

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// pingEvery keeps what is between from closing a quiet connection.
	pingEvery = 15 * time.Second
	// quietCut is how long a connection that is read may be silent although it is pinged: then it is cut.
	quietCut = 50 * time.Second
	// writeWithin is how long one message may take to be taken.
	writeWithin = 30 * time.Second
	// maxMessage is how much one message carries.
	maxMessage = 32 << 10
)

// conn is a WebSocket as a stream of bytes: the contents of binary messages in order. It is read by one goroutine at a time. The host pings; the
// guest, which always reads, notices by that when the host is gone.
type conn struct {
	ws    *websocket.Conn
	rest  io.Reader    // the current message; nil between two
	limit atomic.Int64 // of reading, ns UTC; 0 = none

	mu   sync.Mutex // of what is written
	once sync.Once
	stop chan struct{}
	work sync.WaitGroup
}

func newConn(ws *websocket.Conn) *conn {
	c := &conn{ws: ws, stop: make(chan struct{})}
	ws.SetReadLimit(1 << 20)
	usual := ws.PingHandler()
	ws.SetPingHandler(func(data string) error { c.arm(); return usual(data) })
	ws.SetPongHandler(func(string) error { c.arm(); return nil })
	return c
}

// ping ends with the connection.
func (c *conn) ping() {
	t := time.NewTicker(pingEvery)
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
func (c *conn) arm() {
	at := time.Now().Add(quietCut)
	if ns := c.limit.Load(); ns != 0 && ns < at.UnixNano() {
		at = time.Unix(0, ns)
	}
	_ = c.ws.SetReadDeadline(at)
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		c.arm()
		if c.rest == nil {
			kind, r, err := c.ws.NextReader()
			if err != nil {
				if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
					err = io.EOF
				}
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errors.New("the other end does not speak the guests' protocol")
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

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := 0
	for sent < len(p) {
		n := min(len(p)-sent, maxMessage)
		_ = c.ws.SetWriteDeadline(time.Now().Add(writeWithin))
		if err := c.ws.WriteMessage(websocket.BinaryMessage, p[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// Close cuts the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.stop)
		_ = c.ws.NetConn().Close()
	})
	c.work.Wait()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.ws.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.ws.RemoteAddr() }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline changes nothing: each message has its own bound.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline is for the handshake. A read that was late ends the connection.
func (c *conn) SetReadDeadline(t time.Time) error {
	ns := int64(0)
	if !t.IsZero() {
		ns = t.UnixNano()
	}
	c.limit.Store(ns)
	c.arm()
	return nil
}
