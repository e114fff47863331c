package executors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/schema"
)

// Descriptor is what the rest of the program needs to know of a kind of place. Each kind's folder has one, and executors/kinds lists them; nothing
// else names a kind. docs/extend-executor.md says how to add one.
type Descriptor struct {
	Kind     Kind
	Label    string   // what people call it
	Rank     int      // its place in lists, and among those that Auto may mean: the lowest comes first
	Boundary Boundary // what keeps an agent in, where it works as it should
	Family   bool     // it is many places, whose members come and go; see Family. New is nil then
	Auto     bool     // a workspace for which nobody names a place may live there
	Free     bool     // nothing is ever charged for it
	// OnServer says that it isolates on this server, whose processors and disk its sandboxes share: its time counts, and its sandboxes have
	// limits, as soon as several teams do.
	OnServer bool

	// Regions are the keys of Settings that each region of the place says for itself: addresses, the secret, prices. None: it has no regions.
	// A region is a place of its own of the kind "<kind>@<region>", with settings of its own in sandboxing.<kind>@<region>. What it leaves
	// empty is as the place says, but for the secret and the addresses: one that says any of those gets none of the place's.
	Regions  []string
	Settings schema.Schema // of sandboxing.<kind>. Where there is a key "enabled", it switches the kind off
	Docs     string        // its page, such as docs/e2b.md
	Verbs    []Verb        // of the command line: parawork <kind> <verb>
	Idle     IdleRule

	// New makes the executor; nil where its settings say that there is none. Nothing runs yet, and nobody is asked.
	New func(d Deps) (Executor, error)

	// What follows is optional.

	Probe     func(schema.Values) string                                           // of a kind with regions: the address that browsers measure
	Price     func(schema.Values) Price                                            // as it comes with the program and config.json; nil = none
	Limits    func(schema.Values) Limits                                           // of each of its sandboxes, whatever else says
	Fallback  func(schema.Values) bool                                             // this server may stand in for it, where people agreed to that
	HostPaths func(schema.Values) []string                                         // files and folders of this server that its sandboxes see
	Images    func(schema.Values) ImageRules                                       // what its sandboxes may be made from; only with the ability Imager
	Support   func(schema.Values, cgroup.Support) error                            // refuses settings that this machine cannot keep
	Test      func(ctx context.Context, v schema.Values) (string, error)           // tries settings without spending: what they give, in words
	Examine   func(ctx context.Context, v schema.Values, c Capabilities) []Finding // what the doctor says of a place that works
}

// Deps are what executors are made with.
type Deps struct {
	Kind      Kind                                // as the Descriptor's, or that of a region
	Dir       string                              // absolute: one folder for each sandbox below it
	GuestPath string                              // the guest's binary
	Agents    []recipe.Package                    // the agents that images are given which lack them
	Groups    *cgroup.Tree                        // the control groups sandboxes get one of; nil = none
	Teams     func(context.Context) (int, error)  // teams of the instance
	Settings  schema.Values                       // what config.json says of the kind
	Now       func(context.Context) schema.Values // what holds now: operators change settings that the API has while the server runs
	Log       *slog.Logger
}

// Price is what a place costs. The numbers are nano-USD.
type Price struct {
	VCPUSecondNano int64 // a vCPU and second
	GiBSecondNano  int64 // a GiB of memory and second
	Metered        bool  // its time counts in people's hours
}

// IdleRule says how long a sandbox of a kind may be idle before it is ended.
type IdleRule struct {
	Usual time.Duration                     // where nobody says anything; 0 = for ever
	Paid  func(schema.Values) time.Duration // idle sandboxes cost money: the kind's own settings say how long; nil elsewhere
	Owned bool                              // its owner alone decides what runs: none is ended
}

// PaidIdle is the rule of a kind whose idle sandboxes cost money: the seconds of the setting key say how long; 0 = for ever.
func PaidIdle(key string) IdleRule {
	return IdleRule{Paid: func(v schema.Values) time.Duration { return time.Duration(v.Number(key)) * time.Second }}
}

// Finding is something the doctor says.
type Finding struct {
	Found, Cure string
}

// Off says why a kind is switched off by its settings, and what to do; "" = it is not.
func (d Descriptor) Off(v schema.Values) (why, cure string) {
	if _, ok := d.Settings.Find("enabled"); !ok || !v.Said("enabled") || v.On("enabled") {
		return "", ""
	}
	return "is switched off", fmt.Sprintf("Set sandboxing.%s.enabled to true", d.Kind)
}

// Descriptors are the kinds of places the program has, in the order of rank.
type Descriptors []Descriptor

