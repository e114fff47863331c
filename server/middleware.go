package server

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/server/consent"
	"github.com/parawork/parawork/server/rest"
)

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{8,64}$`)

// begin gives each request its call and id, and writes the access log when it has been answered.
func (s *Server) begin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := s.cfg.Now()
		r := c.Request()
		call := &rest.Call{ID: id.New("req"), Request: r, Writer: c.Response()}
		// A proxy's id makes its log and ours one story. Anybody else's would let them forge lines.
		if given := r.Header.Get("X-Request-Id"); given != "" && s.Trusted(r) && requestIDForm.MatchString(given) {
			call.ID = given
		}
		c.SetRequest(r.WithContext(rest.WithCall(r.Context(), call)))
		call.Request = c.Request()
		c.Response().Header().Set("X-Request-Id", call.ID)
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		s.logAccess(c, call, started)
		return nil
	}
}

// logAccess writes one line for a request to the API. The path is the route's pattern and the query is left out: both may hold
// what is nobody's business.
func (s *Server) logAccess(c echo.Context, call *rest.Call, started time.Time) {
	if !strings.HasPrefix(c.Request().URL.Path, "/api/") {
		return
	}
	status := c.Response().Status
	if call.Status != 0 {
		status = call.Status
	}
	level := slog.LevelDebug
	if m := c.Request().Method; status >= 500 || m != http.MethodGet && m != http.MethodHead {
		level = slog.LevelInfo
	}
	if call.Op == "getHealth" || status == http.StatusTooManyRequests { // what is turned away comes in floods: the audit counts it
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("request_id", call.ID), slog.String("method", c.Request().Method), slog.String("route", c.Path()), slog.Int("status", status),
		slog.Int64("bytes", c.Response().Size), slog.Int64("ms", s.cfg.Now().Sub(started).Milliseconds()), slog.String("ip", c.RealIP()),
	}
	if call.Actor.User.ID != "" {
		attrs = append(attrs, slog.String("user_id", call.Actor.User.ID))
	}
	if call.Actor.TokenID != "" {
		attrs = append(attrs, slog.String("token_id", call.Actor.TokenID))
	}
	s.log.LogAttrs(c.Request().Context(), level, "request", attrs...)
}

// rescue turns a panic of a handler into an error answer. One broken request must not end everybody's terminals.
func (s *Server) rescue(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			err = broken(p)
		}()
		return next(c)
	}
}

// unneeded are powers of a browser that no page of ours uses, and none below it may be given.
const unneeded = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()"

// ofAPI reports whether a path is the API's, and not the web app's.
func ofAPI(path string) bool {
	return path == "/api" || strings.HasPrefix(path, "/api/") || path == prometheusPath || path == stripePath || path == mcpPath || consent.Serves(path)
}

// headers sets what every answer carries, and refuses host names that are not ours.
func (s *Server) headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", unneeded)
		if s.Secure(c.Request()) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		// The web app says what its own pages need.
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox")
		if ofAPI(c.Request().URL.Path) {
			h.Set("Cache-Control", "no-store")
		}
		if err := s.checkHost(c.Request()); err != nil {
			return err
		}
		return next(c)
	}
}
