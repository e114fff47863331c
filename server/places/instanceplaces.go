package places

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// TryE2B tries a key and addresses without spending: whose key it is in words, or why it does not work (a fault).
type TryE2B func(ctx context.Context, with settings.E2B) (account string, err error)

func (h Instance) instancePlaces(v settings.Values) api.InstancePlaces {
	text := func(name, v string) api.TextSetting {
		return api.TextSetting{Value: v, Locked: h.cfg.Settings.Locked(name)}
	}
	yes := func(name string, v bool) api.YesSetting {
		return api.YesSetting{Value: v, Locked: h.cfg.Settings.Locked(name)}
	}
	number := func(name string, v int64) api.NumberSetting {
		return api.NumberSetting{Value: v, Locked: h.cfg.Settings.Locked(name)}
	}
	e := v.E2B
	out := api.InstancePlaces{DefaultExecutor: text(settings.DefaultExecutor, v.DefaultExecutor), AllowUserChoice: yes(settings.AllowUserChoice, v.AllowUserChoice),
		MonthlyBudgetUsd: number(settings.MonthlyBudgetUSD, v.MonthlyBudgetUSD),
		E2b: api.E2BSettings{Domain: text(settings.E2BDomain, e.Domain), ApiUrl: text(settings.E2BAPIURL, e.APIURL), SandboxUrl: text(settings.E2BSandboxURL, e.SandboxURL),
			Template: text(settings.E2BTemplate, e.Template), DefaultCpus: number(settings.E2BCPUs, e.DefaultCPUs), DefaultMemoryMb: number(settings.E2BMemory, e.DefaultMemoryMB),
			MaxSessionMinutes: number(settings.E2BMaxSession, e.MaxSessionMinutes), IdleMinutes: number(settings.E2BIdle, e.IdleMinutes),
			FallbackToLocal: yes(settings.E2BFallback, e.FallbackToLocal)}}
	out.E2b.Key.Set, out.E2b.Key.LastFour, out.E2b.Key.Locked = e.APIKey != "", h.cfg.Settings.KeyEnd(), h.cfg.Settings.Locked(settings.E2BKey)
	out.Pool.Enabled, out.Pool.Min, out.Pool.Max = yes(settings.PoolEnabled, v.Pool.Enabled), number(settings.PoolMin, v.Pool.Min), number(settings.PoolMax, v.Pool.Max)
	return out
}

func (h Instance) GetInstancePlaces(ctx context.Context, _ api.GetInstancePlacesRequestObject) (api.GetInstancePlacesResponseObject, error) {
	return api.GetInstancePlaces200JSONResponse(h.instancePlaces(h.cfg.Settings.Values(ctx))), nil
}

func (h Instance) SetInstancePlaces(ctx context.Context, req api.SetInstancePlacesRequestObject) (api.SetInstancePlacesResponseObject, error) {
	b, changes := req.Body, make(map[string]any)
	put(changes, settings.DefaultExecutor, b.DefaultExecutor)
	put(changes, settings.AllowUserChoice, b.AllowUserChoice)
	put(changes, settings.MonthlyBudgetUSD, b.MonthlyBudgetUsd)
	if e := b.E2b; e != nil {
		put(changes, settings.E2BKey, e.ApiKey)
		put(changes, settings.E2BDomain, e.Domain)
		put(changes, settings.E2BAPIURL, e.ApiUrl)
		put(changes, settings.E2BSandboxURL, e.SandboxUrl)
		put(changes, settings.E2BTemplate, e.Template)
		put(changes, settings.E2BCPUs, e.DefaultCpus)
		put(changes, settings.E2BMemory, e.DefaultMemoryMb)
		put(changes, settings.E2BMaxSession, e.MaxSessionMinutes)
		put(changes, settings.E2BIdle, e.IdleMinutes)
		put(changes, settings.E2BFallback, e.FallbackToLocal)
	}
	if p := b.Pool; p != nil {
		put(changes, settings.PoolEnabled, p.Enabled)
		put(changes, settings.PoolMin, p.Min)
		put(changes, settings.PoolMax, p.Max)
	}
	if d := b.DefaultExecutor; d != nil && *d != string(executors.Auto) {
		if _, ok := h.cfg.Choice.Place(ctx, executors.Kind(*d)); !ok {
			return nil, fault.New(fault.Invalid, "executor_unknown", "This server has no place %q.", *d).With("field", settings.DefaultExecutor)
		}
	}
	if err := h.keyGoesThere(ctx, changes); err != nil {
		return nil, err
	}
	var test *api.PlaceTest
	if key, ok := changes[settings.E2BKey].(string); ok && key != "" && !h.cfg.Settings.Locked(settings.E2BKey) {
		with := h.cfg.Settings.Values(ctx).E2B
		with.APIKey, with.Domain, with.APIURL = key, or(b.E2b.Domain, with.Domain), or(b.E2b.ApiUrl, with.APIURL)
		t, err := h.tryE2B(ctx, with)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Details["reason"] == "bad_key" {
			return nil, fault.Wrap(err, fault.Invalid, "key_refused", "E2B refused the key, so it was not kept. %s", t.Cure).With("field", settings.E2BKey)
		}
		test = &t
	}
	v, err := h.cfg.Settings.Set(ctx, rest.CallOf(ctx).Actor.User.ID, changes)
	if err != nil {
		return nil, err
	}
	h.cfg.Choice.Reprobe()
	if b.MonthlyBudgetUsd != nil { // what stands still for it may go on
		h.cfg.Quota.Changed(ctx, "")
	}
	out := h.instancePlaces(v)
	out.Test = test
	return api.SetInstancePlaces200JSONResponse(out), nil
}

