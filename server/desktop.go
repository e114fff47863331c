package server

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/tools/desktop"
)

// desktopView is one person's socket to the desktop of a workspace: RFB in binary messages, the state in messages of text.
type desktopView struct {
	liveSocket
	view   *desktop.View
	cancel context.CancelCauseFunc
}

// watchDesktop is GET /workspaces/{id}/desktop/live.
func (s *Server) watchDesktop(c echo.Context) error {
	l, err := s.openLive(c, "desktop")
	if err != nil {
		return err
	}
	defer l.done()
	view, err := s.cfg.Desktops.Look(l.ctx, desktop.Looking{TeamID: l.call.Object.TeamID, WorkspaceID: l.id, Person: l.who, May: l.may})
	if err != nil {
		return err
	}
	defer view.Close()
	conn := l.upgrade(c)
	if conn == nil {
		return nil
	}
	defer l.revoked(view.Revoke)()
	v := &desktopView{liveSocket: liveSocket{conn: conn}, view: view, cancel: l.cancel}
	v.serve(l.ctx)
	return nil
}

// serve runs the socket until one side ends it. The reader is the caller's goroutine.
func (v *desktopView) serve(ctx context.Context) {
	defer v.conn.Close()
	defer context.AfterFunc(ctx, v.view.Close)() // a screen that does not change says nothing
	var all sync.WaitGroup
	all.Go(func() { v.cancel(v.show(ctx)) })
	all.Go(func() { v.cancel(v.tell(ctx)) })
	all.Go(func() { pingUntil(ctx, v.conn) })
	v.up(ctx)
	v.cancel(endLeft)
	all.Wait()
}

// show passes on what the VNC server says, and says why that ended.
func (v *desktopView) show(ctx context.Context) error {
	err := v.view.Show(v)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return slowOr(err, endRestarting) // the viewer connects again, and is refused when the desktop has ended
}

// tell writes the state whenever it changes, and says why that ended.
func (v *desktopView) tell(ctx context.Context) error {
	var before *desktop.Seen
	for {
		now, err := v.view.Next(ctx, before)
		if err != nil {
			return endRestarting
		}
		raw, err := json.Marshal(struct {
			Type string `json:"type"`
			desktop.Seen
		}{"state", now})
		if err == nil {
			err = v.write(websocket.TextMessage, raw)
		}
		if err != nil {
			return slowOr(err, endLeft)
		}
		before = &now
	}
}

// Write sends a part of the screen.
func (v *desktopView) Write(p []byte) (int, error) {
	return len(p), v.write(websocket.BinaryMessage, p)
}

// up passes on what the viewer's program says until the client leaves or ctx ends.
func (v *desktopView) up(ctx context.Context) {
	v.read(ctx, desktop.MaxWrite, func(kind int, raw []byte) bool {
		if kind != websocket.BinaryMessage {
			return false
		}
		_, err := v.view.Write(raw)
		return err == nil
	})
}