// NewDescriptors puts kinds into their order. It panics on one that contradicts itself, or another.
func NewDescriptors(all ...Descriptor) Descriptors {
	out := slices.SortedStableFunc(slices.Values(all), func(a, b Descriptor) int { return a.Rank - b.Rank })
	for i, d := range out {
		if d.Regions != nil && !slices.Contains(d.Regions, KeyRegionName) { // else it is one of a list that was put in order before
			out[i].Settings = slices.Concat(d.Settings, regionFields)
			out[i].Regions = append(slices.Clone(d.Regions), KeyRegionName, KeyProbeURL)
		}
	}
	seen := make(map[Kind]bool)
	for _, d := range out {
		err := d.Settings.Validate()
		switch {
		case err != nil:
		case d.Kind == "" || d.Kind == Auto || d.Kind != d.Kind.Base() || seen[d.Kind]:
			err = fmt.Errorf("the name of a kind must be its own")
		case d.Label == "" || d.Docs == "":
			err = fmt.Errorf("a kind needs a label and a page")
		case slices.ContainsFunc(d.Regions, func(key string) bool { _, ok := d.Settings.Find(key); return !ok }):
			err = fmt.Errorf("a region says what the place does not")
		case d.Family != (d.New == nil):
			err = fmt.Errorf("a kind needs New, and a family has none")
		}
		if err != nil {
			panic(fmt.Errorf("executors: %q: %w", d.Kind, err))
		}
		seen[d.Kind] = true
	}
	return out
}

// Find returns a kind, also that of a member of a family, and of a region.
func (ds Descriptors) Find(k Kind) (Descriptor, bool) {
	i := slices.IndexFunc(ds, func(d Descriptor) bool { return d.Kind == k.Base().Provider() })
	if i < 0 {
		return Descriptor{}, false
	}
	if k.Region() == "" {
		return ds[i], true
	}
	if _, _, ok := SplitRegion(string(k)); !ok || ds[i].Regions == nil {
		return Descriptor{}, false
	}
	d := ds[i]
	d.Kind, d.Label, d.Settings, d.Auto = k, d.Label+" · "+k.Region(), d.RegionSettings(), false
	return d, true
}

// The settings that every place with regions has, and each region.
const (
	KeyRegionName = "regionName"
	KeyProbeURL   = "probeUrl"
)

var regionFields = schema.Schema{
	{Key: KeyRegionName, Name: "region_name", Type: schema.Text, Label: "Name of the region", Example: "Europe", Rare: true, Hint: "Shown where the place has several regions."},
	{Key: KeyProbeURL, Name: "probe_url", Type: schema.Text, Label: "Address that browsers measure", Example: "https://eu.example.com/ping", Rare: true,
		Hint: "Browsers ask it to find the nearest region. Empty for the address of the API.", Check: func(v any) string {
			if u, err := url.Parse(v.(string)); v != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
				return "must be an address such as https://eu.example.com/ping"
			}
			return ""
		}},
}

// RegionSettings are the settings of each region: what it leaves empty is as the place says.
func (d Descriptor) RegionSettings() schema.Schema {
	var out schema.Schema
	for _, f := range d.Settings {
		if !slices.Contains(d.Regions, f.Key) {
			continue
		}
		check := f.Check
		f.Default, f.Env, f.Min, f.Rare = nil, "", 0, f.Rare && f.Key != KeyRegionName && !f.Address
		if check != nil {
			f.Check = func(v any) string {
				if v == "" || v == int64(0) {
					return ""
				}
				return check(v)
			}
		}
		out = append(out, f)
	}
	return out
}

// InRegion are the settings by which a region works: the place's own, with what the region says.
func (d Descriptor) InRegion(place, region schema.Values) schema.Values {
	elsewhere := false // it has a secret or an address of its own
	for _, f := range region.Schema() {
		elsewhere = elsewhere || (f.Type == schema.Secret || f.Address) && region.Text(f.Key) != ""
	}
	out := place
	for _, f := range region.Schema() {
		v := region.Value(f.Key)
		if empty := v == nil || v == "" || v == int64(0); !empty || (f.Type == schema.Secret || f.Address) && elsewhere || f.Key == KeyRegionName || f.Key == KeyProbeURL {
			out = out.With(f.Key, v)
		}
	}
	return out
}

// RegionLabel is what people call a place or a region of it, by its settings.
func RegionLabel(label string, k Kind, v schema.Values) string {
	if name := cmp.Or(v.Text(KeyRegionName), k.Region()); name != "" {
		return label + " · " + name
	}
	return label
}

// Kinds are the kinds for which is says yes, in their order.
func (ds Descriptors) Kinds(is func(Descriptor) bool) []Kind {
	var out []Kind
	for _, d := range ds {
		if is(d) {
			out = append(out, d.Kind)
		}
	}
	return out
}
