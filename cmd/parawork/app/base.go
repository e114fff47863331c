package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/events/pg"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
)

// base is what all the rest stands on.
type base struct {
	cfg     *config.Config
	kinds   executors.Descriptors
	log     *slog.Logger
	env     func(string) string
	version string

	db       *store.DB
	key      []byte // secret.key
	serverID string // which of the servers of the database this is
	bus      *events.Bus
	line     *pg.Line         // nil beside SQLite
	events   events.Publisher // the bus, by way of line where there is one
	vault    *vault.Vault
	audit    *audit.Log
	clock    *billing.Clock
	settings *settings.Service
	agents   *agents.Registry

	later later
}

// openBase opens the database with the key it is sealed with.
func openBase(ctx context.Context, o Options) (b *base, err error) {
	cfg := o.Config
	b = &base{cfg: cfg, kinds: o.Kinds, log: o.Log, env: o.Env, version: o.Version, bus: events.New(), clock: billing.NewClock(nil, nil)}
	if b.db, err = store.Open(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir}); err != nil {
		return nil, err
	}
	opened := b.db // a return with an error clears b
	defer func() {
		if err != nil {
			_ = opened.Close()
		}
	}()
	if b.key, err = instance.SettleKey(ctx, cfg.DataDir, b.db); err != nil {
		return nil, err
	}
	if b.serverID, err = instance.ServerID(cfg.DataDir); err != nil {
		return nil, err
	}
	b.events = b.bus
	if b.db.Dialect() == store.Postgres {
		b.line = pg.New(pg.Config{URL: cfg.Database.URL, Bus: b.bus, Log: b.logOf("events")})
		b.events = b.line
	}
	b.vault = vault.New(vault.Config{Store: store.NewAccounts(b.db), Key: b.key})
	b.audit = audit.New(audit.Config{Store: store.NewAudit(b.db), Sealer: b.vault, Heads: instance.HeadsFile(cfg.DataDir), Reserve: instance.ReserveFile(cfg.DataDir),
		KeepDays: cfg.Audit.KeepDays, Log: b.logOf("audit")})
	said := fromconfig.Settings(cfg, o.Kinds)
	said.Store, said.Sealer, said.Log = store.NewPlaceSettings(b.db), b.vault, b.logOf("settings")
	b.settings = settings.New(said)
	b.agents, err = agents.New(agents.Config{Agents: fromconfig.Agents(cfg), HomesDir: filepath.Join(cfg.DataDir, "homes"), SandboxesDir: filepath.Join(cfg.DataDir, "boxes"),
		Paths: fromconfig.HostPaths(cfg, o.Kinds), WorktreesDir: filepath.Join(cfg.DataDir, "worktrees"), UserHome: o.Env("HOME"),
		Client: egress.New(egress.Config{Allow: cfg.Outgoing.Networks(), Timeout: 10 * time.Second}).Client, Log: b.logOf("agents")})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// logOf is the log of one part of the system.
func (b *base) logOf(name string) *slog.Logger { return b.log.With("component", name) }

// plan is the plan of teams that have none of their own.
func (b *base) plan(ctx context.Context) string { return b.settings.Values(ctx).DefaultPlan }

// placeNow is what holds of the settings of a kind of place now; of a region, with what its place says.
func (b *base) placeNow(ctx context.Context, k executors.Kind) schema.Values {
	v, _ := b.settings.Place(ctx, string(k.Provider()))
	if d, ok := b.kinds.Find(k.Provider()); ok && k.Region() != "" {
		region, _ := b.settings.Place(ctx, string(k))
		return d.InRegion(v, region)
	}
	return v
}

// fallback reports whether work goes on on this server when its sandbox elsewhere cannot be made.
func (b *base) fallback(ctx context.Context, k executors.Kind) bool {
	d, _ := b.kinds.Find(k)
	return d.Fallback != nil && d.Fallback(b.placeNow(ctx, k))
}
