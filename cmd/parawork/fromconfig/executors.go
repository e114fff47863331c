package fromconfig

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools/demo"
)

// Kinds are the kinds of places as config.json knows them.
func Kinds(all executors.Descriptors) []config.Kind {
	var out []config.Kind
	for _, d := range all {
		k := config.Kind{Name: string(d.Kind), Settings: d.Settings}
		if d.Regions != nil {
			k.Region = d.RegionSettings()
		}
		out = append(out, k)
	}
	return out
}

// PlaceValues are what config.json says of a kind of place; of a region, with what the place says.
func PlaceValues(cfg *config.Config, kinds executors.Descriptors, k executors.Kind) schema.Values {
	if d, ok := kinds.Find(k.Provider()); ok && k.Region() != "" {
		return d.InRegion(cfg.Sandboxing.Of(string(d.Kind)), cfg.Sandboxing.Of(string(k)))
	}
	return cfg.Sandboxing.Of(string(k))
}

// Executors are the executors of this server, in the order of rank.
type Executors []executors.Executor

// Close gives back what they opened. Sandboxes live on.
func (all Executors) Close() error {
	var failed []error
	for _, e := range all {
		if c, ok := e.(io.Closer); ok {
			failed = append(failed, c.Close())
		}
	}
	return errors.Join(failed...)
}

// Site is what executors have of the server they are on.
type Site struct {
	Guest  string // the guest's binary
	Groups *cgroup.Tree
	Teams  func(context.Context) (int, error)
	// Settings is what holds of a kind now; nil = config.json alone.
	Settings func(context.Context, executors.Kind) schema.Values
	Log      *slog.Logger
}

