package app

import (
	"context"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
)

// allowance is what teams and users may use, and what that costs.
type allowance struct {
	quota  *quota.Service
	prices *price.Book
	tokens *tokens.Meter
}

func newAllowance(b *base) *allowance {
	m := &allowance{}
	pc := fromconfig.Prices(b.cfg, b.kinds)
	pc.Store, pc.Now = store.NewPrices(b.db), b.clock.Now
	m.prices = price.New(pc)
	m.tokens = tokens.New(tokens.Config{Store: store.NewTokens(b.db), Events: b.events, Log: b.logOf("tokens")})
	m.quota = quota.New(quota.Config{Store: store.NewQuota(b.db), Now: b.clock.Now, PastDueDays: b.cfg.Billing.PastDueDays, GraceSeconds: b.cfg.Billing.GraceSeconds,
		DefaultPlan: b.plan, Teams: store.NewAccounts(b.db).CountTeams, OnServer: fromconfig.ServerKinds(b.kinds), Tokens: m.tokens.Spent, Events: b.events, Audit: b.audit, Log: b.logOf("quota"),
		InstanceLimit: func(ctx context.Context) (int64, bool, error) { return b.monthlyBudget(ctx), true, nil }})
	return m
}

// monthlyBudget is what operators allow the instance to cost in a month, which may change at any time.
func (b *base) monthlyBudget(ctx context.Context) int64 {
	return b.settings.Values(ctx).MonthlyBudgetUSD * billing.Nano
}

// pricing is what places cost now, for whatever makes sandboxes.
func (m *allowance) pricing(now func() int64) func(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool) {
	return func(k executors.Kind, cpus int, memoryMB int64) (int64, bool) {
		q := m.prices.Quote(string(k), cpus, memoryMB, now())
		return q.HourNano, q.Metered
	}
}

// money is what was used, and who pays for it.
type money struct {
	ledger   *billing.Ledger
	payments *stripe.Service
	reports  *stripe.Reporter
	gateway  *gateway.Service
	usage    *usage.Service
}

func newMoney(b *base, may *allowance, p *people, w *worktrees) *money {
	m := &money{usage: usage.New(store.NewUsage(b.db), b.clock.Now)}
	charges, public := store.NewBilling(b.db), b.cfg.Server.PublicURL
	operators := alerts.NewBudget(alerts.BudgetConfig{Paid: charges, Timelines: w.workspaces.Records, People: p.directory, Notify: p.notify, Mail: p.mail, PublicURL: public})
	m.ledger = billing.New(billing.Config{Store: charges, Prices: may.prices, Clock: b.clock, Events: b.events, Notify: operators.Notify, Admit: may.quota, Log: b.logOf("billing"),
		Budget: func(ctx context.Context) (billing.Budget, error) {
			return billing.Budget{LimitNano: b.monthlyBudget(ctx), Limited: true}, nil
		}})
	payers, c := alerts.NewPayments(alerts.PaymentsConfig{People: p.directory, Mail: p.mail, PublicURL: public}), b.cfg.Billing.Stripe
	m.payments = stripe.New(stripe.Config{SecretKey: c.SecretKey, WebhookSecrets: c.WebhookSecrets, APIBase: c.APIBase, AutomaticTax: c.AutomaticTax,
		PastDueDays: b.cfg.Billing.PastDueDays, DefaultPlan: b.plan, Store: store.NewStripe(b.db), Team: payers.Team, Changed: may.quota.Changed, Notify: payers.Notify,
		Audit: b.audit, Events: b.events, Log: b.logOf("payments")})
	if m.payments.Enabled() && !m.payments.AcceptsWebhooks() {
		b.log.Warn("payments are enabled without a webhook: changes at Stripe are noticed only within hours", "hint", "run: parawork billing setup, or set billing.stripe.webhookSecrets")
	}
	m.reports = stripe.NewReporter(stripe.ReporterConfig{Payments: m.payments, Store: store.NewUsageReports(b.db), Frozen: m.ledger.Frozen})
	models := egress.New(egress.Config{Allow: b.cfg.Outgoing.Networks(), Streams: true})
	m.gateway = gateway.New(gateway.Config{Store: store.NewGateway(b.db), Meter: may.tokens, Account: gateway.FromAccounts(p.agentAccounts, agents.Provider), TeamAccount: gateway.OpenAIOf(p.agentAccounts, agents.Provider), Budget: may.quota,
		MaxOutput: b.cfg.Gateway.MaxOutputTokens, Client: models.Client, Check: models.Check, Key: b.key, MaxBody: b.cfg.Gateway.MaxBodyMB << 20,
		FirstByte: time.Duration(b.cfg.Gateway.FirstByteSeconds) * time.Second, Log: b.logOf("gateway")})
	return m
}
