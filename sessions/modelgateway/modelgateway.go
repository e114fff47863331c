// Package modelgateway lets the agents in a sandbox reach the model gateway: instead of an account's key an agent has a token of
// its session, and the guest passes its connections to a listener of the server, which accepts a token only from the sandbox its
// session runs in.
//
// Goroutines: those of package offered, and of the HTTP server of each open listener. Locks: Listeners.mu, briefly; none is held during
// a call to another party.
package modelgateway

import (
	"context"
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
	"github.com/parawork/parawork/sessions/offered"
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
	cfg  Config
	open *offered.Listeners

	mu     sync.Mutex
	tokens map[[32]byte]string // by sha256 of the token: the sandbox in which it is valid
}

// New returns Listeners. It starts nothing.
func New(cfg Config) *Listeners {
	s := &Listeners{cfg: cfg, tokens: map[[32]byte]string{}}
	s.open = offered.New(offered.Config{Service: "model gateway", Most: guest.MaxGatewayConns, Accept: accept, Serve: s.serve, Live: cfg.Live, Run: cfg.Run, Context: cfg.Context, Log: cfg.Log})
	return s
}

func accept(ctx context.Context, g *client.Client, host string) (net.Conn, error) {
	return g.AcceptGateway(ctx, host)
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

// Open opens the listener of a sandbox for one more session, or adds a reference to the open one; nil for a session that does not use
// the gateway.
func (s *Listeners) Open(workspaceID, sandboxID, token string) *offered.Listener {
	if s.cfg.Gateway == nil || token == "" {
		return nil
	}
	return s.open.Open(workspaceID, sandboxID)
}

// serve answers the requests of the programs of one sandbox until its listener is closed.
func (s *Listeners) serve(l *offered.Listener) {
	srv := &http.Server{
		Handler: sandbox{s, l.SandboxID}, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(l.Context(), func() { _ = srv.Close() })()
	_ = srv.Serve(l) // ends with the listener
	_ = srv.Close()
}

// sandbox answers the requests of one sandbox.
type sandbox struct {
	all *Listeners
	id  string
}

// ServeHTTP admits the token of a session that runs in this very sandbox. It rejects any other token, without asking the gateway,
// with an error in the format of the requested API.
func (d sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || len(r.Header["Authorization"]) > 1 || !d.knows(bearer) {
		r.Header.Del("Authorization")
	}
	if len(r.Header["X-Api-Key"]) > 1 || !d.knows(r.Header.Get("X-Api-Key")) {
		r.Header.Del("X-Api-Key")
	}
	d.all.cfg.Gateway.Handler().ServeHTTP(w, r)
}

func (d sandbox) knows(token string) bool {
	if token == "" || len(token) > maxToken {
		return false
	}
	d.all.mu.Lock()
	defer d.all.mu.Unlock()
	return d.all.tokens[sha256.Sum256([]byte(token))] == d.id
}
