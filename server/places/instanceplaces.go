package places

import (
	"context"
	"errors"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

func (h Instance) GetInstancePlaces(ctx context.Context, _ api.GetInstancePlacesRequestObject) (api.GetInstancePlacesResponseObject, error) {
	return api.GetInstancePlaces200JSONResponse(h.instancePlaces(ctx)), nil
}

func (h Instance) SetInstancePlaces(ctx context.Context, req api.SetInstancePlacesRequestObject) (api.SetInstancePlacesResponseObject, error) {
	changes := req.Body.Values
	if _, ok := changes[settings.DefaultPlan]; ok {
		return nil, fault.New(fault.Invalid, "invalid_setting", "The default plan is set with the plans.").With("field", settings.DefaultPlan)
	}
	if d, ok := changes[settings.DefaultExecutor].(string); ok && d != string(executors.Auto) {
		if _, known := h.cfg.Choice.Place(ctx, executors.Kind(d)); !known {
			return nil, fault.New(fault.Invalid, "executor_unknown", "This server has no place %q.", d).With("field", settings.DefaultExecutor)
		}
	}
	if _, err := h.cfg.Settings.Set(ctx, rest.CallOf(ctx).Actor.User.ID, changes); err != nil {
		return nil, err
	}
	h.cfg.Choice.Reprobe()
	if _, ok := changes[settings.MonthlyBudgetUSD]; ok { // sandboxes that were suspended for it may resume
		h.cfg.Quota.Changed(ctx, "")
	}
	return api.SetInstancePlaces200JSONResponse(h.instancePlaces(ctx)), nil
}

func (h Instance) GetPlaceSettings(ctx context.Context, req api.GetPlaceSettingsRequestObject) (api.GetPlaceSettingsResponseObject, error) {
	d, err := h.kind(req.Kind)
	if err != nil {
		return nil, err
	}
	return api.GetPlaceSettings200JSONResponse(h.placeSettings(ctx, d)), nil
}

func (h Instance) SetPlaceSettings(ctx context.Context, req api.SetPlaceSettingsRequestObject) (api.SetPlaceSettingsResponseObject, error) {
	d, err := h.kind(req.Kind)
	if err != nil {
		return nil, err
	}
	if d.Kind.Region() != "" {
		if err := h.cfg.Settings.AddRegion(ctx, rest.CallOf(ctx).Actor.User.ID, string(d.Kind)); err != nil {
			return nil, err
		}
	}
	with, err := h.trial(ctx, d, req.Body.Values, "use")
	if err != nil {
		return nil, err
	}
	var test *api.PlaceTest
	if secret, ok := d.Settings.Secret(); ok && d.Test != nil && with.Text(secret.Key) != "" && req.Body.Values[secret.Name] != nil {
		t, err := h.test(ctx, d, with)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Details["reason"] == "bad_key" {
			return nil, fault.Wrap(err, fault.Invalid, "key_refused", "%s refused the key, so it was not kept. %s", d.Label, rest.Val(t.Hint)).With("field", secret.Name)
		}
		test = &t
	}
	audit.Note(ctx, "place", string(d.Kind))
	if err := h.cfg.Settings.SetPlace(ctx, rest.CallOf(ctx).Actor.User.ID, string(d.Kind), req.Body.Values); err != nil {
		return nil, err
	}
	if d.Kind.Region() != "" && h.cfg.AddRegions != nil {
		if err := h.cfg.AddRegions(ctx); err != nil {
			return nil, err
		}
	}
	h.cfg.Choice.Reprobe()
	out := h.placeSettings(ctx, d)
	out.Test = test
	return api.SetPlaceSettings200JSONResponse(out), nil
}

func (h Instance) RemovePlaceRegion(ctx context.Context, req api.RemovePlaceRegionRequestObject) (api.RemovePlaceRegionResponseObject, error) {
	d, err := h.kind(req.Kind)
	if err != nil {
		return nil, err
	}
	if d.Kind.Region() == "" || h.cfg.RemoveRegion == nil {
		return nil, fault.New(fault.Unsupported, "place_not_region", "%s is no region. To stop using it, empty its settings.", d.Label).With("field", "kind")
	}
	audit.Note(ctx, "place", string(d.Kind))
	if err := h.cfg.RemoveRegion(ctx, rest.CallOf(ctx).Actor.User.ID, d.Kind); err != nil {
		return nil, err
	}
	h.cfg.Choice.Reprobe()
	return api.RemovePlaceRegion200JSONResponse(h.instancePlaces(ctx)), nil
}

func (h Instance) TestPlace(ctx context.Context, req api.TestPlaceRequestObject) (api.TestPlaceResponseObject, error) {
	d, err := h.kind(req.Kind)
	if err != nil {
		return nil, err
	}
	if d.Test == nil {
		return nil, fault.New(fault.Unsupported, "place_not_testable", "%s has no settings that could be tried. Start a workspace there.", d.Label)
	}
	with, err := h.trial(ctx, d, req.Body.Values, "try")
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "place", string(d.Kind))
	t, _ := h.test(ctx, d, with)
	return api.TestPlace200JSONResponse(t), nil
}

// kind finds a kind of place.
func (h Instance) kind(name string) (executors.Descriptor, error) {
	d, ok := h.cfg.Kinds.Find(executors.Kind(name))
	if !ok || string(d.Kind) != name {
		return d, fault.New(fault.NotFound, "executor_unknown", "This server has no place %q.", name).With("field", "kind")
	}
	return d, nil
}

