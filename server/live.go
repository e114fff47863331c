package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/control"
)

// liveView is what the sockets to a workspace's browser and to its desktop have in common: who looks, and whether they may use what they see.
type liveView struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	call   *rest.Call
	id     string // of the workspace
	who    control.Person
	may    func(context.Context) error // whether the person may use it, as of now
	done   func()
}

// openLive begins such a socket; what names what is seen.
func (s *Server) openLive(c echo.Context, what string) (*liveView, error) {
	r := c.Request()
	call := rest.CallOf(r.Context())
	if !websocket.IsWebSocketUpgrade(r) {
		return nil, fault.New(fault.Invalid, "websocket_only", "This address is a WebSocket.")
	}
	id, err := rest.PathID(c)
	if err != nil {
		return nil, err
	}
	l := &liveView{call: call, id: id, who: control.Person{ID: call.Actor.User.ID, Name: call.Actor.User.Name}}
	l.ctx, l.cancel = context.WithCancelCause(r.Context())
	k := &socket{cred: call.Cred, user: call.Actor.User.ID, object: call.Object, in: id, needs: []accounts.Action{accounts.ViewTerminal}, about: []string{id}, cancel: l.cancel}
	writer := *k
	writer.needs = append(writer.needs, accounts.TypeTerminal)
	l.may = func(ctx context.Context) error {
		if !s.mayStay(ctx, &writer) {
			return fault.New(fault.Forbidden, "read_only", "You watch this %s as a viewer and cannot use it.", what)
		}
		return s.Works(ctx, call)
	}
	if s.mayStay(l.ctx, &writer) {
		k.needs = writer.needs // who loses the right comes back as somebody who looks
	}
	remove, err := s.sockets.add(k)
	if err != nil {
		l.cancel(endLeft)
		return nil, err
	}
	l.done = func() { remove(); l.cancel(endLeft) }
	return l, nil
}

// upgrade opens the socket; nil: the client has got an answer that says why not.
func (l *liveView) upgrade(c echo.Context) *websocket.Conn {
	conn, err := upgrader.Upgrade(c.Response(), c.Request(), http.Header{"X-Request-Id": {l.call.ID}})
	l.call.Status = http.StatusSwitchingProtocols
	if err != nil {
		l.call.Status = http.StatusBadRequest // gorilla has answered
		return nil
	}
	return conn
}

// revoked calls revoke when the person loses a right: at once, not when the client has taken the reason. It returns what ends that.
func (l *liveView) revoked(revoke func()) (stop func()) {
	end := context.AfterFunc(l.ctx, func() {
		if endingOf(l.ctx) == endNotAllowed {
			revoke()
		}
	})
	return func() { end() }
}

// liveSocket is a socket on which several goroutines write. Whoever writes a message has the pen.
type liveSocket struct {
	conn *websocket.Conn
	pen  sync.Mutex
}

func (l *liveSocket) write(kind int, raw []byte) error {
	l.pen.Lock()
	defer l.pen.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writePatience))
	return l.conn.WriteMessage(kind, raw)
}

// read passes the client's messages, of at most so many bytes, to take until it returns false, the client leaves, or ctx ends: then a client
// that only answers pings is no longer waited for.
func (l *liveSocket) read(ctx context.Context, most int64, take func(kind int, raw []byte) bool) {
	l.conn.SetReadLimit(most)
	patience := func() { _ = l.conn.SetReadDeadline(time.Now().Add(readPatience)) }
	patience()
	l.conn.SetPongHandler(func(string) error {
		if ctx.Err() == nil {
			patience()
		}
		return nil
	})
	for {
		kind, raw, err := l.conn.ReadMessage()
		if err != nil {
			return
		}
		patience()
		if !take(kind, raw) {
			return
		}
	}
}

// slowOr returns how a socket ends after an error of writing: the client did not take a message in time, or otherwise.
func slowOr(err error, otherwise *ending) error {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	if !ok || !timeout.Timeout() {
		return otherwise
	}
	return &ending{closeSlow, "too slow: a picture did not arrive within 30 seconds"}
}

// pingUntil keeps the connection alive. When the socket ends it says why, and sees to it that nobody waits for a client that hangs.
func pingUntil(ctx context.Context, conn *websocket.Conn) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(controlWait))
		case <-ctx.Done():
			raw := conn.NetConn()
			_ = raw.SetWriteDeadline(time.Now().Add(goodbye))
			e := endingOf(ctx)
			_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(e.code, e.reason), time.Now().Add(controlWait))
			_ = raw.SetReadDeadline(time.Now().Add(goodbye))
			return
		}
	}
}
