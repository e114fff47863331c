package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/move"
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
func placeRules(cfg *config.Config, teams func(context.Context) (int, error)) choice.Config {
	s := cfg.Sandboxing
	return choice.Config{Order: []executors.Kind{bubblewrap.Kind, executors.Local}, Default: executors.Kind(s.DefaultProvider), Fixed: !s.AllowUserChoice,
		Weakest: executors.Boundary(s.WeakestBoundary), Teams: teams, IdleAfter: idleAfter(cfg)}
}

// buildManager joins what chooses, makes, counts and keeps sandboxes, the lower first.
func (h *house) buildManager(own []executors.Executor, publisher events.Publisher) {
	log, counters := h.log.With("room", "executors"), &executors.Counters{}
	h.executors = executors.NewRegistry(own, h.families()...)
	h.metering = metering.New(metering.Config{Ledger: h.ledger, Price: h.pricing, Executors: h.executors, Counters: counters, Log: log})
	cc := h.rules()
	cc.Executors, cc.Policies, cc.Price, cc.Sizes, cc.Log = h.executors, h.kept, h.pricing, h.fitSizes, log
	cc.Usual = func(ctx context.Context, k executors.Kind) executors.Limits { return h.meters.Usual(ctx, k) }
	h.choice = choice.New(cc)
	warm := pool.New(pool.Config{Executors: h.executors, Choice: h.choice, Metering: h.metering, Store: h.kept, Rules: h.poolRules, Counters: counters, Log: log})
	h.places = manager.New(manager.Config{Executors: h.executors, Choice: h.choice, Metering: h.metering, Pool: warm, Store: h.kept, Workspaces: h.workspaces, Events: publisher,
		Tell: h.tellLimit, IdleAfter: cc.IdleAfter, Counters: counters, Log: log})
}

// poolRules are what operators say about sandboxes made ahead of time.
func (h *house) poolRules(ctx context.Context) pool.Rules {
	p := h.settings.Values(ctx).Pool
	return pool.Rules{Enabled: p.Enabled, Min: int(p.Min), Max: int(p.Max)}
}

// sandboxes shows those above both the sandboxes and the choice of where they are.
type sandboxes struct {
	*manager.Manager
	*choice.Chooser
}

// What is found by a type assertion is lost without a word where a wrapper does not pass it on.
var (
	_ sessions.Places         = sandboxes{}
	_ command.Sandboxes       = sandboxes{}
	_ filesync.Places         = sandboxes{}
	_ workspaces.Places       = rooms{}
	_ workspaces.Chooser      = rooms{}
	_ workspaces.LocalChooser = rooms{}
	_ workspaces.LiveRunner   = rooms{}
	_ workspaces.Trier        = rooms{}
	_ move.Keepers            = rooms{}
	_ workspaces.Forgetter    = (*sessions.Service)(nil)
	_ workspaces.Movers       = (*sessions.Service)(nil)
)

// rooms shows workspaces the sandboxes in the shape they need.
type rooms struct{ sandboxes }

// Ensure makes the workspace's sandbox or finds the live one.
func (r rooms) Ensure(ctx context.Context, workspaceID string) error {
	_, err := r.Manager.Ensure(ctx, workspaceID)
	return err
}

// Live reports whether the workspace has a sandbox now.
func (r rooms) Live(workspaceID string) bool {
	_, ok := r.Manager.Live(workspaceID)
	return ok
}

// checkDefault refuses a defaultProvider that this server can never use, and warns of one that cannot be used now.
func (h *house) checkDefault(ctx context.Context) error {
	kind := executors.Kind(h.cfg.Sandboxing.DefaultProvider)
	if kind == executors.Auto {
		return nil
	}
	why, cure := "", `Set sandboxing.defaultProvider to "auto" or to a place this server has.`
	s := h.cfg.Sandboxing
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
	c, ok := h.choice.Place(ctx, kind)
	if ok && c.Boundary != "" && !c.Boundary.AtLeast(h.choice.Weakest()) {
		return fault.New(fault.Invalid, "default_place_impossible",
			"sandboxing.defaultProvider: %q is weaker (%s) than sandboxing.weakestBoundary, %q. Change one of the two.", kind, strings.ToLower(c.Boundary.Name()), h.choice.Weakest())
	}
	if ok && !c.Available {
		h.log.Warn("NO NEW WORKSPACE CAN BE MADE: the place sandboxing.defaultProvider names cannot be used now", "place", kind, "reason", c.Reason, "cure", c.Cure)
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
	cc := placeRules(cfg, teams)
	cc.Executors = executors.NewRegistry(made.all)
	ch := choice.New(cc)
	options, _, err := ch.Options(ctx, "")
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer r.strangers(ctx, cfg, st, made.all)
	works := 0
	for _, s := range options {
		if s.Available && s.Allowed {
			works++
		}
		r.place(s, cfg)
	}
	def, err := ch.Choose(ctx, "")
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
	h := &house{cfg: cfg, log: slog.New(slog.DiscardHandler), choice: ch}
	if err := h.checkDefault(ctx); err != nil {
		r.say(bad, "place", err.Error(), "")
	}
}

// place says how one place stands.
func (r *report) place(s choice.Option, cfg *config.Config) {
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
