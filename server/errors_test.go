package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// The response to an internal failure (a panic included) omits its text; the log has it under the same request id.
func TestInternalFailuresAreLoggedAndNotShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := newHarness(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for name, fail := range map[string]echo.HandlerFunc{
		"error": func(echo.Context) error { return errors.New("inner secret") },
		"panic": func(echo.Context) error { panic("inner secret") },
	} {
		log.Reset()
		rec := httptest.NewRecorder()
		c := h.server.echo.NewContext(httptest.NewRequest(http.MethodGet, "/api/v1/x", nil), rec)
		if err := h.server.begin(h.server.rescue(fail))(c); err != nil {
			t.Fatal(err)
		}
		var p struct {
			Code, Message string
			RequestID     string `json:"request_id"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if rec.Code != 500 || p.Code != "internal" || strings.Contains(rec.Body.String(), "secret") || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if p.RequestID == "" || p.RequestID != rec.Header().Get("X-Request-Id") || !strings.Contains(log.String(), p.RequestID) || !strings.Contains(log.String(), "inner secret") {
			t.Errorf("%s: request %q is missing from the log:\n%s", name, p.RequestID, log.String())
		}
	}
}
