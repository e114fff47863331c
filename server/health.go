package server

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/server/api"
)

func (h operations) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	switch h.phase.Load() {
	case phaseServing:
		return api.GetHealth200JSONResponse{Status: api.HealthStatusOk, Version: h.cfg.Version}, nil
	case phaseStarting:
		return api.GetHealth503JSONResponse{Status: api.HealthStatusStarting, Version: h.cfg.Version}, nil
	case phaseLooking:
		return api.GetHealth503JSONResponse{Status: api.HealthStatusDegraded, Version: h.cfg.Version, Reason: h.doubt.Load()}, nil
	}
	return api.GetHealth503JSONResponse{Status: api.HealthStatusDraining, Version: h.cfg.Version}, nil
}

// headHealth is for monitors that ask with HEAD.
func (s *Server) headHealth(c echo.Context) error {
	if s.ready() != nil {
		return c.NoContent(http.StatusServiceUnavailable)
	}
	return c.NoContent(http.StatusOK)
}
