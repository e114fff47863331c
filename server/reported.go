package server

import (
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// reportEvent takes an event for an automation as it came: its signature is over the bytes.
func (s *Server) reportEvent(c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}
	if _, _, err := s.cfg.Automations.Report(c.Request().Context(), c.Param("id"), c.Request().Header, body); err != nil {
		return err
	}
	return c.NoContent(http.StatusAccepted)
}
