// Package offered accepts the connections that programs of a sandbox open to services of the server: their guest offers them, and the
// server asks it for the next ones, as long as a session runs there that uses the service.
//
// Goroutines: each open Listener has one that serves it and a few that ask the guest; they run on the sessions' service and end with
// the last session of the sandbox. Locks: Listeners.mu, briefly; none is held during a call to another party.
package offered

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// ahead is how many connections are requested of a guest ahead of time.
const ahead = 2

// Config configures Listeners.
type Config struct {
	Service string // what the connections lead to, for the log
	Most    int    // connections of one sandbox, open at once: a guest may offer more than it should
	// Accept waits for the next connection of a guest. host names this run of the server. Errors: fault.Unsupported or
	// fault.NotFound of a guest that offers none.
	Accept func(ctx context.Context, g *client.Client, host string) (net.Conn, error)
	// Serve serves a sandbox's connections until l is closed.
	Serve func(l *Listener)
	// Live returns the sandbox of a workspace, false when none runs.
	Live func(workspaceID string) (*executors.Place, bool)
	// Run runs fn in a goroutine for which its owner waits; false when the owner has ended.
	Run func(fn func()) bool
	// Context bounds the life of listeners.
	Context context.Context
	Log     *slog.Logger
}

// Listeners are the listeners of all sandboxes. Safe for concurrent use.
type Listeners struct {
	cfg Config

	mu  sync.Mutex
	all map[string]*Listener // by sandbox
}

// New returns Listeners. It starts nothing.
func New(cfg Config) *Listeners { return &Listeners{cfg: cfg, all: map[string]*Listener{}} }

// Listener accepts the connections of the programs of one sandbox.
type Listener struct {
	SandboxID string

	all         *Listeners
	workspaceID string
	cancel      context.CancelFunc
	refs        int // guarded by all.mu

	conns chan net.Conn
	ctx   context.Context
	slots chan struct{} // a slot for each connection
}

// Open opens the listener of a sandbox for one more session, or adds a reference to the open one.
func (s *Listeners) Open(workspaceID, sandboxID string) *Listener {
	s.mu.Lock()
	l := s.all[sandboxID]
	fresh := l == nil
	if fresh {
		l = &Listener{SandboxID: sandboxID, all: s, workspaceID: workspaceID, conns: make(chan net.Conn), slots: make(chan struct{}, s.cfg.Most)}
		l.ctx, l.cancel = context.WithCancel(s.cfg.Context)
		s.all[sandboxID] = l
	}
	l.refs++
	s.mu.Unlock()
	if fresh && !s.cfg.Run(l.run) {
		l.cancel()
	}
	return l
}

// Release drops a reference. The last session of the sandbox closes the listener.
func (l *Listener) Release() {
	if l == nil {
		return
	}
	s := l.all
	s.mu.Lock()
	l.refs--
	last := l.refs == 0
	if last && s.all[l.SandboxID] == l {
		delete(s.all, l.SandboxID)
	}
	s.mu.Unlock()
	if last {
		l.cancel()
	}
}

// Context ends when the listener is closed.
func (l *Listener) Context() context.Context { return l.ctx }

// run serves until the listener is closed.
func (l *Listener) run() {
	var all sync.WaitGroup
	for range ahead {
		all.Go(l.ask)
	}
	l.all.cfg.Serve(l)
	all.Wait()
}

// Accept waits for a connection from the guest. It returns a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the sessions that use the listener close it.
func (l *Listener) Close() error { return nil }

// Addr is not a real address: nobody dials it.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.all.cfg.Service, Net: "sandbox"} }

// thisServer names this run of the server to guests.
var thisServer = rand.Text()

// ask asks the guest for connections, again after each cut. It ends when the guest supports none.
func (l *Listener) ask() {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if p, ok := l.all.cfg.Live(l.workspaceID); ok && p.SandboxID == l.SandboxID {
			if p.Asleep() {
				select {
				case <-p.Awake():
				case <-p.Done():
				case <-l.ctx.Done():
					return
				}
			}
			began := time.Now()
			err := l.take(p.Guest)
			if l.ctx.Err() != nil {
				return
			}
			if kind := fault.KindOf(err); kind == fault.Unsupported || kind == fault.NotFound {
				l.all.cfg.Log.Warn("sandbox offers its programs no connections to a service of the server", "service", l.all.cfg.Service, "sandbox_id", l.SandboxID, "error", err)
				return
			}
			if time.Since(began) > 5*time.Second {
				wait = 50 * time.Millisecond
			}
		}
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			return
		}
	}
}

// take takes connections from the guest until there is an error.
func (l *Listener) take(g *client.Client) error {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
		conn, err := l.all.cfg.Accept(l.ctx, g, thisServer)
		if err != nil {
			<-l.slots
			return err
		}
		select {
		case l.conns <- &Conn{Conn: conn, free: func() { <-l.slots }}:
		case <-l.ctx.Done():
			_ = conn.Close()
			<-l.slots
			return l.ctx.Err()
		}
	}
}

// Conn is an accepted connection. It releases its slot when it is closed.
type Conn struct {
	net.Conn // as Config.Accept returned it
	once     sync.Once
	free     func()
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}

var _ net.Listener = (*Listener)(nil)
