package server

import (
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
)

// stripePath is where the payment service sends what it has to tell, with and without the API's base.
const stripePath = "/webhooks/stripe"

// stripeWebhook takes a webhook as it came: its signature is over the bytes.
func (s *Server) stripeWebhook(c echo.Context) error {
	body, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return fmt.Errorf("reading a webhook: %w", err)
	}
	if err := s.cfg.Payments.Webhook(c.Request().Context(), body, c.Request().Header.Get("Stripe-Signature")); err != nil {
		return err
	}
	return c.NoContent(http.StatusOK)
}
