package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store"
)

// buildLedger makes what keeps the costs of places. The budget is what operators say, which may change at any time.
func (h *house) buildLedger(publisher events.Publisher) {
	h.charges = store.NewBilling(h.db)
	h.prices = price.New(price.Config{Store: store.NewPrices(h.db), Defaults: defaultPrices(h.cfg), Now: func() int64 { return h.ledger.Now() }})
	h.ledger = billing.New(billing.Config{Store: h.charges, Prices: h.prices, Events: publisher, Tell: h.tellBudget, Admit: h.quota, Log: h.log.With("room", "billing"),
		Budget: func(ctx context.Context) (billing.Budget, error) {
			return billing.Budget{LimitNano: h.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano, Limited: true}, nil
		}})
}

// defaultPrices are those that come with the program and its config.json. Of places without one nothing is metered.
func defaultPrices(cfg *config.Config) []price.Row {
	c, err := e2b.Settings{PriceVCPU: cfg.Sandboxing.E2B.PriceVCPU, PriceGiB: cfg.Sandboxing.E2B.PriceGiB}.Normal() // 0 = E2B's own
	if err != nil {
		panic(err) // nothing else is set
	}
	return []price.Row{{Executor: string(e2b.Kind), VCPUSecondNano: c.PriceVCPU, GiBSecondNano: c.PriceGiB, Metered: true}}
}

// pricing is what places cost now, for the rooms that make sandboxes.
func (h *house) pricing(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool) {
	q := h.prices.Quote(string(k), cpus, memoryMB, h.ledger.Now())
	return q.HourNano, q.Metered
}

// tellBudget tells people how the instance's budget stands: the timelines of workspaces that cost something, and every operator.
func (h *house) tellBudget(ctx context.Context, a billing.Alert) error {
	running, err := h.charges.WorkspacesRunning(ctx)
	if err != nil {
		return fmt.Errorf("reading which workspaces cost something: %w", err)
	}
	for _, id := range running {
		if err := h.workspaces.Tell(ctx, id, "budget", a.Words()); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("telling a workspace of the budget: %w", err)
		}
	}
	byTeam := map[string][]string{} // each operator in one of their teams: a browser is told once
	teams := map[string]accounts.Team{}
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		users, next, err := h.directory.Users(ctx, "", pg)
		if err != nil {
			return fmt.Errorf("reading who the operators are: %w", err)
		}
		for _, u := range users {
			if !u.User.Operator || u.User.SuspendedAt != 0 {
				continue
			}
			if err := h.mailBudget(ctx, a, u.User); err != nil {
				return err
			}
			if len(u.Memberships) > 0 {
				t := u.Memberships[0].Team
				teams[t.ID], byTeam[t.ID] = t, append(byTeam[t.ID], u.User.ID)
			}
		}
		if pg.Cursor = next; next == "" {
			break
		}
	}
	for id, operators := range byTeam {
		it := notify.Item{ID: fmt.Sprintf("instance-budget-%s-%d-%d", a.Period, a.Percent, a.At), Kind: notify.Budget, TeamID: id, TeamSlug: teams[id].Slug, TeamName: teams[id].Name,
			Reason: a.Words(), Since: a.At}
		if err := h.notify.Announce(ctx, it, operators); err != nil {
			return err
		}
	}
	return nil
}

// mailBudget queues a mail to an operator about the instance's budget.
func (h *house) mailBudget(ctx context.Context, a billing.Alert, to accounts.User) error {
	if !h.mail.Enabled() || to.Email == "" {
		return nil
	}
	text := a.Words() + "\n"
	if u := h.cfg.Server.PublicURL; u != "" {
		text += "\n" + u + "/settings/places\n"
	}
	if err := h.mail.Queue(ctx, accounts.Mail{Kind: "budget", To: to.Email, Subject: fmt.Sprintf("%d %% of this server's budget for paid places are spent", a.Percent), Text: text}); err != nil {
		return fmt.Errorf("queueing a mail about the budget: %w", err)
	}
	return nil
}
