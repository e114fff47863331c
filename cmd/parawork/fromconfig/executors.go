package fromconfig

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
)

// Executors are the executors of this server.
type Executors struct {
	All    []executors.Executor
	Docker *docker.Executor // nil when switched off
	E2B    *e2b.Executor
}

// NewExecutors makes them. Nothing runs yet.
func NewExecutors(cfg *config.Config, guest string, groups *cgroup.Tree, teams func(context.Context) (int, error), cloud func(context.Context) e2b.Settings, log *slog.Logger) (p Executors, err error) {
	boxes, err := bubblewrap.New(bubblewrap.Config{Enabled: cfg.Sandboxing.Bubblewrap.Enabled, Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest,
		Groups: groups, Paths: cfg.Sandboxing.Bubblewrap.Paths, TmpMB: cfg.Sandboxing.Bubblewrap.TmpMB, Log: log.With("component", "bubblewrap")})
	if err != nil {
		return p, err
	}
	here, err := local.New(localConfig(cfg, guest, groups, teams, log.With("component", "local")))
	if err != nil {
		return p, err
	}
	p.All = []executors.Executor{boxes, here}
	if cfg.Sandboxing.Docker.Enabled {
		if p.Docker, err = docker.New(dockerConfig(cfg, guest, log.With("component", "docker"))); err != nil {
			return p, err
		}
		p.All = append(p.All, p.Docker)
	}
	if p.E2B, err = newE2B(cfg, guest, cloud, log.With("component", "e2b")); err != nil {
		return p, err
	}
	p.All = append(p.All, p.E2B)
	return p, nil
}

// PlaceRules are the instance's own words about places.
func PlaceRules(cfg *config.Config, teams func(context.Context) (int, error)) choice.Config {
	s := cfg.Sandboxing
	return choice.Config{Order: []executors.Kind{bubblewrap.Kind, executors.Local}, Default: executors.Kind(s.DefaultProvider), Fixed: !s.AllowUserChoice,
		Weakest: executors.Boundary(s.WeakestBoundary), Teams: teams,
		IdleAfter: IdleRules(cfg, func() time.Duration { return time.Duration(s.E2B.AutoShutdownIdle) * time.Second }).After}
}

// CheckDefault refuses a defaultProvider that this server can never use, and warns of one that cannot be used now.
func CheckDefault(ctx context.Context, cfg *config.Config, chosen *choice.Chooser, log *slog.Logger) error {
	kind := executors.Kind(cfg.Sandboxing.DefaultProvider)
	if kind == executors.Auto {
		return nil
	}
	why, cure := "", `Set sandboxing.defaultProvider to "auto" or to a place this server has.`
	s := cfg.Sandboxing
	switch {
	case kind == executors.Local && s.Local.Enabled != nil && !*s.Local.Enabled:
		why, cure = "is switched off", `Set sandboxing.local.enabled to true, or sandboxing.defaultProvider to "auto".`
	case kind == bubblewrap.Kind && !s.Bubblewrap.Enabled:
		why, cure = "is switched off", `Set sandboxing.bubblewrap.enabled to true, or sandboxing.defaultProvider to "auto".`
	case kind == docker.Kind && !s.Docker.Enabled:
		why, cure = "is switched off", `Set sandboxing.docker.enabled to true, or sandboxing.defaultProvider to "auto".`
	case !slices.Contains([]executors.Kind{executors.Local, bubblewrap.Kind, docker.Kind, e2b.Kind}, kind):
		why = "is not part of this version"
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
		log.Warn("NO NEW WORKSPACE CAN BE MADE: the place sandboxing.defaultProvider names cannot be used now", "place", kind, "reason", c.Reason, "cure", c.Cure)
	}
	return nil
}

// localConfig says where and when workspaces may live on this server without isolation. Unless config.json says yes, that ends
// with the second team: a team's agents would read the other's files.
func localConfig(cfg *config.Config, guest string, groups *cgroup.Tree, teams func(context.Context) (int, error), log *slog.Logger) local.Config {
	lc := local.Config{Enabled: true, Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest, Groups: groups, TeamCount: teams, Log: log}
	if on := cfg.Sandboxing.Local.Enabled; on != nil {
		lc.Enabled = *on
		lc.TeamCount = nil
	}
	return lc
}

// dockerConfig says how containers are made: only for workspaces that ask for them.
func dockerConfig(cfg *config.Config, guest string, log *slog.Logger) docker.Config {
	d := cfg.Sandboxing.Docker
	return docker.Config{Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest, Host: d.Host, Image: d.Image, Runtime: d.Runtime, Log: log}
}
