package executortest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/events"
)

// ManagerConfig configures a Manager, and what it depends on, in a test: see the Configs of manager, choice, metering and pool.
type ManagerConfig struct {
	Executors []executors.Executor
	Families  []executors.Family

	Store        manager.Store
	Workspaces   manager.Workspaces
	Events       events.Publisher
	Now          func() time.Time
	After        func(time.Duration) <-chan time.Time
	HealthEvery  time.Duration
	ReapEvery    time.Duration
	KeepRemnants time.Duration
	DialTimeout  time.Duration
	Notify       func(context.Context, executors.Note)
	IdleAfter    func(executors.Kind, executors.Purpose) time.Duration
	Counters     *executors.Counters
	Log          *slog.Logger

	Order        []executors.Kind
	Default      executors.Kind
	Fixed        bool
	Rules        func() choice.Rules
	Weakest      executors.Boundary
	Policies     choice.Policies
	People       func(ctx context.Context, teamID, userID string) (choice.Person, error)
	Teams        func(context.Context) (int, error)
	Fallback     func(context.Context, executors.Kind) bool
	ProbeFresh   time.Duration
	ProbeTimeout time.Duration
	Sizes        func(ctx context.Context, teamID, userID string, c executors.Capabilities) ([]executors.Size, error)

	Ledger metering.Ledger
	Price  metering.Pricing

	Warm      pool.Store // with PoolRules: there is a warm pool
	PoolRules func(ctx context.Context) pool.Rules
}

// Managed is a Manager with its dependencies, joined as the program joins them.
type Managed struct {
	*manager.Manager
	*choice.Chooser

	Registry *executors.Registry
	Metering *metering.Metering
	Warm     *pool.Pool // nil = none

	meters atomic.Pointer[meter.Meters]
}

// NewManager makes a Manager and its dependencies. It starts nothing.
func NewManager(c ManagerConfig) *Managed {
	if c.Counters == nil {
		c.Counters = &executors.Counters{}
	}
	m := &Managed{Registry: executors.NewRegistry(c.Executors, c.Families...)}
	m.Metering = metering.New(metering.Config{Ledger: c.Ledger, Price: c.Price, Executors: m.Registry, Counters: c.Counters, Now: c.Now, Log: c.Log})
	m.Chooser = choice.New(choice.Config{Executors: m.Registry, Order: c.Order, Default: c.Default, Fixed: c.Fixed, Rules: c.Rules, Weakest: c.Weakest, Policies: c.Policies, People: c.People, Teams: c.Teams,
		ProbeFresh: c.ProbeFresh, ProbeTimeout: c.ProbeTimeout, Price: c.Price, Sizes: c.Sizes, Usual: m.usual, IdleAfter: c.IdleAfter, Fallback: c.Fallback, Now: c.Now, Log: c.Log})
	if c.PoolRules != nil {
		m.Warm = pool.New(pool.Config{Executors: m.Registry, Choice: m.Chooser, Metering: m.Metering, Store: c.Warm, Rules: c.PoolRules, DialTimeout: c.DialTimeout,
			Counters: c.Counters, Now: c.Now, After: c.After, Log: c.Log})
	}
	m.Manager = manager.New(manager.Config{Executors: m.Registry, Choice: m.Chooser, Metering: m.Metering, Pool: m.Warm, Store: c.Store, Workspaces: c.Workspaces, Events: c.Events,
		Now: c.Now, After: c.After, HealthEvery: c.HealthEvery, ReapEvery: c.ReapEvery, KeepRemnants: c.KeepRemnants, DialTimeout: c.DialTimeout, Notify: c.Notify, IdleAfter: c.IdleAfter,
		Counters: c.Counters, Log: c.Log})
	return m
}

// UseMeters is the Manager's; it also prices sandboxes without sizes by the meters' usual limits.
func (m *Managed) UseMeters(cfg meter.Config) (*meter.Meters, error) {
	mt, err := m.Manager.UseMeters(cfg)
	m.meters.Store(mt)
	return mt, err
}

func (m *Managed) usual(ctx context.Context, k executors.Kind) executors.Limits {
	return m.meters.Load().Usual(ctx, k)
}
