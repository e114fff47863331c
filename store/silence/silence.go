// Package silence ends the wait for a PostgreSQL server that accepts connections but no longer answers, such as one whose processes are
// stopped.
//
// It does not cut a slow statement: when the server is silent on one connection, the package asks it on another one, and the statement
// continues if the server answers there.
package silence

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/parawork/parawork/internal/locks"
)

// ErrSilent says that the server did not answer within the bounds.
var ErrSilent = errors.New("the database server accepts connections and does not answer")

// Bounds of waiting.
const (
	DefaultPatience = 5 * time.Second  // how long a server may be silent before it is asked on another connection
	DefaultAnswer   = 10 * time.Second // how long it has to answer there
)

// Guard watches the connections to one server. Safe for concurrent use.
type Guard struct {
	patience, answer time.Duration

	connect func(ctx context.Context) error // makes a connection and closes it
	turn    locks.Turn                      // who has it asks
	askedAt time.Time                       // under turn
	silent  atomic.Bool                     // what was found then

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Watch has a Guard watch every connection made with cfg.
func Watch(cfg *pgx.ConnConfig, patience, answer time.Duration) *Guard {
	g := &Guard{patience: patience, answer: answer, turn: locks.NewTurn(), conns: make(map[*conn]struct{})}
	plain := cfg.Config.Copy()
	g.connect = func(ctx context.Context) error {
		c, err := pgconn.ConnectConfig(ctx, plain)
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if g.silent.Load() && !g.answers(ctx) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: ErrSilent}
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		out := &conn{Conn: c, guard: g}
		g.mu.Lock()
		g.conns[out] = struct{}{}
		g.mu.Unlock()
		return out, nil
	}
	return g
}

// answers asks the server whether it answers, unless that was asked just now. It waits for others who ask; true when ctx ends first.
func (g *Guard) answers(ctx context.Context) bool {
	unlock, err := g.turn.Lock(ctx)
	if err != nil {
		return true
	}
	defer unlock()
	if time.Since(g.askedAt) < g.patience {
		return !g.silent.Load()
	}
	ask, cancel := context.WithTimeout(ctx, g.answer)
	defer cancel()
	err = g.connect(ask)
	if ctx.Err() != nil {
		return true // nobody waits any more
	}
	_, refused := errors.AsType[*pgconn.PgError](err) // a refusal is an answer
	silent := err != nil && !refused
	g.askedAt = time.Now()
	g.silent.Store(silent)
	if silent {
		g.dropIdle()
	}
	return !silent
}

// dropIdle closes the connections nothing is under way on, so that nobody begins to wait on them.
func (g *Guard) dropIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if !c.reading.Load() {
			c.cut()
		}
	}
}

// conn is a connection whose reads end when the server has become silent.
type conn struct {
	net.Conn
	guard   *Guard
	reading atomic.Bool
	wasCut  atomic.Bool
}

// Read waits for the server. One that is silent for too long, also elsewhere, ends the connection.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	ctx, over := context.WithCancel(context.Background())
	asked := make(chan struct{})
	ask := time.AfterFunc(c.guard.patience, func() { defer close(asked); c.ask(ctx) })
	n, err := c.Conn.Read(p)
	over()
	if !ask.Stop() {
		<-asked
	}
	if err != nil && c.wasCut.Load() {
		err = &net.OpError{Op: "read", Net: "tcp", Err: ErrSilent}
	}
	return n, err
}

// ask cuts the connection once the server answers nobody; until ctx ends.
func (c *conn) ask(ctx context.Context) {
	for ctx.Err() == nil {
		if !c.guard.answers(ctx) {
			c.cut()
			return
		}
		again := time.NewTimer(c.guard.patience)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

func (c *conn) cut() {
	c.wasCut.Store(true)
	_ = c.Conn.Close() // the read says why
}

// Close ends the connection.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	delete(c.guard.conns, c)
	c.guard.mu.Unlock()
	return c.Conn.Close()
}
