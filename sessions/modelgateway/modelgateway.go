// Package modelgateway lets the agents in a sandbox reach the model gateway: instead of an account's key an agent has a token of
// its session, and the guest passes its connections to a listener of the server, which accepts a token only from the sandbox its
// session runs in.
//
// Goroutines: each open listener has one that serves it and a few that ask the guest for connections; they run on the sessions'
// service and end with the last session of the sandbox. Locks: Listeners.mu, briefly; none is held during a call to another
// party.
package modelgateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// Config configures Listeners. Without Gateway no session uses one.
type Config struct {
	Gateway Gateway
	Agents  *agents.Registry
	// Live returns the sandbox of a workspace, false when none runs.
	Live func(workspaceID string) (*executors.Place, bool)
	// Run runs fn in a goroutine for which its owner waits; false when the owner has ended.
	Run func(fn func()) bool
	// Context bounds the life of listeners.
	Context     context.Context
	EndPatience time.Duration // how long ending a token may take
	Log         *slog.Logger
}

// Listeners are the listeners of all sandboxes. Safe for concurrent use.
type Listeners struct {
	cfg Config

	mu        sync.Mutex
	listeners map[string]*Listener // by sandbox
	tokens    map[[32]byte]string  // by sha256 of the token: the sandbox in which it is valid
}

// New returns Listeners. It starts nothing.
func New(cfg Config) *Listeners {
	return &Listeners{cfg: cfg, listeners: map[string]*Listener{}, tokens: map[[32]byte]string{}}
}

// Gateway is what listeners need of the model gateway: a token for each session whose agent uses it, and a handler for the
// requests.
type Gateway interface {
	// Mint returns the token that a session's agent presents instead of its account's key: always the same for a session.
	Mint(ctx context.Context, sessionID, teamID string) (token string, err error)
	// End revokes a session's token.
	End(ctx context.Context, sessionID string) error
	Handler() http.Handler
}

// Bounds of what a sandbox may request of the gateway.
const (
	askers     = 2                // connections requested ahead of time
	maxHead    = 64 << 10         // bytes of a request's head
	headWithin = 30 * time.Second // for it to come
	idleWithin = 10 * time.Minute // longer than agents keep an idle connection
	maxToken   = 512              // bytes of what may be a token
)

// Route replaces the key in the account of a session that is about to start by a token, if its agent can use the model gateway.
func (s *Listeners) Route(ctx context.Context, place *executors.Place, sessionID, teamID, agent string, a agents.Account) (agents.Account, error) {
	if s.cfg.Gateway == nil {
		return a, nil
	}
	api := s.cfg.Agents.Dialect(agent, a)
	if api == "" {
		return a, nil
	}
	if place.Hello.Gateway == 0 {
		return a, fault.New(fault.Conflict, "gateway_not_in_sandbox",
			"The sandbox was created by an older version and cannot reach the model gateway, and account keys are no longer given to sandboxes. Destroy the sandbox: the next one can reach it.").
			With("sandbox_id", place.SandboxID)
	}
	token, err := s.cfg.Gateway.Mint(ctx, sessionID, teamID)
	if err != nil {
		return a, err
	}
	a.Gateway = &agents.Gateway{URL: "http://127.0.0.1:" + strconv.Itoa(place.Hello.Gateway), Token: token, API: api}
	a.Secret, a.BaseURL = "", ""
	return a, nil
}

// Admit records in which sandbox a session's token is valid. At a start this is done for all sessions before any listener opens:
// a request made while the server was down must not be rejected because its session is reconnected a moment later.
func (s *Listeners) Admit(token, sandboxID string) {
	if token == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[sha256.Sum256([]byte(token))] = sandboxID
}

// End revokes the token of a session that has ended or never started.
func (s *Listeners) End(ctx context.Context, sessionID, token string) {
	if token == "" || s.cfg.Gateway == nil {
		return
	}
	s.mu.Lock()
	delete(s.tokens, sha256.Sum256([]byte(token)))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.EndPatience)
	defer cancel()
	if err := s.cfg.Gateway.End(ctx, sessionID); err != nil { // no listener admits it any more in any case
		s.cfg.Log.Warn("token of an ended session could not be revoked", "session_id", sessionID, "error", err)
	}
}