// trial is what would hold of a kind with changes. A secret that is kept goes to the addresses it was kept for, and nowhere else: who changes one
// enters the secret again.
func (h Instance) trial(ctx context.Context, d executors.Descriptor, changes map[string]any, verb string) (schema.Values, error) {
	held, with, err := h.cfg.Settings.Check(ctx, string(d.Kind), changes)
	if err != nil {
		return with, err
	}
	secret, ok := d.Settings.Secret()
	if _, again := changes[secret.Name]; !ok || again || held.Text(secret.Key) == "" {
		return with, nil
	}
	for _, f := range d.Settings {
		if f.Address && held.Text(f.Key) != with.Text(f.Key) {
			return with, fault.New(fault.Invalid, "key_needed", "Enter the key as well to %s it at another address.", verb).With("field", secret.Name)
		}
	}
	return with, nil
}

// test says in words what came of trying a kind.
func (h Instance) test(ctx context.Context, d executors.Descriptor, with schema.Values) (api.PlaceTest, error) {
	if base, ok := h.cfg.Kinds.Find(d.Kind.Provider()); ok && d.Kind.Region() != "" {
		place, _ := h.cfg.Settings.Place(ctx, string(base.Kind))
		with = base.InRegion(place, with)
	}
	account, err := d.Test(ctx, with)
	if err == nil {
		return api.PlaceTest{Ok: true, Account: rest.Text(account)}, nil
	}
	reason, cure := d.Label+" did not answer as it should.", "Look into the server's log, and try again."
	if f, ok := errors.AsType[*fault.Error](err); ok {
		reason = f.Message
		cure, _ = f.Details["hint"].(string)
	}
	h.Log.WarnContext(ctx, "a place could not be tried", "executor", d.Kind, "error", err)
	return api.PlaceTest{Reason: rest.Text(reason), Hint: rest.Text(cure)}, err
}

func (h Instance) instancePlaces(ctx context.Context) api.InstancePlaces {
	v := h.cfg.Settings.General(ctx)
	out := api.InstancePlaces{Settings: []api.Setting{}, Places: []api.PlaceSettings{}}
	for _, f := range settings.Instance {
		switch f.Name {
		case settings.DefaultPlan: // stands with the plans
			continue
		case settings.DefaultExecutor:
			f.Type, f.Options = schema.Choice, h.choices()
		}
		out.Settings = append(out.Settings, settingOf(f, v.Value(f.Key), "", h.cfg.Settings.Locked(f.Name)))
	}
	for _, d := range h.cfg.Kinds {
		out.Places = append(out.Places, h.placeSettings(ctx, d))
		for _, name := range h.cfg.Settings.Regions(ctx, string(d.Kind)) {
			if r, ok := h.cfg.Kinds.Find(executors.Kind(name)); ok {
				out.Places = append(out.Places, h.placeSettings(ctx, r))
			}
		}
	}
	return out
}

// choices are the places that workspaces may get that name none.
func (h Instance) choices() []schema.Option {
	out := []schema.Option{{Value: string(executors.Auto), Label: "The strongest on this server"}}
	for _, d := range h.cfg.Kinds {
		if _, ok := h.cfg.Executors.OwnOf(d.Kind); ok {
			out = append(out, schema.Option{Value: string(d.Kind), Label: d.Label})
		}
	}
	return out
}

func (h Instance) placeSettings(ctx context.Context, d executors.Descriptor) api.PlaceSettings {
	v, lastFour := h.cfg.Settings.Place(ctx, string(d.Kind))
	out := api.PlaceSettings{Kind: string(d.Kind), Label: d.Label, Docs: d.Docs, Rank: d.Rank, Boundary: api.Boundary(d.Boundary), Free: d.Free, Family: d.Family,
		Testable: d.Test != nil, Settings: []api.Setting{}, Regional: new(d.Regions != nil && d.Kind.Region() == "")}
	if d.Kind.Region() != "" {
		if base, ok := h.cfg.Kinds.Find(d.Kind.Provider()); ok && v.Schema() != nil {
			out.Label = executors.RegionLabel(base.Label, d.Kind, v)
		}
	}
	for _, f := range d.Settings.Shown() {
		out.Settings = append(out.Settings, settingOf(f, v.Value(f.Key), lastFour, h.cfg.Settings.LockedIn(string(d.Kind), f.Name)))
	}
	return out
}

// settingOf is a setting as a form needs it.
func settingOf(f schema.Field, value any, lastFour string, locked bool) api.Setting {
	out := api.Setting{Name: f.Name, Label: f.Label, Hint: rest.Text(f.Hint), Type: api.SettingType(f.Type), Unit: rest.Text(f.Unit), Placeholder: rest.Text(f.Example), Locked: locked}
	switch f.Type {
	case schema.Secret:
		set := value != ""
		out.Set, out.LastFour = &set, rest.Text(lastFour)
		if f.Optional {
			out.Optional = &f.Optional
		}
	case schema.Number:
		least, most := f.Bounds()
		if out.Min = &least; most > 0 {
			out.Max = &most
		}
		out.Value = f.Out(value)
	default:
		out.Value = f.Out(value)
	}
	if f.Rare {
		out.Group = rest.Text("advanced")
	}
	if len(f.Options) > 0 {
		type option = struct {
			Label string `json:"label"`
			Value string `json:"value"`
		}
		all := []option{}
		for _, o := range f.Options {
			all = append(all, option{o.Label, o.Value})
		}
		out.Options = &all
	}
	return out
}
