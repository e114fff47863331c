package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
)

// overSocket reports why a WebSocket was refused. A page sees neither status nor body of a refused handshake, so the server opens
// a socket only to send a close code. Scripts get the usual response, except for a missing right, whose close code is part of the
// protocol. Foreign pages, people who are not signed in and outsiders get no socket at all: what does not exist and what is not theirs
// is a plain 404.
func (s *Server) overSocket(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		r := c.Request()
		call := rest.CallOf(r.Context())
		if err == nil || c.Response().Committed || !websocket.IsWebSocketUpgrade(r) || s.checkSocket(r, call.Cred) != nil {
			return err
		}
		_, page := r.Header["Origin"]
		code := 0
		switch fault.KindOf(err) {
		case fault.Forbidden:
			code = closeNotAllowed
		case fault.Gone:
			if page {
				code = closeGone
			}
		case fault.Unavailable:
			if page {
				code = closeRestarting
			}
		}
		if code == 0 {
			return err
		}
		conn, uerr := upgrader.Upgrade(c.Response(), r, http.Header{"X-Request-Id": {call.ID}})
		if uerr != nil {
			call.Status = http.StatusBadRequest
			return nil
		}
		defer conn.Close()
		call.Status = rest.Translate(err).Status // for the log
		deadline := time.Now().Add(goodbye)
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, closeReason(rest.Translate(err).Body.Message)), deadline)
		_ = conn.SetReadDeadline(deadline)
		for uerr == nil {
			_, _, uerr = conn.NextReader()
		}
		return nil
	}
}

// closeReason cuts a message to what a close frame can carry.
func closeReason(s string) string {
	const most = 120
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
