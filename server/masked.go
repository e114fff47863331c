package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/server/rest"
)

// masked has the values of the team's secrets masked in the answer: what agents call branches, commits, files and sessions, what they print into
// titles and activity, and what people write, is in many answers, and the values must be in none. Answers of other kinds (files, patches,
// terminals) mask what they hold themselves.
func (s *Server) masked(ctx context.Context, c echo.Context, r rule, call *rest.Call) error {
	if r.socket || r.access != member && call.Actor.User.ID == "" {
		return nil
	}
	teams := []string{call.Object.TeamID}
	if r.access != member {
		teams = call.Actor.TeamIDs()
	}
	var finders []*redact.Finder
	for _, id := range teams {
		if id == "" { // what it is about is no team's
			continue
		}
		f, err := s.cfg.Secrets.InAnswers(ctx, id)
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "secrets_unknown", "The team's secrets, which must be masked, could not be read. Try again in a moment.")
		}
		if f != nil {
			finders = append(finders, f)
		}
	}
	if len(finders) > 0 {
		c.Response().Writer = &maskedWriter{c.Response().Writer, finders}
	}
	return nil
}

// maskedWriter masks answers of JSON and Markdown. Each is written at once, and stays as long as it was.
type maskedWriter struct {
	http.ResponseWriter
	finders []*redact.Finder
}

// Unwrap is for http.ResponseController.
func (w *maskedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *maskedWriter) Write(p []byte) (int, error) {
	kind := w.Header().Get("Content-Type")
	isJSON := strings.HasPrefix(kind, "application/json") || strings.HasPrefix(kind, "application/problem+json")
	if !isJSON && !strings.HasPrefix(kind, "text/markdown") {
		return w.ResponseWriter.Write(p)
	}
	p = bytes.Clone(p) // it is the caller's, who may keep it
	for _, f := range w.finders {
		if isJSON {
			f.MaskJSON(p)
		} else {
			f.Mask(p, nil)
		}
	}
	return w.ResponseWriter.Write(p)
}
