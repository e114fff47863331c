package machines

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// How often one machine may connect: a burst, then a steady rate.
const (
	callBurst = 60
	callEvery = time.Second
)

// Texts for the history of connections.
const (
	sayRestart = "The server is restarting."
	sayDied    = "The server stopped unexpectedly."
	saySilent  = "No sign of life for %s."
)

// live is a connection. Service.mu guards the fields after link.
type live struct {
	conn   Connection
	teamID string
	link   *tunnel.Link

	leaving   bool
	goodbye   string // the machine's reason for leaving
	because   string // why we end it
	questions []wire.Question
	stored    int64 // when its description was last stored
	unstored  bool
	published int64 // when its load was last published to browsers
	unsaid    bool
}

// end ends a connection for a reason, which is sent to the machine and stored in its history. It does not wait. Service.mu is not held.
func (l *live) end(reason string) { l.link.Close(reason) }

// Link returns the connection of a machine; false while it is offline.
func (s *Service) Link(id string) (*tunnel.Link, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.all[id]; e != nil && e.live != nil {
		return e.live.link, true
	}
	return nil, false
}

// Sign signs a request to a machine as a command: body is its body, nil when that streams. The request's context says for whom
// (wire.WithOrder).
func (s *Service) Sign(ctx context.Context, runnerID string, req *http.Request, body []byte) error {
	key, err := s.ServerKey(ctx)
	if err != nil {
		return err
	}
	return wire.Signer{Key: key, Runner: runnerID, Now: s.cfg.Now}.Sign(req, body)
}

// Connect serves the connection of a machine until it ends: r asks for a WebSocket. When it returns an error, it has sent no response.
// address is the caller's. Errors: runners_disabled, runner_unknown, runner_revoked, runner_clock, runner_owner_gone, runner_protocol,
// runner_rate_limited.
func (s *Service) Connect(w http.ResponseWriter, r *http.Request, address string) error {
	ctx := tenant.All(r.Context(), "the key says which team it is for")
	if !s.cfg.Enabled {
		return errDisabled
	}
	auth := r.Header.Get("Authorization")
	caller, err := wire.ReadCall(auth)
	if err != nil {
		return err
	}
	server, err := s.ServerKey(ctx)
	if err != nil {
		return err
	}
	e, err := s.admit(ctx, caller)
	if err != nil {
		if f := refusal(err); f.Kind != fault.Internal && f.Kind != fault.Unavailable {
			wire.SignRefusal(w.Header(), server, auth, f.Code)
		}
		return err
	}
	if !s.enter() {
		return fault.New(fault.Unavailable, "stopping", "The server is stopping. Try again in a moment.")
	}
	defer s.conns.Done()
	s.mu.Lock()
	m := e.m
	s.mu.Unlock()
	link, err := tunnel.Accept(w, r, tunnel.AcceptConfig{ServerKey: server, MachineKey: m.Key, Log: s.cfg.Log.With("runner_id", m.ID)})
	if err != nil {
		if fault.KindOf(err) != fault.Internal {
			return err
		}
		s.cfg.Log.InfoContext(ctx, "a machine could not connect", "runner_id", m.ID, "error", err)
		return nil // the connection was taken over: it cannot be answered
	}
	if s.hold(link) {
		s.serve(context.WithoutCancel(ctx), e, m.Key, link, address)
	}
	s.mu.Lock()
	delete(s.links, link)
	s.mu.Unlock()
	return nil
}

// hold registers a link for shut to end; one that comes later is ended at once.
func (s *Service) hold(link *tunnel.Link) bool {
	s.mu.Lock()
	closed := s.closed
	s.links[link] = struct{}{}
	s.mu.Unlock()
	if closed {
		link.Close(sayRestart)
		<-link.Done()
	}
	return !closed
}

