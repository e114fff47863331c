package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
)

// buildPayments makes the room through which teams pay.
func (h *house) buildPayments(publisher events.Publisher) {
	c := h.cfg.Billing.Stripe
	h.payments = stripe.New(stripe.Config{SecretKey: c.SecretKey, WebhookSecrets: c.WebhookSecrets, APIBase: c.APIBase, AutomaticTax: c.AutomaticTax, PastDueDays: h.cfg.Billing.PastDueDays,
		DefaultPlan: func(ctx context.Context) string { return h.settings.Values(ctx).DefaultPlan }, Store: store.NewStripe(h.db), Team: h.payingTeam, Changed: h.quota.Changed, Tell: h.tellPayment, Audit: h.audit, Events: publisher, Log: h.log.With("room", "payments")})
	if h.payments.Enabled() && !h.payments.Hears() {
		h.log.Warn("payments are on, and no webhook is taken: what happens at Stripe is noticed within hours", "cure", "run: parawork billing setup, or set billing.stripe.webhookSecrets")
	}
}

// payingTeam is what the payment service is told of a team.
func (h *house) payingTeam(ctx context.Context, teamID string) (stripe.Team, error) {
	t, err := h.directory.TeamByID(ctx, teamID)
	if err != nil {
		return stripe.Team{}, err
	}
	members, err := h.directory.Members(ctx, teamID)
	out := stripe.Team{ID: t.ID, Slug: t.Slug, Name: t.Name}
	for _, m := range members {
		if m.Role == accounts.Owner {
			out.Email = m.User.Email
			break
		}
	}
	return out, err
}

// tellPayment mails what concerns a payment to who can do something about it. Without a mail server the pages of the web app say it.
func (h *house) tellPayment(ctx context.Context, n stripe.Notice) error {
	if !h.mail.Enabled() {
		return nil
	}
	to, err := h.addressesOf(ctx, n)
	if err != nil {
		return err
	}
	text := n.Text
	if h.cfg.Server.PublicURL != "" {
		text += "\n" + h.cfg.Server.PublicURL + "\n"
	}
	for _, address := range to {
		if err := h.mail.Queue(ctx, accounts.Mail{TeamID: n.TeamID, Kind: n.Kind, To: address, Subject: n.Subject, Text: text}); err != nil {
			return fmt.Errorf("queueing a mail: %w", err)
		}
	}
	return nil
}

// addressesOf are those of the team's owners and admins, or of the instance's operators, who may still sign in.
func (h *house) addressesOf(ctx context.Context, n stripe.Notice) ([]string, error) {
	var to []string
	if !n.Operators {
		members, err := h.directory.Members(ctx, n.TeamID)
		for _, m := range members {
			if m.Role.AtLeast(accounts.Admin) && m.User.SuspendedAt == 0 {
				to = append(to, m.User.Email)
			}
		}
		return to, err
	}
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		users, next, err := h.directory.Users(ctx, "", pg)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			if u.User.Operator && u.User.SuspendedAt == 0 {
				to = append(to, u.User.Email)
			}
		}
		if next == "" {
			return to, nil
		}
		pg.Cursor = next
	}
}
