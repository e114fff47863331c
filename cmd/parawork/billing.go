package main

import (
	"context"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
)

// buildLedger makes what keeps the costs of places. The budget is what operators say, which may change at any time.
func (h *house) buildLedger(publisher events.Publisher) {
	h.charges = store.NewBilling(h.db)
	h.ledger = billing.New(billing.Config{Store: h.charges, Events: publisher, Tell: h.tellBudget, Log: h.log.With("room", "billing"),
		Budget: func(ctx context.Context) (billing.Budget, error) {
			return billing.Budget{LimitNano: h.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano, Limited: true}, nil
		}})
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
