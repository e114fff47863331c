package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/billing/tokens"
	spending "github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/gate"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/events/pg"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/server"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/modelgateway"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/store"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/ui"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reviews"
)

// house is every room, joined.
type house struct {
	cfg *config.Config
	log *slog.Logger

	doubt string // why only operators may look, and how to go on; "" = the database is what it was

	db            *store.DB
	line          *pg.Line // nil beside SQLite
	audit         *audit.Log
	vault         *vault.Vault
	directory     *directory.Service
	signin        *signin.Service
	agentAccounts *agentaccounts.Service
	watch         *watch.Service
	sso           *sso.Service
	docker        *docker.Executor // nil when switched off
	e2b           *e2b.Executor
	images        *images.Service
	executors     *executors.Registry
	metering      *metering.Metering
	choice        *choice.Chooser
	places        *manager.Manager
	gate          *gate.Gate
	network       *network.Service
	kept          *store.Executors
	meters        *meter.Meters
	ledger        *billing.Ledger
	prices        *price.Book
	quota         *quota.Service
	enforcer      *quota.Enforcer
	charges       *store.Billing
	payments      *stripe.Service
	tokens        *tokens.Meter
	gateway       *gateway.Service
	reports       *stripe.Reporter
	groups        *cgroup.Tree
	caches        *caches.Caches // nil when config.json switches them off
	settings      *settings.Service
	commands      *command.Commands
	workspaces    *workspaces.Service
	moves         *move.Service
	origin        *origin.Service
	files         *filesync.Service
	agents        *agents.Registry
	sessions      *sessions.Service
	machines      *machines.Service
	secrets       *secrets.Service
	downloads     *machines.Downloads
	notify        *notify.Service
	mail          *mail.Service
	warden        *warden
	runs          *runs.Service
	reviews       *reviews.Service
	forge         *forge.Service
	disk          *disk.Service
	checks        *checks.Service
	overlap       *overlap.Service
	server        *server.Server
	web           *ui.Handler
	outgoing      *egress.Client // for addresses people enter
	publisher     events.Publisher
}

// build opens the store and joins the rooms. Nothing runs yet. close gives back what it opened.
func build(ctx context.Context, cfg *config.Config, log *slog.Logger, env func(string) string) (h *house, err error) {
	h = &house{cfg: cfg, log: log}
	opened := h // a return with an error clears h
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	guest, err := guestPath(cfg.DataDir, env)
	if err != nil {
		return nil, err
	}
	if h.db, err = store.Open(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir}); err != nil {
		return nil, err
	}
	key, err := settleKey(ctx, cfg.DataDir, h.db)
	if err != nil {
		return nil, err
	}
	bus := events.New()
	var publisher events.Publisher = bus
	if h.db.Dialect() == store.Postgres {
		h.line = pg.New(pg.Config{URL: cfg.Database.URL, Bus: bus, Log: log.With("room", "events")})
		publisher = h.line
	}
	h.vault = vault.New(vault.Config{Store: store.NewAccounts(h.db), Key: key})
	h.buildAudit()
	h.directory, h.signin, h.mail = people(cfg, h.db, h.vault, directory.Config{Changed: h.recheck,
		Seats: func(ctx context.Context, teamID string) error { return h.quota.Seats(ctx, teamID) }}, log)
	h.agentAccounts = agentaccounts.New(agentaccounts.Config{Store: store.NewAccounts(h.db), Vault: h.vault,
		CheckAgent: func(agent string) error { return h.agents.AccountCheck(agent) }})
	h.buildSecrets()
	h.sso = sso.New(sso.Config{Providers: providersOf(cfg.Accounts), Store: store.NewSSO(h.db), Directory: h.directory, SignIn: h.signin,
		Client: egress.New(egress.Config{Allow: cfg.Outgoing.Networks()}).Client, Audit: h.audit, Changed: h.recheck, Log: log.With("room", "sso")})
	h.publisher = publisher
	h.buildMachines(publisher)
	if h.groups, err = openGroups(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := checkLimits(cfg, h.groups.Support()); err != nil {
		return nil, err
	}
	h.buildQuota(publisher)
	h.buildLedger(publisher)
	h.buildPayments(publisher)
	h.buildTokens(publisher)
	h.buildGateway(key)
	h.reports = stripe.NewReporter(stripe.ReporterConfig{Payments: h.payments, Store: store.NewUsageReports(h.db), Frozen: h.ledger.Frozen})
	if err := h.buildPlaces(guest, publisher, env); err != nil {
		return nil, err
	}
	if err := h.buildSettings(ctx); err != nil {
		return nil, err
	}
	if err := h.buildMeters(publisher, bus); err != nil {
		return nil, err
	}
	h.buildImages()
	if err := h.buildSessions(key, publisher, env); err != nil {
		return nil, err
	}
	h.buildDisk(publisher)
	h.workspaces.Connect(rooms{sandboxes{h.places, h.choice}}, h.sessions)
	h.buildWatch()
	h.buildEnforcer()
	h.runs = runs.New(runs.Config{Store: store.NewRuns(h.db), Workspaces: h.workspaces, Sessions: h.sessions, Accounts: h.directory, Events: publisher,
		Log: log.With("room", "runs")})
	h.buildReviews(bus)
	h.buildForge()
	h.buildQueue(bus, publisher)
	h.places.Attach(h.participants()...)
	h.outgoing = egress.New(egress.Config{Allow: cfg.Outgoing.Networks()})
	h.notify = notify.New(notify.Config{Store: store.NewNotify(h.db), Inbox: inboxFeed{h}, Bus: bus, Secrets: h.vault, Client: h.outgoing,
		PublicURL: cfg.Server.PublicURL, Version: version, Log: log.With("room", "notify")})
	if err := h.buildServer(bus); err != nil {
		return nil, err
	}
	h.warden = h.newWarden()
	return h, nil
}

