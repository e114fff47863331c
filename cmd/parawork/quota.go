package main

import (
	"context"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/store"
)

// buildQuota makes what decides who may use how much. It comes before the ledger, which asks it, and is told the ledger's time by it.
func (h *house) buildQuota(publisher events.Publisher) {
	b := h.cfg.Billing
	h.quota = quota.New(quota.Config{Store: store.NewQuota(h.db), Now: func() int64 { return h.ledger.Now() }, PastDueDays: b.PastDueDays, GraceSeconds: b.GraceSeconds,
		DefaultPlan: func(ctx context.Context) string { return h.settings.Values(ctx).DefaultPlan },
		Teams:       func(ctx context.Context) (int, error) { return h.directory.CountTeams(ctx) },
		InstanceLimit: func(ctx context.Context) (int64, bool, error) {
			return h.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano, true, nil
		}, Tokens: func(ctx context.Context, teamID string, from, to int64) (int64, int64, int64, error) {
			return h.tokens.Spent(ctx, teamID, from, to)
		}, Events: publisher, Audit: h.audit, Log: h.log.With("room", "quota")})
}

// fitSizes marks the sizes of a place that a user of a team may not have.
func (h *house) fitSizes(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error) {
	return h.quota.Sizes(ctx, teamID, userID, c)
}