// NewExecutors makes those that config.json has. Nothing runs yet.
func NewExecutors(cfg *config.Config, kinds executors.Descriptors, s Site) (_ Executors, err error) {
	var all Executors
	defer func() {
		if err != nil {
			_ = all.Close() // why they could not all be made says more
		}
	}()
	for _, d := range kinds {
		if d.Family {
			continue
		}
		names := append([]string{string(d.Kind)}, cfg.Sandboxing.Regions(string(d.Kind))...)
		for _, name := range names {
			e, err := NewExecutor(cfg, d, executors.Kind(name), s)
			if err != nil {
				return all, err
			}
			if e != nil {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// NewExecutor makes that of a kind, or of one of its regions; nil where its settings say that there is none. d is the kind's.
func NewExecutor(cfg *config.Config, d executors.Descriptor, k executors.Kind, s Site) (executors.Executor, error) {
	said := PlaceValues(cfg, executors.Descriptors{d}, k)
	now := func(ctx context.Context) schema.Values {
		if s.Settings == nil {
			return said
		}
		return s.Settings(ctx, k)
	}
	return d.New(executors.Deps{Kind: k, Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: s.Guest, Agents: agents.Packages(), Groups: s.Groups, Teams: s.Teams,
		Settings: said, Now: now, Log: s.Log.With("component", string(k))})
}

// PlaceRules are the instance's own words about places.
func PlaceRules(cfg *config.Config, kinds executors.Descriptors, teams func(context.Context) (int, error)) choice.Config {
	s := cfg.Sandboxing
	return choice.Config{Order: kinds.Kinds(func(d executors.Descriptor) bool { return d.Auto }), Default: executors.Kind(s.DefaultProvider), Fixed: !s.AllowUserChoice,
		Weakest: executors.Boundary(s.WeakestBoundary), Teams: teams,
		IdleAfter: IdleRules(cfg, kinds, func(k executors.Kind) schema.Values { return PlaceValues(cfg, kinds, k) }).After}
}

// IdleRules say how long sandboxes may be idle. settings is what holds of a kind now.
func IdleRules(cfg *config.Config, kinds executors.Descriptors, settings func(executors.Kind) schema.Values) executors.IdleRules {
	r := executors.IdleRules{Kinds: kinds, Settings: settings}
	if m := cfg.Sandboxing.IdleStopMinutes; m != nil {
		said := time.Duration(*m) * time.Minute
		r.Said = &said
	}
	return r
}

// CheckDefault refuses a defaultProvider that this server can never use, and warns of one that cannot be used now.
func CheckDefault(ctx context.Context, cfg *config.Config, kinds executors.Descriptors, chosen *choice.Chooser, log *slog.Logger) error {
	kind := executors.Kind(cfg.Sandboxing.DefaultProvider)
	if kind == executors.Auto {
		return nil
	}
	d, ok := kinds.Find(kind)
	why, cure := d.Off(cfg.Sandboxing.Of(string(d.Kind)))
	switch {
	case !ok:
		why, cure = "is not part of this version", `Set sandboxing.defaultProvider to "auto" or to a place this server has.`
	case d.Family:
		why, cure = "is no single place: it is chosen for a workspace, machine by machine", `Set sandboxing.defaultProvider to "auto" or to a place this server has.`
	case why != "":
		cure += `, or sandboxing.defaultProvider to "auto".`
	}
	if why != "" {
		return fault.New(fault.Invalid, "default_place_impossible", "sandboxing.defaultProvider: %q %s. %s", kind, why, cure)
	}
	c, ok := chosen.Place(ctx, kind)
	if ok && c.Boundary != "" && !c.Boundary.AtLeast(chosen.Weakest()) {
		return fault.New(fault.Invalid, "default_place_impossible",
			"sandboxing.defaultProvider: %q is weaker (%s) than sandboxing.weakestBoundary, %q. Change one of the two.", kind, strings.ToLower(c.Boundary.Name()), chosen.Weakest())
	}
	if ok && !c.Available {
		log.Warn("NO NEW WORKSPACE CAN BE MADE: the place sandboxing.defaultProvider names cannot be used now", "place", kind, "reason", c.Reason, "hint", c.Cure)
	}
	return nil
}

// CheckDemo refuses a public demo in a place that does not keep strangers in.
func CheckDemo(cfg *config.Config, kinds executors.Descriptors) error {
	if !cfg.Demo.Enabled {
		return nil
	}
	kind := executors.Kind(cfg.Demo.Executor)
	d, ok := kinds.Find(kind)
	why, cure := d.Off(cfg.Sandboxing.Of(string(kind)))
	switch {
	case !ok:
		why = "is not part of this version"
	case d.Family:
		why = "is members' own machines"
	case d.Boundary == "" || d.Boundary == executors.NoBoundary:
		why = "does not isolate: anybody could read and change what the server can"
	}
	if why == "" {
		return nil
	}
	if cure != "" {
		cure += ", or "
	}
	return fault.New(fault.Invalid, "demo_place_unsafe", "demo.executor: %q %s. %s", kind, why, upper(cure+"set demo.executor to a place that isolates, such as docker, or demo.enabled to false."))
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// DemoLimits are those of the public demo.
func DemoLimits(c config.Demo) demo.Limits {
	return demo.Limits{Life: time.Duration(c.Minutes) * time.Minute, Idle: time.Duration(min(c.IdleSeconds, c.Minutes*60)) * time.Second, AtOnce: c.Sandboxes, PerAddress: c.PerAddress,
		StartsPerHour: c.StartsPerHour, RunsPerMinute: c.RunsPerMinute, RunTime: time.Duration(c.RunSeconds) * time.Second, OutputBytes: c.OutputKB << 10,
		Sandbox: executors.Limits{CPUs: c.CPUs, MemoryMB: int64(c.MemoryMB), Processes: int64(c.Processes), DiskMB: int64(c.DiskMB), WallMinutes: int64(c.Minutes) + 1}}
}

// ImageRules say what sandboxes may be made from, where a kind of place makes them from images.
func ImageRules(cfg *config.Config, kinds executors.Descriptors) executors.ImageRules {
	for _, d := range kinds {
		if d.Images != nil {
			return d.Images(cfg.Sandboxing.Of(string(d.Kind)))
		}
	}
	return executors.ImageRules{}
}

// HostPaths are the files and folders of this server that sandboxes see beside the system's own.
func HostPaths(cfg *config.Config, kinds executors.Descriptors) []string {
	var out []string
	for _, d := range kinds {
		if d.HostPaths != nil {
			out = append(out, d.HostPaths(cfg.Sandboxing.Of(string(d.Kind)))...)
		}
	}
	return out
}

// Machines says whether members may connect machines of their own, and where the programs for them lie.
func Machines(cfg *config.Config) (enabled bool, downloadsDir string) {
	v := cfg.Sandboxing.Of(string(executors.Runner))
	return v.On("enabled"), v.Text("downloadsDir")
}

// LimitsOfKinds are the limits that each kind of place gives all its sandboxes.
func LimitsOfKinds(cfg *config.Config, kinds executors.Descriptors) map[executors.Kind]executors.Limits {
	out := make(map[executors.Kind]executors.Limits)
	for _, d := range kinds {
		if d.Limits != nil {
			out[d.Kind] = d.Limits(cfg.Sandboxing.Of(string(d.Kind)))
		}
	}
	return out
}

// CheckSupport refuses a configuration that promises what this machine cannot keep.
func CheckSupport(cfg *config.Config, kinds executors.Descriptors, s cgroup.Support) error {
	for _, d := range kinds {
		if d.Support == nil {
			continue
		}
		if err := d.Support(cfg.Sandboxing.Of(string(d.Kind)), s); err != nil {
			return err
		}
	}
	return nil
}
