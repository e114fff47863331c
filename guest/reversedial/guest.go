package reversedial

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/locks"
)

const (
	idle     = 4                      // idle connections: a terminal takes two at once
	callSoon = 20 * time.Millisecond  // before the first retry
	callLate = 500 * time.Millisecond // between attempts to reach a missing host
)

// Listener accepts pipes by dialling: Accept returns connections that the guest has dialled and the host has asked for.
type Listener struct {
	path, token string

	ctx    context.Context
	cancel context.CancelFunc
	pipes  chan net.Conn
	turn   locks.Turn // one attempt at a time, so that an absent host is not flooded
	work   sync.WaitGroup
}

// Listen begins to dial the host's unix socket at path. Close ends it.
func Listen(path, token string) *Listener {
	l := &Listener{path: path, token: token, pipes: make(chan net.Conn), turn: locks.NewTurn()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for range idle {
		l.work.Go(l.keep)
	}
	return l
}

// keep holds one idle connection, and replaces it whenever the host has taken it.
func (l *Listener) keep() {
	for l.ctx.Err() == nil {
		conn := l.connect()
		if conn == nil {
			return
		}
		if !l.wanted(conn) {
			_ = conn.Close()
			continue
		}
		select {
		case l.pipes <- conn:
		case <-l.ctx.Done():
			_ = conn.Close()
			return
		}
	}
}

// connect dials until a host that knows the token answers; nil when the Listener is closed.
func (l *Listener) connect() net.Conn {
	unlock, err := l.turn.Lock(l.ctx)
	if err != nil {
		return nil
	}
	defer unlock()
	for wait := callSoon; ; wait = min(2*wait, callLate) {
		conn, err := new(net.Dialer).DialContext(l.ctx, "unix", l.path)
		if err == nil {
			stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
			err = introduce(conn, l.token, asGuest)
			stop()
			if err == nil {
				return conn
			}
			_ = conn.Close()
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-l.ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// wanted waits until the host asks for the connection; false when the host has gone.
func (l *Listener) wanted(conn net.Conn) bool {
	stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
	defer stop()
	var b [1]byte
	_, err := io.ReadFull(conn, b[:])
	return err == nil && b[0] == goAhead && l.ctx.Err() == nil
}

// Accept returns the next pipe the host wants.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.pipes:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops the dialling; accepted pipes continue.
func (l *Listener) Close() error {
	if l.ctx.Err() != nil {
		return errors.New("already closed")
	}
	l.cancel()
	l.work.Wait()
	return nil
}

// Addr is the host's socket.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
