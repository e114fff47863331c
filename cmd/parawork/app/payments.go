package app

import (
	"context"

	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/store"
)

// buildPayments makes the room through which teams pay.
func (h *App) buildPayments(publisher events.Publisher) {
	c := h.cfg.Billing.Stripe
	tell := alerts.NewPayments(alerts.PaymentsConfig{People: h.directory, Mail: h.mail, PublicURL: h.cfg.Server.PublicURL})
	h.payments = stripe.New(stripe.Config{SecretKey: c.SecretKey, WebhookSecrets: c.WebhookSecrets, APIBase: c.APIBase, AutomaticTax: c.AutomaticTax, PastDueDays: h.cfg.Billing.PastDueDays,
		DefaultPlan: func(ctx context.Context) string { return h.settings.Values(ctx).DefaultPlan }, Store: store.NewStripe(h.db), Team: tell.Team, Changed: h.quota.Changed, Tell: tell.Tell, Audit: h.audit, Events: publisher, Log: h.log.With("room", "payments")})
	if h.payments.Enabled() && !h.payments.Hears() {
		h.log.Warn("payments are on, and no webhook is taken: what happens at Stripe is noticed within hours", "cure", "run: parawork billing setup, or set billing.stripe.webhookSecrets")
	}
}
