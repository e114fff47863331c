package reversedial

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	mostReady   = 16 // idle connections of one guest
	mostPending = 16 // callers that have not proved who they are yet
)

// ErrClosed reports that the listener was closed: by its owner, or because another host took over.
var ErrClosed = errors.New("the listener for the sandbox was closed")

// Acceptor is the host's end, to which the guest connects.
type Acceptor struct {
	l     net.Listener
	token string

	ready   chan net.Conn
	pending chan struct{}
	closed  chan struct{}
	once    sync.Once
	work    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // those that have not proved who they are yet
}

// Open begins to listen for the guest that knows token. Close ends it, and closes l. Without l, callers are only handed in: see Take.
func Open(l net.Listener, token string) *Acceptor {
	d := &Acceptor{l: l, token: token, ready: make(chan net.Conn, mostReady), pending: make(chan struct{}, mostPending),
		closed: make(chan struct{}), conns: make(map[net.Conn]bool)}
	if l != nil {
		d.work.Go(d.accept)
	}
	return d
}

// Take hands in a caller whom another has accepted, and returns when it is known who it is. A caller that does not prove to be the guest is
// disconnected, which is the error.
func (d *Acceptor) Take(conn net.Conn) error {
	select {
	case d.pending <- struct{}{}:
	default:
		_ = conn.Close()
		return errors.New("too many callers have not proved yet who they are")
	}
	defer func() { <-d.pending }()
	if !d.hold(conn) {
		return ErrClosed
	}
	return d.greet(conn)
}

func (d *Acceptor) accept() {
	for {
		// Free a slot before accepting the next caller: under a flood of calls the others wait in the listen queue.
		select {
		case d.pending <- struct{}{}:
		case <-d.closed:
			return
		}
		conn, err := d.l.Accept()
		if err != nil {
			<-d.pending
			if d.isClosed() || errors.Is(err, net.ErrClosed) {
				d.shut()
				return
			}
			t := time.NewTimer(callSoon) // perhaps out of descriptors
			select {
			case <-t.C:
			case <-d.closed:
				t.Stop()
			}
			continue
		}
		if !d.hold(conn) {
			<-d.pending
			return
		}
		d.work.Go(func() {
			defer func() { <-d.pending }()
			_ = d.greet(conn)
		})
	}
}

// hold tracks a connection until it is released; false when the listener is closed.
func (d *Acceptor) hold(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed() {
		_ = conn.Close()
		return false
	}
	d.conns[conn] = true
	return true
}

func (d *Acceptor) letGo(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn)
}

// greet performs the handshake with a caller.
func (d *Acceptor) greet(conn net.Conn) error {
	defer d.letGo(conn)
	role, err := receive(conn, d.token)
	switch {
	case err != nil:
		_ = conn.Close()
		return err
	case role == asNextHost:
		d.shut()
		_ = conn.Close() // tells the successor that it may listen
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed() {
		_ = conn.Close()
		return ErrClosed
	}
	for {
		select {
		case d.ready <- conn:
			return nil
		default: // more than it can need: the oldest may have been cut without a word
		}
		select {
		case old := <-d.ready:
			_ = old.Close()
		default:
		}
	}
}

// Dial takes a connection of the guest, and waits for one when there is none.
func (d *Acceptor) Dial(ctx context.Context) (net.Conn, error) {
	for {
		select {
		case conn := <-d.ready:
			if _, err := conn.Write([]byte{goAhead}); err != nil {
				_ = conn.Close() // of a guest that has ended
				continue
			}
			return conn, nil
		case <-d.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Closed reports whether the listener was closed.
func (d *Acceptor) Closed() bool { return d.isClosed() }

func (d *Acceptor) isClosed() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

// shut accepts nobody any more and disconnects idle callers. Pipes in use continue.
func (d *Acceptor) shut() {
	d.once.Do(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		close(d.closed)
		if d.l != nil {
			_ = d.l.Close()
		}
		for {
			select {
			case conn := <-d.ready:
				_ = conn.Close()
				continue
			default:
			}
			break
		}
	})
}

// Close closes the listener. Pipes in use continue.
func (d *Acceptor) Close() {
	d.shut()
	d.mu.Lock()
	for conn := range d.conns {
		_ = conn.Close()
	}
	d.mu.Unlock()
	d.work.Wait()
}
