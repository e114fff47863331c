package main

import (
	"context"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/store"
)

// givenBy are the keys of config.json that lock a setting.
var givenBy = map[string]string{
	settings.DefaultExecutor: "sandboxing.defaultProvider", settings.AllowUserChoice: "sandboxing.allowUserChoice", settings.MonthlyBudgetUSD: "sandboxing.monthlyBudgetUsd",
	settings.DefaultPlan: "billing.defaultPlan",
	settings.E2BDomain:   "sandboxing.e2b.domain", settings.E2BAPIURL: "sandboxing.e2b.apiUrl", settings.E2BSandboxURL: "sandboxing.e2b.sandboxUrl",
	settings.E2BTemplate: "sandboxing.e2b.template", settings.E2BCPUs: "sandboxing.e2b.defaultCpu", settings.E2BMemory: "sandboxing.e2b.defaultRam",
	settings.E2BMaxSession: "sandboxing.e2b.maxSessionDuration", settings.E2BIdle: "sandboxing.e2b.autoShutdownIdle", settings.E2BFallback: "sandboxing.e2b.fallbackToLocal",
	settings.PoolEnabled: "sandboxing.pool.enabled", settings.PoolMin: "sandboxing.pool.min", settings.PoolMax: "sandboxing.pool.max",
}

// baseSettings are what config.json says, and which of it is locked. A key of E2B that config.json or the environment gives locks the
// addresses, too: it goes to no others.
func baseSettings(cfg *config.Config) (settings.Values, map[string]bool) {
	s, e := cfg.Sandboxing, cfg.Sandboxing.E2B
	v := settings.Values{DefaultExecutor: s.DefaultProvider, AllowUserChoice: s.AllowUserChoice, MonthlyBudgetUSD: int64(s.MonthlyBudgetUSD), DefaultPlan: cfg.Billing.Plan(),
		E2B: settings.E2B{APIKey: e.APIKey, Domain: e.Domain, APIURL: e.APIURL, SandboxURL: e.SandboxURL, Template: e.Template, DefaultCPUs: int64(e.DefaultCPU),
			DefaultMemoryMB: int64(e.DefaultRAM), MaxSessionMinutes: int64(e.MaxSessionDuration+59) / 60, IdleMinutes: int64(e.AutoShutdownIdle+59) / 60, FallbackToLocal: e.FallbackToLocal},
		Pool: settings.Pool{Enabled: s.Pool.Enabled, Min: int64(s.Pool.Min), Max: int64(s.Pool.Max)}}
	locked := make(map[string]bool)
	for name, key := range givenBy {
		locked[name] = cfg.Given(key)
	}
	if e.APIKey != "" {
		for _, name := range [...]string{settings.E2BKey, settings.E2BDomain, settings.E2BAPIURL, settings.E2BSandboxURL} {
			locked[name] = true
		}
	}
	return v, locked
}

// buildSettings reads what operators have said about places, which holds from now on.
func (h *house) buildSettings(ctx context.Context) error {
	base, locked := baseSettings(h.cfg)
	h.settings = settings.New(settings.Config{Store: store.NewPlaceSettings(h.db), Sealer: h.vault, Base: base, Locked: locked,
		Changed: func(v settings.Values) {
			h.choice.SetRules(choice.Rules{Default: executors.Kind(v.DefaultExecutor), Fixed: !v.AllowUserChoice})
		}, Log: h.log.With("room", "settings")})
	h.places.UseFallback(h.moves.FallBack)
	return h.settings.Load(ctx)
}
