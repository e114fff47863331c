package main

import (
	"context"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
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

// tellBudget writes into the timelines of workspaces that cost something how the budget stands.
func (h *house) tellBudget(ctx context.Context, a billing.Alert) {
	running, err := h.charges.WorkspacesRunning(ctx)
	if err != nil {
		h.log.Warn("workspaces that cost something could not be read", "error", err)
	}
	for _, id := range running {
		if err := h.workspaces.Tell(ctx, id, "budget", a.Words()); err != nil {
			h.log.Warn("a workspace was not told of the budget", "workspace_id", id, "error", err)
		}
	}
}

// usePool has sandboxes made ahead of time as operators say.
func (h *house) usePool() {
	h.places.UsePool(executors.PoolConfig{Store: h.kept, Rules: func(ctx context.Context) executors.PoolRules {
		p := h.settings.Values(ctx).Pool
		return executors.PoolRules{Enabled: p.Enabled, Min: int(p.Min), Max: int(p.Max)}
	}})
}
