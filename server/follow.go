package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"github.com/olahol/melody"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// The events' sockets are kept by melody, with its traps closed. Its upgrader takes any origin: checkSocket has decided before.
// It drops messages when a session's queue is full: never more than followAhead are in it, the bus keeps the rest and says what
// it could not keep. Its limit of 512 bytes is raised, though clients have nothing to say. And its hub must not end while a
// session begins or ends: Serve waits for all of them first.
const (
	followAhead = 64
	followQueue = followAhead + 8 // room for pings and the close
)

// missed tells a client that events were lost: it must read again what it shows.
const missed = "missed"

// keyFollower is where a melody session carries its follower.
const keyFollower = "follower"

// follower is one client of the events' socket.
type follower struct {
	cancel context.CancelCauseFunc
	ready  chan *melody.Session // the session, once it is open; closed when it has ended
	slots  chan struct{}        // one token a message that melody has not sent
	conn   net.Conn
}

func newMelody() *melody.Melody {
	m := melody.New()
	m.Config.MaxMessageSize = 4 << 10
	m.Config.MessageBufferSize = followQueue
	m.Config.PingPeriod, m.Config.PongWait = pingEvery, readPatience
	m.Upgrader.CheckOrigin = upgrader.CheckOrigin
	m.Upgrader.HandshakeTimeout = upgrader.HandshakeTimeout
	m.HandleConnect(func(s *melody.Session) {
		if f := followerOf(s); f != nil {
			f.ready <- s
		}
	})
	m.HandleSentMessage(func(s *melody.Session, _ []byte) {
		if f := followerOf(s); f != nil {
			<-f.slots
		}
	})
	m.HandleError(func(s *melody.Session, err error) {
		if f := followerOf(s); f != nil && errors.Is(err, melody.ErrMessageBufferFull) {
			f.cancel(&ending{closeSlow, missed})
		}
	})
	return m
}

func followerOf(s *melody.Session) *follower {
	v, _ := s.Get(keyFollower)
	f, _ := v.(*follower)
	return f
}

// keepConn hands the connection on to melody and keeps it, so that a socket can be ended although its client hangs.
type keepConn struct {
	http.ResponseWriter
	f *follower
}

// Hijack takes the connection over.
func (k *keepConn) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(k.ResponseWriter).Hijack()
	k.f.conn = conn
	return conn, rw, err
}

// followEvents is GET /teams/{team}/events.
func (s *Server) followEvents(c echo.Context) error {
	r := c.Request()
	call := rest.CallOf(r.Context())
	if !websocket.IsWebSocketUpgrade(r) {
		return fault.New(fault.Invalid, "websocket_only", "This address is a WebSocket.")
	}
	var since int64
	if q := r.URL.Query().Get("since"); q != "" {
		n, err := strconv.ParseInt(q, 10, 64)
		if err != nil || n < 0 {
			return fault.New(fault.Invalid, "invalid_parameter", "since must be the seq of the last event seen.").With("field", "since")
		}
		since = n
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(endLeft)
	done, err := s.sockets.add(&socket{cred: call.Cred, user: call.Actor.User.ID, object: call.Object,
		needs: []accounts.Action{accounts.ViewTeam}, cancel: cancel})
	if err != nil {
		return err
	}
	defer done()
	sub := s.cfg.Events.Subscribe(call.Team.ID, since)
	defer sub.Close()

	f := &follower{cancel: cancel, ready: make(chan *melody.Session, 1), slots: make(chan struct{}, followAhead)}
	call.Status = http.StatusSwitchingProtocols
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(endLeft)
	all.Go(func() {
		// ctx is not checked here: a socket that ends while it opens must still receive the reason.
		if session, opened := <-f.ready; opened {
			f.feed(ctx, session, sub, func(e events.Event) bool { return s.MayReceive(ctx, call, e) })
		}
	})
	defer close(f.ready)
	err = s.melody.HandleRequestWithKeys(&keepConn{c.Response(), f}, r, map[string]any{keyFollower: f})
	if err != nil {
		s.log.Debug("events socket not opened", "request_id", call.ID, "error", err)
	}
	return nil
}

// feed sends events until ctx ends, then closes the socket.
func (f *follower) feed(ctx context.Context, session *melody.Session, sub *events.Sub, mayReceive func(events.Event) bool) {
	defer f.close(ctx, session)
	if sub.Missed() && !f.send(ctx, session, wireEvent{Type: missed, Seq: sub.Start()}) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-sub.C:
			if !open {
				return
			}
			if e.Type == events.Resync {
				sub.Missed() // told by the event itself
				e.Type = missed
			}
			if mayReceive(e) && !f.send(ctx, session, wireOf(e)) {
				return
			}
			if sub.Missed() && !f.send(ctx, session, wireEvent{Type: missed, Seq: e.Seq}) {
				return
			}
		}
	}
}

// wireEvent is an event as clients see it.
type wireEvent struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	WorkspaceID string `json:"workspace_id,omitempty"`
	Version     int64  `json:"version"`
	Seq         int64  `json:"seq"`
}

func wireOf(e events.Event) wireEvent {
	return wireEvent{Type: e.Type, ID: e.ID, WorkspaceID: e.WorkspaceID, Version: e.Version, Seq: e.Seq}
}

// send hands one message to melody when there is room for it. A client that does not read ends by melody's write deadline.
func (f *follower) send(ctx context.Context, session *melody.Session, e wireEvent) bool {
	raw, err := json.Marshal(e)
	if err != nil {
		return false
	}
	select {
	case f.slots <- struct{}{}:
		return session.Write(raw) == nil
	case <-ctx.Done():
		return false
	}
}

// close says why and gives the client a moment to answer.
func (f *follower) close(ctx context.Context, session *melody.Session) {
	e := endingOf(ctx)
	_ = session.CloseWithMsg(melody.FormatCloseMessage(e.code, e.reason))
	if f.conn != nil {
		_ = f.conn.SetDeadline(time.Now().Add(goodbye))
	}
}
