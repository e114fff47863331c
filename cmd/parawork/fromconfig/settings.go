package fromconfig

import (
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/schema"
)

// Settings are those that operators may change in the browser: what config.json says, and which of it is locked. A secret that config.json or the
// environment gives locks the addresses, too: it goes to no others. So do headers, which may hold a credential.
func Settings(cfg *config.Config, kinds executors.Descriptors) settings.Config {
	s := cfg.Sandboxing
	v := settings.Instance.Defaults()
	for key, value := range map[string]any{
		"sandboxing.defaultProvider": s.DefaultProvider, "sandboxing.allowUserChoice": s.AllowUserChoice, "sandboxing.monthlyBudgetUsd": s.MonthlyBudgetUSD,
		"sandboxing.pool.enabled": s.Pool.Enabled, "sandboxing.pool.min": s.Pool.Min, "sandboxing.pool.max": s.Pool.Max, "billing.defaultPlan": cfg.Billing.Plan(),
	} {
		v = v.With(key, value)
	}
	out := settings.Config{Instance: group(cfg, v, ""), Places: make(map[string]settings.Group)}
	for _, d := range kinds {
		out.Places[string(d.Kind)] = group(cfg, s.Of(string(d.Kind)), "sandboxing."+string(d.Kind)+".")
		for _, region := range s.Regions(string(d.Kind)) {
			out.Places[region] = group(cfg, s.Of(region), "sandboxing."+region+".")
		}
	}
	out.Region = func(kind string) (schema.Schema, bool) {
		d, ok := kinds.Find(executors.Kind(kind))
		return d.Settings, ok && d.Kind.Region() != ""
	}
	return out
}

// group are settings whose keys stand in config.json behind head.
func group(cfg *config.Config, v schema.Values, head string) settings.Group {
	g := settings.Group{Base: v, Locked: make(map[string]bool)}
	secret, ok := v.Schema().Secret()
	given := ok && v.Text(secret.Key) != ""
	headers := false
	for _, f := range v.Schema() {
		headers = headers || f.Type == schema.Map && cfg.Given(head+f.Key)
	}
	for _, f := range v.Schema().Shown() {
		g.Locked[f.Name] = cfg.Given(head+f.Key) && f.Type != schema.Secret || given && f.Type == schema.Secret || (given || headers) && f.Address
	}
	return g
}
