package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
)

// statusClientGone is written to the log for requests whose client has left: nobody reads the answer.
const statusClientGone = 499

// fail answers a request with err. An answer that has begun is left as it is: its connection was cut by who noticed.
func (s *Server) fail(err error, c echo.Context) {
	call := callOf(c.Request().Context())
	p := translate(err)
	if c.Request().Context().Err() != nil && clientGone(c.Request()) {
		call.status = statusClientGone
		s.log.Debug("client has left", "request_id", call.id, "operation", call.op, "error", err)
		return
	}
	if p.status >= 500 && p.body.Code != errStarting.Code && p.body.Code != errStopping.Code {
		level := slog.LevelError
		if p.status != http.StatusInternalServerError {
			level = slog.LevelWarn // a part that is needed did not answer: not ours to mend
		}
		s.log.Log(c.Request().Context(), level, "request failed", "request_id", call.id, "operation", call.op, "status", p.status, "code", p.body.Code, "error", err)
	} else if p.cause != nil {
		s.log.Debug("request refused", "request_id", call.id, "operation", call.op, "status", p.status, "code", p.body.Code, "error", p.cause)
	}
	if c.Response().Committed {
		return
	}
	p.write(c.Response(), call.id, c.Request().Method == http.MethodHead)
}

// clientGone reports whether the request ended because its client left, and not because the server stops.
func clientGone(r *http.Request) bool {
	return errors.Is(context.Cause(r.Context()), context.Canceled)
}
