package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/runner/fleet"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/counterstore"
	"github.com/parawork/parawork/store/placestore"
)

// sandboxes are where work runs: the executors, the sandboxes they make, and what those may use and reach.
type sandboxes struct {
	made      fromconfig.Executors // the server's own
	site      fromconfig.Site      // what they were made with
	people    *placestore.Places   // what people may and want of places
	groups    *cgroup.Tree
	records   *store.Executors
	executors *executors.Registry
	metering  *metering.Metering
	counters  *executors.CounterSaver
	choice    *choice.Chooser
	places    *manager.Manager
	meters    *meter.Meters
	caches    *caches.Caches // nil when config.json switches them off
	gate      *gate.Gate
	network   *network.Service
	images    *images.Service
	regions   regions
}

func newSandboxes(b *base, may *allowance, p *people, w *worktrees, m *money, guest string) (_ *sandboxes, err error) {
	cfg := b.cfg
	s := &sandboxes{records: store.NewExecutors(b.db)}
	defer func() {
		if err != nil {
			s.close(b.log)
		}
	}()
	if s.groups, err = fromconfig.OpenGroups(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := fromconfig.CheckSupport(cfg, b.kinds, s.groups.Support()); err != nil {
		return nil, err
	}
	s.site = fromconfig.Site{Guest: guest, Groups: s.groups, Teams: p.directory.CountTeams, Settings: b.placeNow, Log: b.log}
	s.made, err = fromconfig.NewExecutors(cfg, b.kinds, s.site)
	if err != nil {
		return nil, err
	}

	log, counters, price := b.logOf("executors"), &executors.Counters{}, may.pricing(b.clock.Now)
	s.executors = executors.NewRegistry(s.made, runner.New(runner.Config{Machines: fleet.New(p.machines, p.directory)}))
	s.counters = executors.NewCounterSaver(executors.CounterSaverConfig{Counters: counters, Store: counterstore.New(b.db), Log: log})
	s.metering = metering.New(metering.Config{Ledger: m.ledger, Price: price, Executors: s.executors, Counters: counters, Log: log})
	cc := b.placeRules(p.directory.CountTeams)
	cc.Executors, cc.Policies, cc.Price, cc.Sizes, cc.Log = s.executors, s.records, price, may.quota.Sizes, log
	s.people = placestore.New(b.db)
	cc.People = s.people.Person
	cc.Alone = func(ctx context.Context) (bool, error) {
		if said, err := b.settings.Said(ctx, settings.DefaultExecutor); err != nil || said {
			return false, err
		}
		n, err := p.directory.CountUsers(ctx)
		return n == 1, err
	}
	cc.Usual = func(ctx context.Context, k executors.Kind) executors.Limits { return s.meters.Usual(ctx, k) } // meters are made of the Manager, which is made of the choice
	s.choice = choice.New(cc)
	warm := pool.New(pool.Config{Executors: s.executors, Choice: s.choice, Metering: s.metering, Store: s.records, Rules: b.poolRules, Counters: counters, Log: log})
	s.places = manager.New(manager.Config{Executors: s.executors, Choice: s.choice, Metering: s.metering, Pool: warm, Store: s.records, Workspaces: w.workspaces.Records, Events: b.events,
		Notify: w.alert(b.log), IdleAfter: b.idleAfter(), Counters: counters, Log: log})
	s.meters, err = s.places.UseMeters(meter.Config{Limits: w.workspaces.Records, Default: fromconfig.LimitsOn(cfg.Sandboxing.Limits.Default), Maximum: fromconfig.LimitsOn(cfg.Sandboxing.Limits.Maximum),
		ByKind: fromconfig.LimitsOfKinds(cfg, b.kinds), Shared: fromconfig.LimitsOfTeams(cfg, b.kinds, p.directory.CountTeams),
		DiskEvery: time.Duration(cfg.Sandboxing.Limits.DiskEverySeconds) * time.Second, Folders: w.diskOf(cfg.DataDir), Notify: w.alert(b.log), Groups: s.groups,
		Events: b.events, HasListeners: b.bus.HasListeners, Log: b.logOf("limits")})
	if err != nil {
		return nil, err
	}
	if c := cfg.Sandboxing.Caches; c.Enabled {
		s.caches = caches.New(caches.Config{Dir: filepath.Join(cfg.DataDir, "caches"), Max: c.MaxMB << 20, Chown: os.Geteuid() == 0, Group: s.records.TeamGroup,
			Share: w.workspaces.Records.SharesCaches, InUse: s.inUse, Log: b.logOf("caches")})
	}

	n := cfg.Sandboxing.Network
	out, err := gate.Upstream(n.Proxy, config.NoProxy, b.env)
	if err != nil {
		return nil, err
	}
	s.gate, err = gate.New(gate.Config{Dir: filepath.Join(cfg.DataDir, "gates"), Allow: n.Private(), Upstream: out, Refused: b.later.refused, Reached: b.later.reached,
		Fresh: b.later.reachable, Known: s.open, Log: b.logOf("gate")})
	if err != nil {
		return nil, err
	}
	hosts, urls := fromconfig.AgentAddresses(cfg)
	s.network, err = network.New(network.Config{Store: store.NewNetwork(b.db), Gates: gates{s.gate, s.places, s.executors}, Events: b.events, Mode: executors.NetworkMode(n.Mode),
		Allow: n.Allow, AgentHosts: hosts, AgentURLs: urls, Log: b.logOf("network")})
	if err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	fromconfig.WarnOpenLoopback(b.log, n)

	rules := fromconfig.ImageRules(cfg, b.kinds)
	ic := images.Config{Store: store.NewImages(b.db), Repositories: w.workspaces.Repo, Allowed: rules.Projects, Default: rules.Default, HostImages: rules.Host, Teams: p.directory.CountTeams,
		Reach: images.PublicRegistries(&egress.Guard{Allow: fromconfig.Exceptions(cfg.Outgoing)}, nil), Events: b.events, Log: b.logOf("images")}
	for _, e := range s.made {
		if engine := engineOf(e); engine != nil && ic.Builder == nil {
			ic.Builder = imageBuilder{engine, rules.BuildNetwork, s.network, s.gate}
		}
	}
	s.images = images.New(ic)
	return s, nil
}

// close gives back what the executors opened, however far they came.
func (s *sandboxes) close(log *slog.Logger) {
	if err := s.made.Close(); err != nil {
		log.Debug("executors not closed", "error", err)
	}
	s.regions.close(log)
	if s.groups != nil {
		s.groups.Clear()
	}
}

// regions are the executors of regions that operators added since the server started.
type regions struct {
	mu   sync.Mutex
	made fromconfig.Executors
}

func (r *regions) close(log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.made.Close(); err != nil {
		log.Debug("executors of regions not closed", "error", err)
	}
}

// addRegions makes the executors of the regions that are described and have none.
func (s *sandboxes) addRegions(ctx context.Context, b *base) error {
	s.regions.mu.Lock()
	defer s.regions.mu.Unlock()
	for _, d := range b.kinds {
		if d.Regions == nil {
			continue
		}
		for _, name := range b.settings.Regions(ctx, string(d.Kind)) {
			if _, there := s.executors.OwnOf(executors.Kind(name)); there {
				continue
			}
			e, err := fromconfig.NewExecutor(b.cfg, d, executors.Kind(name), s.site)
			if err != nil {
				return fmt.Errorf("making the region %s: %w", name, err)
			}
			if e != nil && s.executors.Add(e) {
				s.regions.made = append(s.regions.made, e)
			}
		}
	}
	return nil
}

// removeRegion forgets a region that operators added, its key included. While sandboxes are there, or it is the default place, it stays.
func (a *App) removeRegion(ctx context.Context, by string, k executors.Kind) error {
	s, b := a.sandboxes, a.base
	s.regions.mu.Lock()
	defer s.regions.mu.Unlock()
	if err := b.settings.MayRemove(ctx, string(k)); err != nil {
		return err
	}
	if executors.Kind(b.settings.Values(ctx).DefaultExecutor) == k {
		return fault.New(fault.Conflict, "region_in_use", "It is the place of new workspaces on this server. Choose another one first.").With("field", "kind")
	}
	if err := s.regionUnused(ctx, k); err != nil {
		return err
	}
	e := s.executors.Remove(k)
	if err := s.regionUnused(ctx, k); err != nil { // one was begun just now
		if e != nil {
			s.executors.Add(e)
		}
		return err
	}
	if err := b.settings.RemoveRegion(ctx, by, string(k)); err != nil {
		if e != nil {
			s.executors.Add(e)
		}
		return err
	}
	if e != nil {
		s.regions.made = slices.DeleteFunc(s.regions.made, func(o executors.Executor) bool { return o.Kind() == k })
		if err := (fromconfig.Executors{e}).Close(); err != nil {
			b.log.Debug("the executor of a region was not closed", "place", k, "error", err)
		}
	}
	return nil
}

// regionUnused refuses while sandboxes of workspaces or of the pool are in a region.
func (s *sandboxes) regionUnused(ctx context.Context, k executors.Kind) error {
	all := tenant.All(ctx, "sandboxes of every team in a region")
	open, err := s.records.OpenSandboxes(all)
	if err != nil {
		return err
	}
	warm, err := s.records.OpenWarm(all)
	if err != nil {
		return err
	}
	inUse := func(words string, sandboxes int) error {
		return fault.New(fault.Conflict, "region_in_use", "%s", words).With("field", "kind").With("sandboxes", sandboxes)
	}
	n, ahead := 0, 0
	for _, r := range open {
		if r.Handle.Kind == k {
			n++
		}
	}
	for _, w := range warm {
		if w.Handle.Kind == k {
			ahead++
		}
	}
	switch {
	case n == 1:
		return inUse("1 sandbox of a workspace is in this region. End it, or move the workspace to another place, and remove the region then.", n)
	case n > 1:
		return inUse(fmt.Sprintf("%d sandboxes of workspaces are in this region. End them, or move the workspaces to another place, and remove the region then.", n), n)
	case ahead > 0:
		return inUse("Sandboxes made ahead of time wait in this region. Switch them off, and remove the region once they have ended.", ahead)
	}
	return nil
}

// inUse reports whether a sandbox of the team lives.
func (s *sandboxes) inUse(ctx context.Context, teamID string) (bool, error) {
	all, err := s.places.Sandboxes(ctx, teamID)
	for _, r := range all {
		if r.EndedAt == 0 {
			return true, nil
		}
	}
	return false, err
}

// open are the ids of the sandboxes that have not ended.
func (s *sandboxes) open(ctx context.Context) ([]string, error) {
	open, err := s.records.OpenSandboxes(ctx)
	ids := make([]string, 0, len(open))
	for _, r := range open {
		ids = append(ids, r.Handle.ID)
	}
	return ids, err
}

// chosen are the sandboxes, and the choice of where they are, as one.
func (s *sandboxes) chosen() chosenSandboxes { return chosenSandboxes{s.places, s.choice} }

// capabilities are those of the executor a workspace names.
func (s *sandboxes) capabilities(ctx context.Context, executor string) (executors.Capabilities, bool) {
	return s.choice.Place(ctx, executors.Kind(executor))
}

// alert writes into a workspace's timeline what its limits did.
func (w *worktrees) alert(log *slog.Logger) func(context.Context, executors.Note) {
	return func(ctx context.Context, n executors.Note) {
		if err := w.workspaces.Records.Notify(ctx, n.WorkspaceID, n.Kind, n.Text); err != nil {
			log.Warn("the limits were not recorded in the timeline of a workspace", "workspace_id", n.WorkspaceID, "error", err)
		}
	}
}

// diskOf are the folders of the server that count as a sandbox's disk. The team's caches do not: nobody fills them alone.
func (w *worktrees) diskOf(dataDir string) func(executors.Record) []string {
	return func(r executors.Record) []string {
		return []string{w.workspaces.Lifecycle.Folder(r.WorkspaceID), filepath.Join(dataDir, "boxes", r.WorkspaceID), filepath.Join(dataDir, "sandboxes", r.Handle.ID)}
	}
}

// poolRules are what operators say about sandboxes made ahead of time.
func (b *base) poolRules(ctx context.Context) pool.Rules {
	p := b.settings.Values(ctx).Pool
	return pool.Rules{Enabled: p.Enabled, Min: int(p.Min), Max: int(p.Max)}
}

// placeRules are the instance's words about places as they are now: operators change some of them in the browser.
func (b *base) placeRules(teams func(context.Context) (int, error)) choice.Config {
	cc := fromconfig.PlaceRules(b.cfg, b.kinds, teams)
	cc.IdleAfter = b.idleAfter()
	cc.Rules = func() choice.Rules {
		v := b.settings.Values(context.Background())
		return choice.Rules{Default: executors.Kind(v.DefaultExecutor), Fixed: !v.AllowUserChoice}
	}
	cc.Fallback = b.fallback
	return cc
}

// idleAfter says how long a sandbox may be idle before it is ended.
func (b *base) idleAfter() func(executors.Kind, executors.Purpose) time.Duration {
	return fromconfig.IdleRules(b.cfg, b.kinds, func(k executors.Kind) schema.Values { return b.placeNow(context.Background(), k) }).After
}
