package offer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

// helloIn is how long a program may take to send its first line.
const helloIn = 5 * time.Second

// Tools offers connections of the sandbox's programs to the server's tools.
type Tools struct {
	queue
	l       net.Listener // nil: there is none
	process func(token string) (id string, ok bool)

	mu   sync.Mutex
	open map[*toolConn]bool
}

// NewTools accepts connections at l, which may be nil. process finds the process that a token belongs to.
func NewTools(cfg Config, l net.Listener, process func(token string) (id string, ok bool)) *Tools {
	t := &Tools{queue: newQueue(cfg, "the tools", guest.MaxToolConns), l: l, process: process, open: map[*toolConn]bool{}}
	t.greeting = guest.ToolGreeting
	return t
}

// Address is the path of the socket, "" where there is none.
func (t *Tools) Address() string {
	if t.l == nil {
		return ""
	}
	return t.l.Addr().String()
}

// Serve accepts connections until Close.
func (t *Tools) Serve() {
	if t.l == nil {
		return
	}
	t.accept(t.l, func(raw proxycopy.Conn) {
		conn := t.admit(raw)
		if conn == nil {
			_ = raw.Close()
			return
		}
		if !t.offer(conn, conn.gone) {
			_ = conn.Close()
		}
	})
}

// Close accepts no more connections.
func (t *Tools) Close() {
	if t.l != nil {
		_ = t.l.Close()
	}
}

// Cut closes the connections of a process that has ended, whose token is no longer valid.
func (t *Tools) Cut(process string) {
	t.mu.Lock()
	var cut []*toolConn
	for c := range t.open {
		if c.process == process {
			cut = append(cut, c)
		}
	}
	t.mu.Unlock()
	for _, c := range cut {
		_ = c.Close()
	}
}

var errNoTools = fault.New(fault.Unsupported, "tools_unsupported", "This sandbox does not offer its programs the tools.")

// Handle passes the next connection to the host that requests it. It waits until there is one.
func (t *Tools) Handle(w http.ResponseWriter, r *http.Request) error {
	if t.l == nil {
		return errNoTools
	}
	return t.queue.Handle(w, r)
}

// toolConn is a connection whose program is known. The host reads its opening first.
type toolConn struct {
	proxycopy.Conn
	t       *Tools
	process string
	from    io.Reader
	once    sync.Once
	gone    chan struct{} // closed when it was closed
}

func (c *toolConn) Read(p []byte) (int, error) { return c.from.Read(p) }

func (c *toolConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		close(c.gone)
		c.t.mu.Lock()
		delete(c.t.open, c)
		c.t.mu.Unlock()
	})
	return err
}

// admit reads the first line of a program; nil for one that is not admitted.
func (t *Tools) admit(raw proxycopy.Conn) *toolConn {
	_ = raw.SetReadDeadline(time.Now().Add(helloIn))
	from := bufio.NewReaderSize(raw, guest.MaxToolHello)
	line, err := from.ReadSlice('\n')
	if err != nil {
		return nil
	}
	var hello guest.ToolHello
	if json.Unmarshal(line, &hello) != nil || !hello.Use.Known() {
		return nil
	}
	process, ok := t.process(hello.Token)
	if !ok {
		return nil
	}
	opening, err := json.Marshal(guest.ToolOpening{Process: process, Use: hello.Use})
	if err != nil {
		return nil
	}
	_ = raw.SetReadDeadline(time.Time{})
	c := &toolConn{Conn: raw, t: t, process: process, from: io.MultiReader(bytes.NewReader(append(opening, '\n')), from), gone: make(chan struct{})}
	t.mu.Lock()
	t.open[c] = true
	t.mu.Unlock()
	if _, ok := t.process(hello.Token); !ok { // it has ended meanwhile: Cut may not have found the connection
		_ = c.Close()
		return nil
	}
	return c
}
