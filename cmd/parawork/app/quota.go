package app

import (
	"context"
	"errors"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
)

// buildQuota makes what decides who may use how much. It comes before the ledger, which asks it.
func (h *App) buildQuota(publisher events.Publisher) {
	b := h.cfg.Billing
	h.quota = quota.New(quota.Config{Store: store.NewQuota(h.db), Now: h.clock.Now, PastDueDays: b.PastDueDays, GraceSeconds: b.GraceSeconds,
		DefaultPlan: func(ctx context.Context) string { return h.settings.Values(ctx).DefaultPlan },
		Teams:       func(ctx context.Context) (int, error) { return h.directory.CountTeams(ctx) },
		InstanceLimit: func(ctx context.Context) (int64, bool, error) {
			return h.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano, true, nil
		}, Tokens: func(ctx context.Context, teamID string, from, to int64) (int64, int64, int64, error) {
			return h.tokens.Spent(ctx, teamID, from, to)
		}, Events: publisher, Audit: h.audit, Log: h.log.With("room", "quota")})
}

// fitSizes marks the sizes of a place that a user of a team may not have.
func (h *App) fitSizes(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error) {
	return h.quota.Sizes(ctx, teamID, userID, c)
}

// buildEnforcer makes what holds running work to its limits.
func (h *App) buildEnforcer() {
	kept := store.NewEnforce(h.db)
	tell := alerts.NewLimits(alerts.LimitsConfig{Running: kept, Timelines: h.workspaces, People: h.directory, Mail: h.mail, Events: h.publisher, Audit: h.audit,
		Terminals: h.sessions.Turned, Now: h.clock.Now, PublicURL: h.cfg.Server.PublicURL})
	h.enforcer = quota.NewEnforcer(quota.EnforcerConfig{Store: kept, Standings: h.quota, Places: heldPlaces{h.places}, Teller: tell, Now: h.clock.Now,
		Log: h.log.With("room", "enforce")})
	h.quota.OnChanged(h.enforcer.Changed)
}

// heldPlaces are the sandboxes as limits see them.
type heldPlaces struct{ *manager.Manager }

// Hold has a sandbox stand still for a reason.
func (p heldPlaces) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (bool, error) {
	paused, err := p.Manager.Hold(ctx, workspaceID, sandboxID, reason)
	if errors.Is(err, executors.ErrGone) {
		return false, quota.ErrElsewhere
	}
	return paused, err
}

// Paused says why a workspace's sandbox stands still, false when it does not.
func (p heldPlaces) Paused(workspaceID string) (string, bool) { return p.Held(workspaceID) }

// Wake has it go on.
func (p heldPlaces) Wake(ctx context.Context, workspaceID string) error {
	return p.Unhold(ctx, workspaceID)
}

// terminalGrace is what terminals show of a grace.
func (h *App) terminalGrace(workspaceID string) (sessions.Grace, bool) {
	g, ok := h.enforcer.Grace(workspaceID)
	if !ok {
		return sessions.Grace{}, false
	}
	out := sessions.Grace{Scope: g.Scope, State: string(g.State), EndsAt: g.EndsAt, Reason: g.Reason}
	if g.State == quota.GraceCounting {
		out.LeftMs = max(g.EndsAt-h.clock.Now(), 0)
	}
	return out, true
}
