package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	agentbrowser "github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/control"
)

// inputsEach is how many inputs a second one viewer may send; more wait.
const inputsEach = 300

// browserView is one person's socket to the browser of a workspace. Whoever writes a data frame has the pen.
type browserView struct {
	conn   *websocket.Conn
	viewer *agentbrowser.Viewer
	cancel context.CancelCauseFunc
	pen    sync.Mutex
}

// watchBrowser is GET /workspaces/{id}/browser/live.
func (s *Server) watchBrowser(c echo.Context) error {
	r := c.Request()
	call := rest.CallOf(r.Context())
	if !websocket.IsWebSocketUpgrade(r) {
		return fault.New(fault.Invalid, "websocket_only", "This address is a WebSocket.")
	}
	id, err := rest.PathID(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(endLeft)
	k := &socket{cred: call.Cred, user: call.Actor.User.ID, object: call.Object, in: id, needs: []accounts.Action{accounts.ViewTerminal}, about: []string{id}, cancel: cancel}
	may := func(ctx context.Context) error { return s.drives(ctx, call, k) }
	writer := *k
	writer.needs = append(writer.needs, accounts.TypeTerminal)
	if s.mayStay(ctx, &writer) {
		k.needs = writer.needs // who loses the right comes back as somebody who looks
	}
	done, err := s.sockets.add(k)
	if err != nil {
		return err
	}
	defer done()
	viewer, err := s.cfg.Browsers.Watch(ctx, agentbrowser.Watching{TeamID: call.Object.TeamID, WorkspaceID: id, Person: control.Person{ID: call.Actor.User.ID, Name: call.Actor.User.Name}, May: may,
		Controlled: s.recordControl(c, call)})
	if err != nil {
		return err
	}
	defer viewer.Close()
	conn, err := upgrader.Upgrade(c.Response(), r, http.Header{"X-Request-Id": {call.ID}})
	if err != nil {
		call.Status = http.StatusBadRequest // gorilla has answered
		return nil
	}
	call.Status = http.StatusSwitchingProtocols
	defer context.AfterFunc(ctx, func() { // at once, not when the client has taken the reason
		if endingOf(ctx) == endNotAllowed {
			viewer.Revoke()
		}
	})()
	v := &browserView{conn: conn, viewer: viewer, cancel: cancel}
	v.serve(ctx)
	return nil
}

// drives refuses input of somebody who may only look, as of now.
func (s *Server) drives(ctx context.Context, call *rest.Call, k *socket) error {
	needs := *k
	needs.needs = []accounts.Action{accounts.ViewTerminal, accounts.TypeTerminal}
	if !s.mayStay(ctx, &needs) {
		return fault.New(fault.Forbidden, "read_only", "You watch this browser as a viewer and cannot use it.")
	}
	return s.Works(ctx, call)
}

// serve runs the socket until one side ends it. The reader is the caller's goroutine.
func (v *browserView) serve(ctx context.Context) {
	defer v.conn.Close()
	var all sync.WaitGroup
	all.Go(func() { v.cancel(v.down(ctx)) })
	all.Go(func() { v.pinger(ctx) })
	v.up(ctx)
	v.cancel(endLeft)
	all.Wait()
}

// down writes the newest picture and state, again and again, and says why that ended.
func (v *browserView) down(ctx context.Context) error {
	for {
		frame, view, err := v.viewer.Next(ctx)
		switch {
		case err == nil:
		case errors.Is(err, agentbrowser.ErrStalled):
			return &ending{closeSlow, "too slow: nothing was acknowledged for 30 seconds"}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return endRestarting
		}
		kind, raw := websocket.BinaryMessage, []byte(nil)
		if frame != nil {
			raw = make([]byte, 10, 10+len(frame.JPEG))
			binary.BigEndian.PutUint32(raw, frame.Seq)
			binary.BigEndian.PutUint16(raw[4:], uint16(min(frame.Tab, 1<<16-1)))
			binary.BigEndian.PutUint16(raw[6:], uint16(frame.Width))
			binary.BigEndian.PutUint16(raw[8:], uint16(frame.Height))
			raw = append(raw, frame.JPEG...)
		} else if kind = websocket.TextMessage; view != nil {
			if raw, err = view.Encode(); err != nil {
				return endRestarting
			}
		}
		if err := v.write(kind, raw); err != nil {
			if timeout, ok := errors.AsType[interface {
				error
				Timeout() bool
			}](err); ok && timeout.Timeout() {
				return &ending{closeSlow, "too slow: a picture did not arrive within 30 seconds"}
			}
			return endLeft
		}
	}
}

func (v *browserView) write(kind int, raw []byte) error {
	v.pen.Lock()
	defer v.pen.Unlock()
	_ = v.conn.SetWriteDeadline(time.Now().Add(writePatience))
	return v.conn.WriteMessage(kind, raw)
}

// up reads input until the client leaves or ctx ends.
func (v *browserView) up(ctx context.Context) {
	v.conn.SetReadLimit(agentbrowser.MaxInputBytes)
	limit := rate.NewLimiter(inputsEach, inputsEach)
	patience := func() { _ = v.conn.SetReadDeadline(time.Now().Add(readPatience)) }
	patience()
	v.conn.SetPongHandler(func(string) error {
		if ctx.Err() == nil {
			patience()
		}
		return nil
	})
	for {
		_, raw, err := v.conn.ReadMessage()
		if err != nil || limit.Wait(ctx) != nil {
			return
		}
		patience()
		if err := v.viewer.Input(ctx, raw); err != nil && ctx.Err() == nil {
			body := rest.Translate(err).Body
			answer, jerr := json.Marshal(map[string]string{"type": "error", "code": body.Code, "message": body.Message})
			if jerr != nil || v.write(websocket.TextMessage, answer) != nil {
				return
			}
		}
	}
}

// pinger keeps the connection alive. When the socket ends it says why, and sees to it that nobody waits for a client that hangs.
func (v *browserView) pinger(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = v.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(controlWait))
		case <-ctx.Done():
			raw := v.conn.NetConn()
			_ = raw.SetWriteDeadline(time.Now().Add(goodbye))
			e := endingOf(ctx)
			_ = v.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(e.code, e.reason), time.Now().Add(controlWait))
			_ = raw.SetReadDeadline(time.Now().Add(goodbye))
			return
		}
	}
}