// admit finds the machine that calls, and whether it may connect.
func (s *Service) admit(ctx context.Context, c wire.Caller) (*entry, error) {
	e, err := s.entry(ctx, c.ID)
	if fault.Is(err, fault.NotFound) {
		return nil, wire.Revoked()
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	m := e.m
	s.mu.Unlock()
	if m.Revoked() {
		return nil, wire.Revoked()
	}
	if err := c.Check(m.Key, s.cfg.Now()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	often := !e.calls.spend(s.cfg.Now(), 1, callBurst, callEvery)
	s.mu.Unlock()
	if often {
		return nil, fault.New(fault.RateLimited, "runner_rate_limited", "The machine connects again and again. Is the program started twice with the same key?").With("retry_after_ms", callEvery.Milliseconds())
	}
	_, err = s.worksIn(ctx, m.TeamID, m.UserID)
	return e, err
}

// enter counts a connection, unless no more are accepted.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns.Add(1)
	return true
}

// serve reads a machine's events until its link ends, and returns when all its work has ended.
func (s *Service) serve(ctx context.Context, e *entry, key ed25519.PublicKey, link *tunnel.Link, address string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &feed{service: s, entry: e, link: link}
	silence := time.AfterFunc(s.cfg.Silence, func() { link.Close(fmt.Sprintf(saySilent, s.cfg.Silence)) })
	defer silence.Stop()
	f.alive = func() { silence.Reset(s.cfg.Silence) }
	go func() { // ends with the link
		<-link.Done()
		cancel()
	}()
	hello, err := f.open(ctx)
	if err == nil {
		l := &live{conn: Connection{ID: id.New("rcn"), RunnerID: e.m.ID, TeamID: e.m.TeamID, Address: words(address, 64), Version: hello.Build}, teamID: e.m.TeamID, link: link}
		if err = s.begin(ctx, e, l, key, hello); err == nil {
			f.live = l
			err = f.read(ctx)
			link.Close(farewell(err))
			<-link.Done()
			s.finish(context.WithoutCancel(ctx), e, l)
			return
		}
	}
	s.cfg.Log.InfoContext(ctx, "a machine was not accepted", "runner_id", e.m.ID, "error", err)
	link.Close(farewell(err))
	<-link.Done()
}

// farewell returns the reason sent to a machine whose connection ends with err. It counts only where nothing else ended the connection
// before.
func farewell(err error) string {
	if err == nil {
		return "The machine ended its event stream."
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "The connection broke while the server read the machine's events."
}

// begin makes a connection the machine's current one: from now on it is online, and an older connection ends.
func (s *Service) begin(ctx context.Context, e *entry, l *live, key ed25519.PublicKey, hello wire.Hello) error {
	e.turn.Lock()
	s.mu.Lock()
	m := e.m
	s.mu.Unlock()
	now := s.now()
	l.conn.BeganAt, l.stored = now, now
	m.Hello, m.Version, m.Protocol, m.ConnectedAt, m.SeenAt, m.OfflineAt, m.OfflineReason = hello, hello.Build, hello.Version, now, now, 0, ""
	if err := s.store.BeginConnection(ctx, l.conn, m); err != nil {
		e.turn.Unlock()
		return err
	}
	failpoint.Reach(failpoint.MachineOnline)
	s.mu.Lock()
	old := e.live
	revoked, rekeyed := e.m.Revoked(), !e.m.Key.Equal(key)
	m.Name, m.Key, m.RevokedAt, m.UpdatedAt = e.m.Name, e.m.Key, e.m.RevokedAt, e.m.UpdatedAt // a person may have changed them meanwhile
	e.m, e.live = m, l
	s.mu.Unlock()
	e.turn.Unlock()
	if old != nil {
		old.end(tunnel.ReasonReplaced)
	}
	if revoked || rekeyed {
		l.end(tunnel.ReasonRevoked)
	}
	s.cfg.Log.InfoContext(ctx, "a machine is online", "runner_id", m.ID, "team_id", m.TeamID, "version", m.Version, "mode", string(hello.Mode))
	s.notify(ctx, e)
	return nil
}

// finish records that a connection ended and why; the machine is offline then, unless a newer one has taken over.
func (s *Service) finish(ctx context.Context, e *entry, l *live) {
	e.turn.Lock()
	now := s.now()
	l.conn.EndedAt = now
	s.mu.Lock()
	l.conn.Reason = l.goodbye
	if l.conn.Reason == "" {
		l.conn.Reason = words(l.link.Reason(), maxSentence)
	}
	current := e.live == l
	if current {
		e.live = nil
		e.m.ConnectedAt, e.m.OfflineAt, e.m.OfflineReason = 0, now, l.conn.Reason
	}
	m, unstored := e.m, current && l.unstored
	s.mu.Unlock()
	if unstored {
		if err := s.store.SawRunner(ctx, m); err != nil {
			s.cfg.Log.WarnContext(ctx, "the latest state of a machine could not be stored", "runner_id", m.ID, "error", err)
		}
	}
	if err := s.store.EndConnection(ctx, l.conn); err != nil {
		s.cfg.Log.WarnContext(ctx, "the end of a machine's connection could not be stored", "runner_id", m.ID, "error", err)
	}
	e.turn.Unlock()
	if current {
		s.cfg.Log.InfoContext(ctx, "a machine is offline", "runner_id", m.ID, "reason", l.conn.Reason)
		s.notify(ctx, e)
	}
}
