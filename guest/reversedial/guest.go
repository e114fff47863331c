package reversedial

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
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

// Calls says how a guest calls its host.
type Calls struct {
	Dial  func(context.Context) (net.Conn, error)
	Token string
	Idle  int           // connections that wait until the host wants one
	Late  time.Duration // the longest time between two attempts to reach a host
	Said  func(error)   // how each attempt ended, nil = well; optional
	Addr  net.Addr
}

// Listener accepts pipes by dialling: Accept returns connections that the guest has dialled and the host has asked for.
type Listener struct {
	calls Calls

	ctx    context.Context
	cancel context.CancelFunc
	pipes  chan net.Conn
	turn   locks.Turn // one attempt at a time, so that an absent host is not flooded
	work   sync.WaitGroup
}

// Listen begins to dial the host's unix socket at path. Close ends it.
func Listen(path, token string) *Listener {
	return Call(Calls{Token: token, Idle: idle, Late: callLate, Addr: &net.UnixAddr{Name: path, Net: "unix"},
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }})
}

// Call begins to dial the host. Close ends it.
func Call(c Calls) *Listener {
	if c.Said == nil {
		c.Said = func(error) {}
	}
	l := &Listener{calls: c, pipes: make(chan net.Conn), turn: locks.NewTurn()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for range c.Idle {
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
	for wait := callSoon; ; wait = min(2*wait, l.calls.Late) {
		conn, err := l.calls.Dial(l.ctx)
		if err == nil {
			stop := context.AfterFunc(l.ctx, func() { _ = conn.Close() })
			err = introduce(conn, l.calls.Token, asGuest)
			stop()
			if err != nil {
				_ = conn.Close()
			}
		}
		if l.calls.Said(err); err == nil {
			return conn
		}
		// A part of it is random, so that all guests of a host that was started again do not call at once.
		t := time.NewTimer(wait/2 + rand.N(wait/2+1))
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

// Addr is where the host is.
func (l *Listener) Addr() net.Addr { return l.calls.Addr }