// Listener answers requests of the programs of one sandbox to the model gateway, as long as a session that uses it runs there.
type Listener struct {
	all                    *Listeners
	workspaceID, sandboxID string
	cancel                 context.CancelFunc
	refs                   int // guarded by all.mu

	conns chan net.Conn
	ctx   context.Context
	slots chan struct{} // a slot for each connection: a guest may pass more than it should
}

// Open lets the agents of a sandbox reach the gateway. The caller calls Release when its session has ended. It returns nil, on
// which Release may be called, where the session does not use the gateway.
func (s *Listeners) Open(workspaceID, sandboxID, token string) *Listener {
	if s.cfg.Gateway == nil || token == "" {
		return nil
	}
	s.mu.Lock()
	d := s.listeners[sandboxID]
	fresh := d == nil
	if fresh {
		d = &Listener{all: s, workspaceID: workspaceID, sandboxID: sandboxID, conns: make(chan net.Conn), slots: make(chan struct{}, guest.MaxGatewayConns)}
		d.ctx, d.cancel = context.WithCancel(s.cfg.Context)
		s.listeners[sandboxID] = d
	}
	d.refs++
	s.mu.Unlock()
	if fresh && !s.cfg.Run(d.run) {
		d.cancel()
	}
	return d
}

// Release drops a reference. The last session of the sandbox closes the listener.
func (d *Listener) Release() {
	if d == nil {
		return
	}
	s := d.all
	s.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last && s.listeners[d.sandboxID] == d {
		delete(s.listeners, d.sandboxID)
	}
	s.mu.Unlock()
	if last {
		d.cancel()
	}
}

// run serves until the listener is closed.
func (d *Listener) run() {
	srv := &http.Server{
		Handler: d, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(d.all.cfg.Log.Handler(), slog.LevelDebug),
	}
	var all sync.WaitGroup
	for range askers {
		all.Go(d.ask)
	}
	all.Go(func() {
		<-d.ctx.Done()
		_ = srv.Close()
	})
	_ = srv.Serve(d) // ends with ctx
	all.Wait()
}

// Accept waits for a connection from the guest.
func (d *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the context ends the listener.
func (d *Listener) Close() error { return nil }

// Addr is not a real address: nobody dials it.
func (d *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "gateway", Net: "sandbox"} }

// thisServer names this run of the server to guests.
var thisServer = rand.Text()

// ask asks the guest for connections, again after each cut. It ends when the guest supports none.
func (d *Listener) ask() {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if p, ok := d.all.cfg.Live(d.workspaceID); ok && p.SandboxID == d.sandboxID {
			if p.Asleep() {
				select {
				case <-p.Awake():
				case <-p.Done():
				case <-d.ctx.Done():
					return
				}
			}
			began := time.Now()
			err := d.take(p.Guest)
			if d.ctx.Err() != nil {
				return
			}
			if kind := fault.KindOf(err); kind == fault.Unsupported || kind == fault.NotFound {
				d.all.cfg.Log.Warn("sandbox does not support the model gateway", "sandbox_id", d.sandboxID, "error", err)
				return
			}
			if time.Since(began) > 5*time.Second {
				wait = 50 * time.Millisecond
			}
		}
		select {
		case <-time.After(wait):
		case <-d.ctx.Done():
			return
		}
	}
}

// take takes connections from the guest until there is an error.
func (d *Listener) take(g *client.Client) error {
	for {
		select {
		case d.slots <- struct{}{}:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
		conn, err := g.AcceptGateway(d.ctx, thisServer)
		if err != nil {
			<-d.slots
			return err
		}
		select {
		case d.conns <- &slotConn{Conn: conn, free: func() { <-d.slots }}:
		case <-d.ctx.Done():
			_ = conn.Close()
			<-d.slots
			return d.ctx.Err()
		}
	}
}

// slotConn releases its slot when it is closed.
type slotConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}

// ServeHTTP admits the token of a session that runs in this very sandbox. It rejects any other token, without asking the gateway,
// with an error in the format of the requested API.
func (d *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || len(r.Header["Authorization"]) > 1 || !d.knows(bearer) {
		r.Header.Del("Authorization")
	}
	if len(r.Header["X-Api-Key"]) > 1 || !d.knows(r.Header.Get("X-Api-Key")) {
		r.Header.Del("X-Api-Key")
	}
	d.all.cfg.Gateway.Handler().ServeHTTP(w, r)
}

func (d *Listener) knows(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	return d.all.tokens[sha256.Sum256([]byte(token))] == d.sandboxID
}

var _ net.Listener = (*Listener)(nil)
