package app

import (
	"context"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/store"
)

// buildLedger makes what keeps the costs of places. The budget is what operators say, which may change at any time.
func (h *App) buildLedger(publisher events.Publisher) {
	charges := store.NewBilling(h.db)
	h.prices = price.New(price.Config{Store: store.NewPrices(h.db), Defaults: DefaultPrices(h.cfg), Now: h.clock.Now})
	h.ledger = billing.New(billing.Config{Store: charges, Prices: h.prices, Clock: h.clock, Events: publisher, Tell: h.tellBudget(charges), Admit: h.quota, Log: h.log.With("room", "billing"),
		Budget: func(ctx context.Context) (billing.Budget, error) {
			return billing.Budget{LimitNano: h.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano, Limited: true}, nil
		}})
}

// DefaultPrices are those that come with the program and its config.json. Of places without one nothing is metered.
func DefaultPrices(cfg *config.Config) []price.Row {
	c, err := e2b.Settings{PriceVCPU: cfg.Sandboxing.E2B.PriceVCPU, PriceGiB: cfg.Sandboxing.E2B.PriceGiB}.Normal() // 0 = E2B's own
	if err != nil {
		panic(err) // nothing else is set
	}
	return []price.Row{{Executor: string(e2b.Kind), VCPUSecondNano: c.PriceVCPU, GiBSecondNano: c.PriceGiB, Metered: true}}
}

// pricing is what places cost now, for the rooms that make sandboxes.
func (h *App) pricing(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool) {
	q := h.prices.Quote(string(k), cpus, memoryMB, h.clock.Now())
	return q.HourNano, q.Metered
}

// tellBudget tells people how the instance's budget stands.
func (h *App) tellBudget(charges *store.Billing) func(context.Context, billing.Alert) error {
	return func(ctx context.Context, a billing.Alert) error {
		return alerts.NewBudget(alerts.BudgetConfig{Paid: charges, Timelines: h.workspaces, People: h.directory, Notify: h.notify, Mail: h.mail, PublicURL: h.cfg.Server.PublicURL}).Tell(ctx, a)
	}
}

// usePool has sandboxes made ahead of time as operators say.
func (h *App) usePool() {
	h.places.UsePool(manager.PoolConfig{Store: h.kept, Rules: func(ctx context.Context) manager.PoolRules {
		p := h.settings.Values(ctx).Pool
		return manager.PoolRules{Enabled: p.Enabled, Min: int(p.Min), Max: int(p.Max)}
	}})
}
