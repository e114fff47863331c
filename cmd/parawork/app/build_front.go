package app

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/accounts/suspension"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/avatarstore"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/ui"
)

// limits hold running work to what teams and users may use.
type limits struct{ enforcer *quota.Enforcer }

func newLimits(b *base, may *allowance, p *people, w *worktrees, s *sandboxes, on *work) *limits {
	kept := store.NewEnforce(b.db)
	alert := alerts.NewLimits(alerts.LimitsConfig{Running: kept, Timelines: w.workspaces.Records, People: p.directory, Mail: p.mail, Events: b.events, Audit: b.audit,
		Terminals: on.sessions.Turned, Now: b.clock.Now, PublicURL: b.cfg.Server.PublicURL})
	return &limits{quota.NewEnforcer(quota.EnforcerConfig{Store: kept, Standings: may.quota, Places: heldPlaces{s.places}, OnServer: fromconfig.ServerKinds(b.kinds), Notifier: alert, Now: b.clock.Now, Log: b.logOf("enforce")})}
}

// front is what the outside sees, and what ends the work of those who may not come in any more.
type front struct {
	watch      *watch.Service
	web        *ui.Handler
	server     *server.Server
	suspension *suspension.Enforcer
}

// frames are the origins whose pages the app may show in a frame: contents that agents made, and ports of sandboxes.
func frames(cfg *config.Config) string {
	var all []string
	if u := strings.TrimSuffix(cfg.Preview.ContentURL, "/"); u != "" {
		all = append(all, u)
	}
	switch domain := cfg.Preview.BaseDomain; {
	case domain != "":
		scheme, port := "http", "*"
		if u, err := url.Parse(cfg.Server.PublicURL); err == nil && u.Host != "" {
			scheme, port = u.Scheme, cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
		all = append(all, scheme+"://*."+domain+":"+port)
	case fromconfig.LoopbackOnly(cfg.Server.Listen):
		all = append(all, "http://*.localhost:*")
	}
	if _, port, err := net.SplitHostPort(cfg.Preview.Listen); err == nil && cfg.Preview.BaseDomain == "" {
		if port == "0" {
			port = "*"
		}
		all = append(all, "http://*:"+port)
	}
	return strings.Join(all, " ")
}

// measured are the origins of the addresses that browsers measure to find the nearest region: none while no place has several.
func (a *App) measured() []string {
	var out []string
	ctx := context.Background()
	for _, d := range a.kinds {
		if d.Probe == nil || len(a.executors.Regions(d.Kind)) == 0 {
			continue
		}
		for _, k := range a.executors.Regions(d.Kind) {
			if u, err := url.Parse(d.Probe(a.placeNow(ctx, k))); err == nil && u.Host != "" && !slices.Contains(out, u.Scheme+"://"+u.Host) {
				out = append(out, u.Scheme+"://"+u.Host)
			}
		}
	}
	return out
}

// newFront takes all the rest: the API shows it.
func newFront(a *App) (f *front, err error) {
	f = &front{}
	f.watch = watch.New(watch.Config{Store: store.NewWatch(a.db), Subject: server.Watched(a.sessions, a.workspaces), Actor: a.directory.Actor, Audit: a.audit, Ended: a.later.linkEnded})
	if f.web, err = ui.New(ui.Config{Dir: a.cfg.UI.Dir, Frames: frames(a.cfg), Measured: a.measured}); err != nil {
		return nil, err
	}
	web := f.web // a return with an error clears f
	f.server, err = server.New(server.Config{
		Version: a.version, PublicURL: a.cfg.Server.PublicURL, TrustedProxies: a.cfg.Server.Proxies(), Loopback: fromconfig.LoopbackOnly(a.cfg.Server.Listen), Rates: fromconfig.CallRates(a.cfg.RateLimits),
		Directory: a.directory, SignIn: a.signin, AgentAccounts: a.agentAccounts, Avatars: avatars.New(avatarstore.New(a.db)), SSO: a.sso, OAuth: a.oauth, Secrets: a.secrets, Watch: f.watch, PortLinks: toolstore.NewPortLinks(a.db), Audit: a.audit,
		Workspaces: a.workspaces, Moves: a.moves, Origin: a.origin, Files: a.files, Disk: a.disk, Forge: a.forge, Checks: a.checks, Overlap: a.overlap,
		Reviews: a.reviews, Viewed: a.reviews,
		Places: a.places, Choice: a.choice, Metering: a.metering, Executors: a.executors, Meters: a.meters, Network: a.network, Images: a.images, Image: fromconfig.ImageRules(a.cfg, a.kinds).Default, Caches: a.caches, Policies: a.records,
		Machines: a.machines, Downloads: a.downloads, Settings: a.settings, AddRegions: func(ctx context.Context) error { return a.addRegions(ctx, a.base) },
		RemoveRegion: a.removeRegion, People: a.sandboxes.people, Kinds: a.kinds, PreviewDomain: a.cfg.Preview.BaseDomain, PreviewListen: a.cfg.Preview.Listen, ContentURL: a.cfg.Preview.ContentURL,
		Sessions: a.sessions, History: a.sessions.Recordings, Runs: a.runs, Starts: a.starts, Report: a.report, Commands: a.commands, Browsers: a.browsers, Desktops: a.desktops, Code: a.code, Sandboxes: a.toolbox.sandboxes, Demo: a.toolbox.demo, Agent: a.toolbox.agent, Models: a.toolbox.models, Permissions: a.toolbox.permissions, Jobs: a.jobs, Automations: a.triggers, Tending: a.tending, Tools: a.tools, Subagents: a.subagents, Artifacts: a.artifacts, Tasks: a.tasks, Issues: a.issues, Checkpoints: a.checkpoints, ToolCalls: a.toolCalls,
		ToolGroups: a.toolbox.groups, Memory: a.toolbox.memory, Skills: a.toolbox.skills, Edits: a.toolbox.edits, Languages: a.toolbox.languages,
		Ledger: a.ledger, Payments: a.payments, Reports: a.reports, Prices: a.prices, Usage: a.usage, Quota: a.quota, Graces: a.enforcer,
		Tokens: a.tokens, Gateway: a.gateway, GatewayEnabled: a.cfg.Gateway.Enabled,
		Notify: a.notify, Mail: a.mail, Events: a.bus, Answers: store.NewIdempotency(a.db), UI: http.Handler(web), Log: a.logOf("server"),
	})
	if err != nil {
		_ = web.Close()
		return nil, err
	}
	f.suspension = suspension.New(suspension.Config{Accounts: a.directory, Barred: store.NewAccounts(a.db).Barred, Recheck: func() {
		f.server.RecheckAll()
		a.machines.Recheck(tenant.All(context.Background(), "machines of all people, in all their teams"), "")
	}, Destroy: a.places.Destroy, Pause: a.places.Pause, Stop: func(ctx context.Context, id, reason string) error {
		_, err := a.sessions.End(ctx, id, reason)
		return err
	}, Log: a.logOf("suspension")})
	return f, nil
}
