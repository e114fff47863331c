package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/server/rest"
)

// statusClientGone is written to the log for requests whose client disconnected: nobody reads the answer.
const statusClientGone = 499

// fail answers a request with err. An answer that has begun is left as it is: its connection was cut by who noticed.
func (s *Server) fail(err error, c echo.Context) {
	call := rest.CallOf(c.Request().Context())
	p := rest.Translate(err)
	if c.Request().Context().Err() != nil && clientGone(c.Request()) {
		call.Status = statusClientGone
		s.log.Debug("client disconnected", "request_id", call.ID, "operation", call.Op, "error", err)
		return
	}
	if p.Status >= 500 && p.Body.Code != rest.ErrStarting.Code && p.Body.Code != rest.ErrStopping.Code {
		level := slog.LevelError
		if p.Status != http.StatusInternalServerError {
			level = slog.LevelWarn // a service we depend on did not answer: not this server's fault
		}
		s.log.Log(c.Request().Context(), level, "request failed", "request_id", call.ID, "operation", call.Op, "status", p.Status, "code", p.Body.Code, "error", err)
	} else if p.Cause != nil {
		s.log.Debug("request refused", "request_id", call.ID, "operation", call.Op, "status", p.Status, "code", p.Body.Code, "error", p.Cause)
	}
	if c.Response().Committed {
		return
	}
	p.Write(c.Response(), call.ID, c.Request().Method == http.MethodHead)
}

// clientGone reports whether the request ended because its client left, and not because the server stops.
func clientGone(r *http.Request) bool {
	return errors.Is(context.Cause(r.Context()), context.Canceled)
}
