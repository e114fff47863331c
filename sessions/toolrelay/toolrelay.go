// Package toolrelay leads the connections that agents open to the server's tools from their sandboxes to who serves them. It admits a
// connection only of a process that is a running session of the very sandbox it comes from, and cuts it when the session ends.
//
// Goroutines: each connection has one, which ends with its session. Locks: Relay.mu, briefly.
package toolrelay

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/offered"
)

// maxPerSession is how many connections a session may have open at once: one for each MCP client, and one for each command.
const maxPerSession = 32

// answerWithin is how long a refused program may take to read why.
const answerWithin = 5 * time.Second

// Session is a session as those who serve its connections need to know it.
type Session struct {
	ID, TeamID, WorkspaceID string
	UserID                  string // who started it
	Agent                   string
}

// Server serves connections to the tools.
type Server interface {
	// ServeTools serves one connection until it or ctx ends. ctx is limited to the session's team and ends with the session. The
	// caller closes the connection.
	ServeTools(ctx context.Context, s Session, use guest.ToolUse, conn net.Conn)
}

// Config configures a Relay. Without Server no session reaches tools. The other fields are those of offered.Config.
type Config struct {
	Server  Server
	Live    func(workspaceID string) (*executors.Place, bool)
	Run     func(fn func()) bool
	Context context.Context
	Log     *slog.Logger
}

// Relay leads connections of all sandboxes. Safe for concurrent use.
type Relay struct {
	cfg       Config
	listeners *offered.Listeners

	mu       sync.Mutex
	sessions map[string]*admitted // by ID
}

// admitted is a session that may use tools.
type admitted struct {
	Session
	sandboxID string
	ctx       context.Context
	cut       context.CancelCauseFunc
	open      int // connections; guarded by Relay.mu
}

// New returns a Relay. It starts nothing.
func New(cfg Config) *Relay {
	r := &Relay{cfg: cfg, sessions: map[string]*admitted{}}
	r.listeners = offered.New(offered.Config{Service: "tools", Most: guest.MaxToolConns, Accept: accept, Serve: r.serve, Live: cfg.Live, Run: cfg.Run, Context: cfg.Context, Log: cfg.Log})
	return r
}

// Admit records in which sandbox a session runs. At a start this is done for all sessions before any listener opens: a connection
// that was opened while the server was down must not be rejected because its session is reconnected a moment later.
func (r *Relay) Admit(sessionID, teamID, workspaceID, userID, agent, sandboxID string) {
	if r.cfg.Server == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[sessionID] != nil {
		return
	}
	a := &admitted{Session: Session{ID: sessionID, TeamID: teamID, WorkspaceID: workspaceID, UserID: userID, Agent: agent}, sandboxID: sandboxID}
	a.ctx, a.cut = context.WithCancelCause(tenant.In(r.cfg.Context, teamID))
	r.sessions[sessionID] = a
}

// Room reports whether a sandbox has a connection left for one more session of this agent. Only Parawork's own agent, whose terminal is
// one, needs that. Errors: tool_connections_full.
func (r *Relay) Room(sandboxID, agent string) error {
	if agent != agents.Parawork {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := 0
	for _, a := range r.sessions {
		switch {
		case a.sandboxID != sandboxID:
		case a.Agent == agents.Parawork:
			taken += max(a.open, 1) // one that is about to connect
		default:
			taken += a.open
		}
	}
	if taken < guest.MaxToolConns {
		return nil
	}
	return fault.New(fault.Conflict, "tool_connections_full", "This sandbox serves %d sessions of Parawork's agent and connections to tools already, which is the most. End a session there, or use another workspace.", guest.MaxToolConns)
}

// errEnded is why the calls of an ended session are cut.
var errEnded = fault.New(fault.Gone, "session_ended", "The session has ended.")

// End cuts the connections of a session that has ended, and admits no others.
func (r *Relay) End(sessionID string) {
	r.mu.Lock()
	a := r.sessions[sessionID]
	delete(r.sessions, sessionID)
	r.mu.Unlock()
	if a != nil {
		a.cut(errEnded)
	}
}

// Open opens the listener of a sandbox for one more session; nil when sessions use no tools.
func (r *Relay) Open(workspaceID, sandboxID string) *offered.Listener {
	if r.cfg.Server == nil {
		return nil
	}
	return r.listeners.Open(workspaceID, sandboxID)
}

// opened is a connection that says what it is for.
type opened struct {
	net.Conn
	guest.ToolOpening
}

func accept(ctx context.Context, g *client.Client, host string) (net.Conn, error) {
	conn, o, err := g.AcceptTools(ctx, host)
	if err != nil {
		return nil, err
	}
	return opened{conn, o}, nil
}

// serve leads the connections of one sandbox until its listener is closed.
func (r *Relay) serve(l *offered.Listener) {
	var all sync.WaitGroup
	for {
		conn, err := l.Accept()
		if err != nil {
			break
		}
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			r.lead(l, conn)
		})
	}
	all.Wait()
}

func (r *Relay) lead(l *offered.Listener, conn net.Conn) {
	o := conn.(*offered.Conn).Conn.(opened).ToolOpening //nolint:errcheck // what accept returns
	a, err := r.enter(o.Process, l.SandboxID)
	if err != nil {
		r.cfg.Log.Debug("a connection to the tools was refused", "sandbox_id", l.SandboxID, "process", o.Process, "error", err)
		refuse(conn, o.Use, err)
		return
	}
	defer r.leave(a)
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer context.AfterFunc(l.Context(), func() { cancel(errEnded) })()
	r.cfg.Server.ServeTools(ctx, a.Session, o.Use, conn)
}

// enter finds the session of a process.
func (r *Relay) enter(process, sandboxID string) (*admitted, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.sessions[process]
	switch {
	case a == nil || a.sandboxID != sandboxID:
		return nil, fault.New(fault.Forbidden, "tool_session_unknown", "This process does not belong to a running session of this sandbox. Only the agents of running sessions may use tools.")
	case a.open >= maxPerSession:
		return nil, fault.New(fault.RateLimited, "tool_connections", "The session has %d connections to its tools open already. Wait until one has ended.", maxPerSession)
	}
	a.open++
	return a, nil
}

func (r *Relay) leave(a *admitted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.open--
}

// refuse tells a command why it is refused. An MCP client learns it from the end of the connection: it asked for nothing yet.
func refuse(conn net.Conn, use guest.ToolUse, err error) {
	if use != guest.UseCommand {
		return
	}
	line, merr := json.Marshal(guest.ToolAnswer{Exit: 1, Stderr: fault.CodeOf(err) + ": " + fault.Words(err, "The connection was refused.") + "\n"})
	if merr != nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	_, _ = conn.Write(append(line, '\n'))
}