// buildPlaces joins workspaces, executors and what follows their files.
func (h *house) buildPlaces(guest string, publisher events.Publisher, env func(string) string) error {
	cfg := h.cfg
	protocols := []string{"https", "ssh"}
	if cfg.Projects.AllowGitURLs {
		protocols = append(protocols, "git")
	}
	if cfg.Projects.AllowFileURLs {
		protocols = append(protocols, "file")
	}
	connector, err := linkConnector(cfg.DataDir)
	if err != nil {
		return err
	}
	rows, locks, jobs := store.NewWorkspaces(h.db), workspaces.NewLocks(), workspaces.NewJobs()
	fallback := func(ctx context.Context) bool { return h.settings.Values(ctx).E2B.FallbackToLocal }
	h.workspaces = workspaces.New(workspaces.Config{Store: rows, Locks: locks, Jobs: jobs, Trash: store.NewTrash(h.db), TrashKeep: time.Duration(cfg.Trash.KeepDays) * 24 * time.Hour, Retention: snapshotsKept(cfg.Snapshots), Machines: h.machines, Credentials: h.secrets, Events: publisher, DataDir: cfg.DataDir,
		AllowedRoots: cfg.Projects.AllowedRoots, BranchPrefix: cfg.Projects.BranchPrefix, CopyIgnored: cfg.Projects.CopyIgnored,
		Protocols: protocols, Outgoing: &egress.Guard{Allow: exceptions(cfg.Outgoing)}, Connector: connector, MaxLimits: limitsOn(cfg.Sandboxing.Limits.Maximum),
		FallBackAllowed: fallback, Chown: os.Geteuid() == 0, Env: env, Log: h.log.With("room", "workspaces")})
	h.origin = origin.New(origin.Config{Store: rows, Workspaces: h.workspaces, Locks: locks, Credentials: h.secrets, Protocols: protocols, Log: h.log.With("room", "workspaces")})
	h.moves = move.New(move.Config{Store: rows, Workspaces: h.workspaces, Locks: locks, Jobs: jobs, FallBackAllowed: fallback, Chown: os.Geteuid() == 0,
		Log: h.log.With("room", "workspaces")})
	made, err := placesOf(cfg, guest, h.groups, h.directory.CountTeams, func(ctx context.Context) e2b.Settings { return e2bSettings(cfg, h.settings.Values(ctx).E2B) }, h.log)
	if err != nil {
		return err
	}
	h.docker, h.e2b = made.docker, made.e2b
	kept := store.NewExecutors(h.db)
	h.kept = kept
	h.buildManager(made.all, publisher)
	h.watchMachines()
	h.shareCaches()
	if err := h.buildGate(publisher, kept, env); err != nil {
		return err
	}
	h.commands = command.New(command.Config{Places: sandboxes{h.places, h.choice}, Store: kept, Secrets: h.commandSecrets, Keep: time.Duration(h.cfg.Sandboxing.Commands.KeepMinutes) * time.Minute,
		Queue: time.Duration(h.cfg.Sandboxing.Commands.QueueMinutes) * time.Minute, Log: h.log.With("room", "commands")})
	roots, skip := agents.Kept()
	h.files = filesync.New(filesync.Config{Store: store.NewChanges(h.db), Places: h.places, Workspaces: h.workspaces, Events: publisher,
		Touched: func(id string, paths []string, more int) { h.sessions.FilesChanged(id, paths, more) },
		Moved:   h.workspaces.HeadMoved, Polled: h.workspaces.Polled, Trees: trees{h.workspaces}, DataDir: cfg.DataDir, HomeRoots: roots, HomeSkip: skip,
		HomeDir: func(id string) string { return filepath.Join(cfg.DataDir, "boxes", id, "home") }, MaxFile: cfg.Sandboxing.Sync.MaxFileMB << 20,
		MaxTotal: cfg.Sandboxing.Sync.MaxTotalMB << 20, Lag: func(kind string, took time.Duration) {
			h.places.Counters().Synced(executors.Kind(kind), took.Milliseconds())
		}, Log: h.log.With("room", "sync")})
	h.workspaces.ConnectFiles(h.files)
	h.keepFiles()
	return nil
}