// keyGoesThere refuses to send a key that is kept to another address: who changes the address enters the key again.
func (h Instance) keyGoesThere(ctx context.Context, changes map[string]any) error {
	held := h.cfg.Settings.Values(ctx).E2B
	if _, again := changes[settings.E2BKey]; again || held.APIKey == "" {
		return nil
	}
	for name, was := range map[string]string{settings.E2BDomain: held.Domain, settings.E2BAPIURL: held.APIURL, settings.E2BSandboxURL: held.SandboxURL} {
		if now, ok := changes[name].(string); ok && now != was {
			return fault.New(fault.Invalid, "key_needed", "Enter the key as well to use it at another address.").With("field", settings.E2BKey)
		}
	}
	return nil
}

func (h Instance) TestE2B(ctx context.Context, req api.TestE2BRequestObject) (api.TestE2BResponseObject, error) {
	with := h.cfg.Settings.Values(ctx).E2B
	b := req.Body
	if b.ApiKey == nil && with.APIKey != "" && (or(b.ApiUrl, with.APIURL) != with.APIURL || or(b.Domain, with.Domain) != with.Domain) {
		// A key that is kept goes to the addresses it was kept for, and nowhere else.
		return nil, fault.New(fault.Invalid, "key_needed", "Enter the key as well to try it at another address.").With("field", "api_key")
	}
	with.APIKey, with.Domain, with.APIURL = or(b.ApiKey, with.APIKey), or(b.Domain, with.Domain), or(b.ApiUrl, with.APIURL)
	t, _ := h.tryE2B(ctx, with)
	return api.TestE2B200JSONResponse(t), nil
}

// tryE2B says in words what came of trying.
func (h Instance) tryE2B(ctx context.Context, with settings.E2B) (api.PlaceTest, error) {
	if with.APIKey == "" {
		return api.PlaceTest{Reason: "No key is kept.", Cure: "Enter an API key of E2B (e2b.dev/dashboard, Keys)."}, nil
	}
	if h.cfg.TryE2B == nil {
		return api.PlaceTest{Reason: "This server cannot try it now.", Cure: "Start a workspace there."}, nil
	}
	account, err := h.cfg.TryE2B(ctx, with)
	if err == nil {
		return api.PlaceTest{Ok: true, Account: rest.Text(account)}, nil
	}
	t := api.PlaceTest{Reason: "E2B did not answer as it should.", Cure: "Look into the server's log, and try again."}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		t.Reason = f.Message
		t.Cure, _ = f.Details["cure"].(string)
	}
	h.Log.WarnContext(ctx, "E2B could not be tried", "error", err)
	return t, err
}

// put notes a change that was asked for.
func put[T any](changes map[string]any, name string, v *T) {
	if v != nil {
		changes[name] = *v
	}
}

// or is what v points to, else otherwise.
func or[T any](v *T, otherwise T) T {
	if v != nil {
		return *v
	}
	return otherwise
}
