package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/parawork/parawork/server/rest"
	agentbrowser "github.com/parawork/parawork/tools/browser"
)

// inputsEach is how many inputs a second one viewer may send; more wait.
const inputsEach = 300

// browserView is one person's socket to the browser of a workspace.
type browserView struct {
	liveSocket
	viewer *agentbrowser.Viewer
	cancel context.CancelCauseFunc
}

// watchBrowser is GET /workspaces/{id}/browser/live.
func (s *Server) watchBrowser(c echo.Context) error {
	l, err := s.openLive(c, "browser")
	if err != nil {
		return err
	}
	defer l.done()
	viewer, err := s.cfg.Browsers.Watch(l.ctx, agentbrowser.Watching{TeamID: l.call.Object.TeamID, WorkspaceID: l.id, Person: l.who, May: l.may, Controlled: s.recordControl(c, l.call)})
	if err != nil {
		return err
	}
	defer viewer.Close()
	conn := l.upgrade(c)
	if conn == nil {
		return nil
	}
	defer l.revoked(viewer.Revoke)()
	v := &browserView{liveSocket: liveSocket{conn: conn}, viewer: viewer, cancel: l.cancel}
	v.serve(l.ctx)
	return nil
}

// serve runs the socket until one side ends it. The reader is the caller's goroutine.
func (v *browserView) serve(ctx context.Context) {
	defer v.conn.Close()
	var all sync.WaitGroup
	all.Go(func() { v.cancel(v.down(ctx)) })
	all.Go(func() { pingUntil(ctx, v.conn) })
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
			raw = frame.Message
		} else if kind = websocket.TextMessage; view != nil {
			if raw, err = view.Encode(); err != nil {
				return endRestarting
			}
		}
		if err := v.write(kind, raw); err != nil {
			return slowOr(err, endLeft)
		}
	}
}

// up reads input until the client leaves or ctx ends.
func (v *browserView) up(ctx context.Context) {
	limit := rate.NewLimiter(inputsEach, inputsEach)
	v.read(ctx, agentbrowser.MaxInputBytes, func(_ int, raw []byte) bool {
		if limit.Wait(ctx) != nil {
			return false
		}
		err := v.viewer.Input(ctx, raw)
		if err == nil || ctx.Err() != nil {
			return true
		}
		body := rest.Translate(err).Body
		answer, err := json.Marshal(map[string]string{"type": "error", "code": body.Code, "message": body.Message})
		return err == nil && v.write(websocket.TextMessage, answer) == nil
	})
}
