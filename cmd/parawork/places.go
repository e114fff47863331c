package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// places are the executors of this server.
type places struct {
	all    []executors.Executor
	docker *docker.Executor // nil when switched off
	e2b    *e2b.Executor
}

// placesOf makes them. Nothing runs yet.
func placesOf(cfg *config.Config, guest string, groups *cgroup.Tree, teams func(context.Context) (int, error), cloud func(context.Context) e2b.Settings, log *slog.Logger) (p places, err error) {
	boxes, err := bubblewrap.New(bubblewrap.Config{Enabled: cfg.Sandboxing.Bubblewrap.Enabled, Dir: filepath.Join(cfg.DataDir, "sandboxes"), GuestPath: guest,
		Groups: groups, Paths: cfg.Sandboxing.Bubblewrap.Paths, TmpMB: cfg.Sandboxing.Bubblewrap.TmpMB, Log: log.With("room", "bubblewrap")})
	if err != nil {
		return p, err
	}
	here, err := local.New(localConfig(cfg, guest, groups, teams, log.With("room", "local")))
	if err != nil {
		return p, err
	}
	p.all = []executors.Executor{boxes, here}
	if cfg.Sandboxing.Docker.Enabled {
		if p.docker, err = docker.New(dockerConfig(cfg, guest, log.With("room", "docker"))); err != nil {
			return p, err
		}
		p.all = append(p.all, p.docker)
	}
	if p.e2b, err = newE2B(cfg, guest, cloud, log.With("room", "e2b")); err != nil {
		return p, err
	}
	p.all = append(p.all, p.e2b)
	return p, nil
}

// placeRules are the instance's own words about places.
func placeRules(cfg *config.Config, teams func(context.Context) (int, error)) manager.Config {
	s := cfg.Sandboxing
	return manager.Config{Order: []executors.Kind{bubblewrap.Kind, executors.Local}, Default: executors.Kind(s.DefaultProvider), Fixed: !s.AllowUserChoice,
		Weakest: executors.Boundary(s.WeakestBoundary), Teams: teams,
		IdleAfter: idleRules(cfg, func() time.Duration { return time.Duration(s.E2B.AutoShutdownIdle) * time.Second }).After}
}

// checkDefault refuses a defaultProvider that this server can never use, and warns of one that cannot be used now.
func checkDefault(ctx context.Context, cfg *config.Config, chosen *manager.Manager, log *slog.Logger) error {
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

// shareCaches has the sandboxes of a team share its caches.
func (h *house) shareCaches() {
	c := h.cfg.Sandboxing.Caches
	if !c.Enabled {
		return
	}
	h.caches = caches.New(caches.Config{Dir: filepath.Join(h.cfg.DataDir, "caches"), Max: c.MaxMB << 20, Chown: os.Geteuid() == 0, Group: h.kept.TeamGroup,
		Share: h.workspaces.SharesCaches, InUse: h.inUse, Log: h.log.With("room", "caches")})
}

// inUse reports whether a sandbox of the team lives.
func (h *house) inUse(ctx context.Context, teamID string) (bool, error) {
	all, err := h.places.Sandboxes(ctx, teamID)
	for _, r := range all {
		if r.EndedAt == 0 {
			return true, nil
		}
	}
	return false, err
}

// noStore and noWorkspaces are what a Manager has that is only asked what its places can do.
type (
	noStore      struct{ manager.Store }
	noWorkspaces struct{ manager.Workspaces }
)

// places says where workspaces can live: the words of the web app.
func (r *report) places(ctx context.Context, cfg *config.Config, st store.State, guest string) {
	teams := func(context.Context) (int, error) { return max(int(st.Teams), 1), nil }
	groups, err := openGroups(cfg.DataDir)
	if err != nil {
		groups = nil // the line of the limits says why
	}
	made, err := placesOf(cfg, guest, groups, teams, func(context.Context) e2b.Settings { return e2bFromFile(cfg) }, slog.New(slog.DiscardHandler))
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	if made.docker != nil {
		defer made.docker.Close()
	}
	defer made.e2b.Close()
	mc := placeRules(cfg, teams)
	mc.Executors, mc.Store, mc.Workspaces = made.all, noStore{}, noWorkspaces{}
	m := manager.New(mc)
	standings, _, err := m.Standings(ctx, "")
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer r.strangers(ctx, cfg, st, made.all)
	works := 0
	for _, s := range standings {
		if s.Available && s.Allowed {
			works++
		}
		r.place(s, cfg)
	}
	def, err := m.Choose(ctx, "")
	switch {
	case err != nil && works == 0:
		r.say(bad, "place", "no place to work: "+err.Error(), "Mend one of the places above.")
	case err != nil:
		r.say(bad, "place", "the default (sandboxing.defaultProvider: "+cfg.Sandboxing.DefaultProvider+") cannot be used: "+err.Error(), "")
	default:
		r.say(good, "place", fmt.Sprintf("new workspaces that name none live in %s", def), "")
	}
	if w := cfg.Sandboxing.WeakestBoundary; w != "" {
		r.say(good, "place", "sandboxing.weakestBoundary asks for at least: "+strings.ToLower(executors.Boundary(w).Name()), "")
	}
	if err := checkDefault(ctx, cfg, m, slog.New(slog.DiscardHandler)); err != nil {
		r.say(bad, "place", err.Error(), "")
	}
}

// place says how one place stands.
func (r *report) place(s manager.Standing, cfg *config.Config) {
	name := fmt.Sprintf("%s: ", s.Kind)
	switch {
	case !s.Available:
		r.say(minor, "place", name+"cannot be used: "+s.Reason, s.Cure)
		return
	case !s.Allowed:
		r.say(minor, "place", name+s.Forbidden, "")
		return
	}
	words := []string{strings.ToLower(s.Boundary.Name())}
	if s.Isolation != "" {
		words = append(words, s.Isolation)
	}
	words = append(words, enforced("limits", s.Limits), enforced("network", s.Network))
	if s.StartMs > 0 {
		words = append(words, fmt.Sprintf("ready in about %d ms", s.StartMs))
	}
	result, cure := good, ""
	if s.Warning != "" {
		result, cure = minor, s.Warning
	}
	r.say(result, "place", name+strings.Join(words, "; "), cure)
	if s.Kind == executors.Local && (cfg.Sandboxing.Local.ResourceLimits.MaxCPU > 0 || cfg.Sandboxing.Local.ResourceLimits.MaxMemory > 0) && !s.Limits {
		r.say(minor, "place", "local: sandboxing.local.resourceLimits is set, but it is not enforced on this machine", "")
	}
}

func enforced(what string, yes bool) string {
	if yes {
		return what + " enforced"
	}
	return what + " not enforced"
}
