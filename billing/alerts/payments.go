package alerts

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/page"
)

// PaymentsConfig is what Payments are made of.
type PaymentsConfig struct {
	People    People
	Mail      accounts.Mailer
	PublicURL string
}

// Payments tells the payment service of teams, and people of payments.
type Payments struct{ cfg PaymentsConfig }

// NewPayments makes Payments.
func NewPayments(cfg PaymentsConfig) *Payments { return &Payments{cfg} }

// Team is what Parawork sends the payment service about a team.
func (p *Payments) Team(ctx context.Context, teamID string) (stripe.Team, error) {
	t, err := p.cfg.People.TeamByID(ctx, teamID)
	if err != nil {
		return stripe.Team{}, err
	}
	members, err := p.cfg.People.Members(ctx, teamID)
	out := stripe.Team{ID: t.ID, Slug: t.Slug, Name: t.Name}
	for _, m := range members {
		if m.Role == accounts.Owner {
			out.Email = m.User.Email
			break
		}
	}
	return out, err
}

// Notify mails what concerns a payment to who can do something about it. Without a mail server the pages of the web app say it.
func (p *Payments) Notify(ctx context.Context, n stripe.Notice) error {
	if !p.cfg.Mail.Enabled() {
		return nil
	}
	to, err := p.addressesOf(ctx, n)
	if err != nil {
		return err
	}
	text := n.Text
	if p.cfg.PublicURL != "" {
		text += "\n" + p.cfg.PublicURL + "\n"
	}
	for _, address := range to {
		if err := p.cfg.Mail.Queue(ctx, accounts.Mail{TeamID: n.TeamID, Kind: n.Kind, To: address, Subject: n.Subject, Text: text}); err != nil {
			return fmt.Errorf("queueing a mail: %w", err)
		}
	}
	return nil
}

// addressesOf are those of the team's owners and admins, or of the instance's operators, who may still sign in.
func (p *Payments) addressesOf(ctx context.Context, n stripe.Notice) ([]string, error) {
	var to []string
	if !n.Operators {
		members, err := p.cfg.People.Members(ctx, n.TeamID)
		for _, m := range members {
			if m.Role.AtLeast(accounts.Admin) && m.User.SuspendedAt == 0 {
				to = append(to, m.User.Email)
			}
		}
		return to, err
	}
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		users, next, err := p.cfg.People.Users(ctx, "", pg)
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
