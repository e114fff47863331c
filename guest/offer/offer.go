// Package offer passes connections of a sandbox's programs on to its host, which nobody inside can dial: the model gateway and the
// tools. A host requests the next connection ahead of time with a POST that is answered once a program has connected; the bodies
// of the request and of its answer are then the two directions. The first byte of the request confirms that the host is still
// there: without it the connection waits for the next host.
package offer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/proxycopy"
)

const (
	// patience is how long a program's connection waits for a host: a restarting server is back by then, and agents wait longer for
	// an answer.
	patience = 2 * time.Minute
	// takeIn is how long a host that asked may take to confirm a connection: its pipe may be dead.
	takeIn = 15 * time.Second
)

// Config is what a kind of connections needs of its guest.
type Config struct {
	Over <-chan struct{} // closed when the guest ends
	Work *sync.WaitGroup // owns goroutines that outlive their request
	Log  *slog.Logger
}

// queue holds connections of one kind until a host takes them. It judges nothing: the host does.
type queue struct {
	Config
	what     string        // the kind, for the log
	greeting string        // sent to a program once a host has accepted its connection
	next     chan offered  // passes a connection to a waiting host
	slots    chan struct{} // one for each connection

	mu   sync.Mutex
	host string        // the current host, whose streams count
	left chan struct{} // closed when another host replaces it
}

func newQueue(cfg Config, what string, most int) queue {
	return queue{Config: cfg, what: what, next: make(chan offered), slots: make(chan struct{}, most), left: make(chan struct{})}
}

// offered is a connection on its way to a host.
type offered struct {
	conn  proxycopy.Conn
	taken chan bool // reports the result once
}

// accept accepts connections until l is closed, and handles each in a goroutine of its own.
func (q *queue) accept(l net.Listener, handle func(proxycopy.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			q.Log.Warn("connection not accepted", "to", q.what, "error", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors: others may be closed
			continue
		}
		select {
		case q.slots <- struct{}{}:
		default: // a program that floods it must not use up the guest's descriptors
			_ = conn.Close()
			continue
		}
		q.Work.Go(func() { handle(&slotted{Conn: conn.(proxycopy.Conn), slots: q.slots}) })
	}
}

// slotted is a connection that releases its slot when it is closed.
type slotted struct {
	proxycopy.Conn
	once  sync.Once
	slots chan struct{}
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}

// offer waits for a host that confirms the connection, and reports whether one did. A host that disconnects before confirming did
// not accept it. The wait ends with gone, too.
func (q *queue) offer(conn proxycopy.Conn, gone <-chan struct{}) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	for o := (offered{conn, make(chan bool, 1)}); ; {
		select {
		case q.next <- o:
			if <-o.taken {
				return true
			}
		case <-late.C:
			return false
		case <-gone:
			return false
		case <-q.Over:
			return false
		}
	}
}

// of records the current host. The returned channel is closed when another one replaces it.
func (q *queue) of(host string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if host != q.host {
		close(q.left)
		q.host, q.left = host, make(chan struct{})
	}
	return q.left
}

// Handle passes the next connection to the host that requests it. It waits until there is one.
func (q *queue) Handle(w http.ResponseWriter, r *http.Request) error {
	host := r.URL.Query().Get(guest.HostQuery)
	if len(host) > guest.MaxHostName {
		return fault.New(fault.Invalid, "invalid_host", "The name of a host may have at most %d bytes.", guest.MaxHostName)
	}
	left := q.of(host)
	var o offered
	select {
	case o = <-q.next:
	case <-left:
		return ErrCut
	case <-r.Context().Done():
		return nil
	case <-q.Over:
		return ErrCut
	}
	if !q.confirmed(w, r, left) {
		o.taken <- false
		return ErrCut
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
	if _, err := io.WriteString(conn, q.greeting); err != nil {
		return ErrCut
	}
	return Carry(w, r, conn, true)
}

// confirmed reports whether the host confirms the connection it was offered.
func (q *queue) confirmed(w http.ResponseWriter, r *http.Request, left <-chan struct{}) bool {
	if Begin(w) != nil {
		return false
	}
	said := make(chan bool, 1)
	go func() { // ends with the request
		_, err := io.ReadFull(r.Body, make([]byte, 1))
		said <- err == nil
	}()
	late := time.NewTimer(takeIn)
	defer late.Stop()
	select {
	case ok := <-said:
		return ok
	case <-late.C:
	case <-left:
	case <-q.Over:
	}
	return false
}