// box gives a sandbox that isolates what it gets of the host; before one that does not, a workspace takes back what it gave.
func (h *house) box(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
	switch {
	case manager.Trying(ctx):
		return nil
	case c.OwnDisk:
		if err := h.workspaces.Afar(ctx, s.WorkspaceID); err != nil {
			return err
		}
		h.workspaces.PackAhead(ctx, s.WorkspaceID, s.ID)
		return nil
	case !c.Isolated:
		return h.workspaces.Unbox(ctx, s.WorkspaceID)
	}
	b, err := h.workspaces.Box(ctx, s.WorkspaceID)
	if err != nil {
		return err
	}
	s.Box = &b
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

func (h *house) buildSessions(key []byte, publisher events.Publisher, env func(string) string) error {
	reg, err := agents.New(agents.Config{Agents: agentSettings(h.cfg), HomesDir: filepath.Join(h.cfg.DataDir, "homes"), BoxesDir: filepath.Join(h.cfg.DataDir, "boxes"), Paths: h.cfg.Sandboxing.Bubblewrap.Paths,
		WorktreesDir: filepath.Join(h.cfg.DataDir, "worktrees"), UserHome: env("HOME"),
		Client: egress.New(egress.Config{Allow: h.cfg.Outgoing.Networks(), Timeout: 10 * time.Second}).Client, Log: h.log.With("room", "agents")})
	if err != nil {
		return err
	}
	h.agents = reg
	var way modelgateway.Gateway
	if h.cfg.Gateway.Enabled {
		way = h.gateway
	}
	h.sessions = sessions.New(sessions.Config{Store: store.NewSessions(h.db), Places: sandboxes{h.places, h.choice}, Workspaces: movable{h.workspaces, h.moves}, Accounts: sessionAccounts{h.directory, h.agentAccounts},
		Agents: reg, Events: publisher, DataDir: h.cfg.DataDir, Key: key, Secrets: h.secrets, Gateway: way, Meter: h.tokens, Exclude: h.workspaces.Exclude, TurnEnded: h.turnEnded, Grace: h.terminalGrace, Limits: limitsOf(h.cfg.History), TeamHistory: h.teamHistory, MaxLogBytes: logCap(h.cfg.History), Log: h.log.With("room", "sessions")})
	return nil
}

// callRates are the limits of config.json as the server takes them.
func callRates(r config.RateLimits) map[rest.Cost]rest.Rate {
	out := map[rest.Cost]rest.Rate{}
	if r.Enabled {
		for name, rate := range r.ByName() {
			out[rest.Cost(name)] = rest.Rate{User: rate.User, Team: rate.Team}
		}
	}
	return out
}

func (h *house) buildServer(bus *events.Bus) error {
	web, err := ui.New(ui.Config{Dir: h.cfg.UI.Dir})
	if err != nil {
		return err
	}
	h.web = web
	h.server, err = server.New(server.Config{
		Version:        version,
		PublicURL:      h.cfg.Server.PublicURL,
		TrustedProxies: h.cfg.Server.Proxies(),
		Loopback:       loopbackOnly(h.cfg.Server.Listen),
		Rates:          callRates(h.cfg.RateLimits),
		Directory:      h.directory,
		SignIn:         h.signin,
		AgentAccounts:  h.agentAccounts,
		Watch:          h.watch,
		Workspaces:     h.workspaces,
		Moves:          h.moves,
		Origin:         h.origin,
		Places:         h.places,
		Choice:         h.choice,
		Metering:       h.metering,
		Executors:      h.executors,
		Meters:         h.meters,
		Ledger:         h.ledger,
		Payments:       h.payments,
		Reports:        h.reports,
		Prices:         h.prices,
		Usage:          spending.New(store.NewUsage(h.db), h.ledger.Now),
		Commands:       h.commands,
		Quota:          h.quota,
		Disk:           h.disk,
		Files:          h.files,
		Sessions:       h.sessions,
		History:        history.New(history.Config{Sessions: h.sessions}),
		Runs:           h.runs,
		Forge:          h.forge,
		Reviews:        h.reviews,
		Viewed:         h.reviews,
		Report:         h.buildReport(),
		Checks:         h.checks,
		Overlap:        h.overlap,
		Network:        h.network,
		Images:         h.images,
		Image:          h.cfg.Sandboxing.Docker.Image,
		Notify:         h.notify,
		Mail:           h.mail,
		Machines:       h.machines,
		Downloads:      h.downloads,
		Events:         bus,
		Audit:          h.audit,
		Answers:        store.NewIdempotency(h.db),
		Policies:       h.kept,
		Caches:         h.caches,
		Settings:       h.settings,
		TryE2B:         h.tryE2B,
		PreviewDomain:  h.cfg.Preview.BaseDomain,
		Tokens:         h.tokens,
		Gateway:        h.gateway,
		GatewayEnabled: h.cfg.Gateway.Enabled,
		Secrets:        h.secrets,
		SSO:            h.sso,
		Graces:         h.enforcer,
		UI:             http.Handler(web),
		Log:            h.log.With("room", "server"),
	})
	return err
}

// close gives back what build opened.
func (h *house) close() {
	if h.web != nil {
		if err := h.web.Close(); err != nil {
			h.log.Debug("folder of the web app not closed", "error", err)
		}
	}
	if h.docker != nil {
		if err := h.docker.Close(); err != nil {
			h.log.Debug("client of Docker not closed", "error", err)
		}
	}
	if h.e2b != nil {
		if err := h.e2b.Close(); err != nil {
			h.log.Debug("pipes to E2B not closed", "error", err)
		}
	}
	if h.groups != nil {
		h.groups.Clear()
	}
	if h.db != nil {
		if err := h.db.Close(); err != nil {
			h.log.Warn("database not closed", "error", err)
		}
	}
}

// loopbackOnly reports whether an address to listen on is this machine's alone.
func loopbackOnly(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// newLog makes the server's log, on standard error: standard output is for what people and scripts look for.
func newLog(cfg config.Log) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
}

// limitsOf are the caps of what sessions printed.
func limitsOf(c config.History) sessions.Limits {
	return sessions.Limits{Session: c.MaxSession << 20, Team: c.MaxTeam << 20, Keep: time.Duration(c.KeepDays) * 24 * time.Hour}
}

// logCap is the cap of one session's log: so much that it is none where none was asked for.
func logCap(c config.History) int64 {
	if c.MaxSession == 0 {
		return 1 << 60
	}
	return c.MaxSession << 20
}

// movable is what sessions ask of workspaces: also whether one is on its way to another place.
type movable struct {
	*workspaces.Service
	moves *move.Service
}

// Moving says why nothing may start in a workspace that is on its way to another place.
func (m movable) Moving(ctx context.Context, workspaceID string) error {
	return m.moves.Moving(ctx, workspaceID)
}

// sessionAccounts is what sessions need of people: who they are, and the accounts their agents work with.
type sessionAccounts struct {
	*directory.Service
	*agentKeys
}

type agentKeys = agentaccounts.Service
