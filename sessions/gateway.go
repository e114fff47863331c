package sessions

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

// Gateway is what the room needs of the model gateway: a token for each session whose agent goes through it, and who answers what comes
// from there.
type Gateway interface {
	// Mint returns what a session's agent shows in place of its account's key: always the same for a session.
	Mint(ctx context.Context, sessionID, teamID string) (token string, err error)
	// End makes a session's token worth nothing.
	End(ctx context.Context, sessionID string) error
	Handler() http.Handler
}

// Bounds of what a sandbox may ask of the gateway.
const (
	gatewayAskers   = 2                // connections asked for ahead of time
	gatewayHead     = 64 << 10         // bytes of a request's head
	gatewayHeadIn   = 30 * time.Second // for it to come
	gatewayIdle     = 10 * time.Minute // longer than agents keep a connection they do not use
	gatewayTokenMax = 512              // bytes of what is looked at as a token
)

// throughGateway leads the account of a session that is about to start past the model gateway, where its agent can be.
func (s *Service) throughGateway(ctx context.Context, place *executors.Place, row Session, a agents.Account) (agents.Account, error) {
	if s.cfg.Gateway == nil {
		return a, nil
	}
	api := s.cfg.Agents.Dialect(row.Agent, a)
	if api == "" {
		return a, nil
	}
	if place.Hello.Gateway == 0 {
		return a, fault.New(fault.Conflict, "gateway_not_in_sandbox",
			"The sandbox was made by an older version and has no way to the model gateway; an account's key does not go into sandboxes any more. Destroy the sandbox: the next one has it.").
			With("sandbox_id", place.SandboxID)
	}
	token, err := s.cfg.Gateway.Mint(ctx, row.ID, row.TeamID)
	if err != nil {
		return a, err
	}
	a.Gateway = &agents.Gateway{URL: "http://127.0.0.1:" + strconv.Itoa(place.Hello.Gateway), Token: token, API: api}
	a.Secret, a.BaseURL = "", ""
	return a, nil
}

// letIn notes in which sandbox a session's token is good. At a start it is noted for all sessions before any door is opened: what was asked
// while the server was away must not be refused because its session is taken up a moment later.
func (s *Service) letIn(token, sandboxID string) {
	if token == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shows[sha256.Sum256([]byte(token))] = sandboxID
}

// endGateway makes the token of a session that has ended, or never was, worth nothing.
func (s *Service) endGateway(ctx context.Context, id, token string) {
	if token == "" || s.cfg.Gateway == nil {
		return
	}
	s.mu.Lock()
	delete(s.shows, sha256.Sum256([]byte(token)))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.EndPatience)
	defer cancel()
	if err := s.cfg.Gateway.End(ctx, id); err != nil { // no door lets it in any more in any case
		s.cfg.Log.Warn("token of an ended session not ended", "session_id", id, "error", err)
	}
}

// door answers what the programs of one sandbox ask of the model gateway, as long as a session runs there that goes through it.
type door struct {
	svc                    *Service
	workspaceID, sandboxID string
	cancel                 context.CancelFunc
	refs                   int // under svc.mu

	conns chan net.Conn
	ctx   context.Context
	slots chan struct{} // a place for each connection: a guest may give more than it has
}

// openDoor lets a session's agent reach the gateway. The caller calls shutDoor when the session has ended.
func (s *Service) openDoor(l *live) *door {
	if s.cfg.Gateway == nil || l.token == "" {
		return nil
	}
	l.mu.Lock()
	row := l.row
	l.mu.Unlock()
	s.mu.Lock()
	d := s.doors[row.SandboxID]
	fresh := d == nil
	if fresh {
		d = &door{svc: s, workspaceID: row.WorkspaceID, sandboxID: row.SandboxID, conns: make(chan net.Conn), slots: make(chan struct{}, guest.MaxGatewayConns)}
		d.ctx, d.cancel = context.WithCancel(s.hard)
		s.doors[row.SandboxID] = d
	}
	d.refs++
	s.mu.Unlock()
	if fresh && !s.run(d.run) {
		d.cancel()
	}
	return d
}

func (s *Service) shutDoor(d *door) {
	if d == nil {
		return
	}
	s.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last && s.doors[d.sandboxID] == d {
		delete(s.doors, d.sandboxID)
	}
	s.mu.Unlock()
	if last {
		d.cancel()
	}
}

// run serves until the door is shut.
func (d *door) run() {
	srv := &http.Server{
		Handler: d, ReadHeaderTimeout: gatewayHeadIn, IdleTimeout: gatewayIdle, MaxHeaderBytes: gatewayHead,
		ErrorLog: slog.NewLogLogger(d.svc.cfg.Log.Handler(), slog.LevelDebug),
	}
	var all sync.WaitGroup
	for range gatewayAskers {
		all.Go(d.ask)
	}
	all.Go(func() {
		<-d.ctx.Done()
		_ = srv.Close()
	})
	_ = srv.Serve(d) // ends with ctx
	all.Wait()
}

// Accept, Close and Addr make it a net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the door is shut by its context.
func (d *door) Close() error { return nil }

// Addr is no address: nobody dials it.
func (d *door) Addr() net.Addr { return &net.UnixAddr{Name: "gateway", Net: "sandbox"} }

// thisServer names this run of the server to guests.
var thisServer = rand.Text()

// ask asks the guest for connections, again after each cut. A guest that has none to give ends it.
func (d *door) ask() {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if p, ok := d.svc.cfg.Places.Live(d.workspaceID); ok && p.SandboxID == d.sandboxID {
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
				d.svc.cfg.Log.Warn("sandbox offers no model gateway", "sandbox_id", d.sandboxID, "error", err)
				return
			}
			if time.Since(began) > 5*time.Second {
				wait = 50 * time.Millisecond
			}
		}
		if !sleep(d.ctx, wait) {
			return
		}
	}
}

// take takes connections of the guest's until there is an error.
func (d *door) take(g *client.Client) error {
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
		case d.conns <- &doorConn{Conn: conn, free: func() { <-d.slots }}:
		case <-d.ctx.Done():
			_ = conn.Close()
			<-d.slots
			return d.ctx.Err()
		}
	}
}

// doorConn gives its place back when it is closed.
type doorConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *doorConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}

// ServeHTTP lets in who shows the token of a session that runs in this very sandbox. Of any other token the gateway hears nothing, and
// refuses in the words of the API that was asked.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || len(r.Header["Authorization"]) > 1 || !d.knows(bearer) {
		r.Header.Del("Authorization")
	}
	if len(r.Header["X-Api-Key"]) > 1 || !d.knows(r.Header.Get("X-Api-Key")) {
		r.Header.Del("X-Api-Key")
	}
	d.svc.cfg.Gateway.Handler().ServeHTTP(w, r)
}

func (d *door) knows(token string) bool {
	if token == "" || len(token) > gatewayTokenMax {
		return false
	}
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	return d.svc.shows[sha256.Sum256([]byte(token))] == d.sandboxID
}

var _ net.Listener = (*door)(nil)
