// Package pool makes sandboxes ahead of time, where an executor can, and hands one over when a sandbox of its class is requested (Take).
//
// Goroutines: Pool.Run has one, and a few more while sandboxes are made. Lock: Pool.mu guards the state of classes, and is not held during a
// call
// to an executor, the ledger or the store.
package pool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/metering"
)

// Rules say how many sandboxes of each requested class are made ahead of time.
type Rules struct {
	Enabled  bool
	Min, Max int
}

// Config configures a Pool. Everything but the durations, the clock and the log is required.
type Config struct {
	Executors *executors.Registry
	Choice    *choice.Chooser
	Metering  *metering.Metering
	Store     Store
	Rules     func(ctx context.Context) Rules
	Every     time.Duration // how often it is swept; default 60 s
	MaxAge    time.Duration // how long a warm sandbox lives at most; default 4 h

	DialTimeout time.Duration       // recovering a sandbox may take a multiple of it; default 5 s
	Counters    *executors.Counters // counts what happens; nil = not counted
	Now         func() time.Time
	After       func(time.Duration) <-chan time.Time // default time.After
	Log         *slog.Logger
}

func (c *Config) validate() error {
	if c.Executors == nil || c.Choice == nil || c.Metering == nil || c.Store == nil || c.Rules == nil {
		return errors.New("pool: a Pool needs Executors, Choice, Metering, Store and Rules")
	}
	if c.Every <= 0 {
		c.Every = defaultEvery
	}
	if c.MaxAge <= 0 {
		c.MaxAge = defaultMaxAge
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = 5 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.After == nil {
		c.After = time.After
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

const (
	defaultEvery  = time.Minute
	defaultMaxAge = 4 * time.Hour
	// runLeft is how much of its run a warm sandbox must have left to be useful.
	runLeft = 20 * time.Minute
	// recent is the time window in which takes decide how many are kept ready.
	recent = 10 * time.Minute
	// wanted is how long a class that is not the default stays after a request.
	wanted = time.Hour
	// atOnce is how many are made at a time: services allow few creations per second.
	atOnce = 2
	// waitLeast and waitMost bound the delay after a failed making: doubled each time.
	waitLeast, waitMost = time.Minute, 15 * time.Minute
)

// IDPrefix begins the ids of warm sandboxes.
const IDPrefix = "wrm"

// makeTimeout bounds making one.
const makeTimeout = 3 * time.Minute

// Pool holds sandboxes that were made ahead of time. Safe for concurrent use. A nil Pool has none.
type Pool struct {
	cfg  Config
	kick chan struct{} // one was taken: check at once

	mu      sync.Mutex
	classes map[key]*classInfo
	swept   bool // what an earlier server left was checked
}

type key struct {
	kind  executors.Kind
	class string
}

// classInfo is the state of a class. Guarded by the pool's mu.
type classInfo struct {
	size    executors.Size
	def     bool    // what a workspace gets that asks for none
	askedAt int64   // ms UTC
	takes   []int64 // ms UTC, lately
	making  int
	retryAt int64 // ms UTC: not before
	wait    time.Duration
}

// New makes a Pool. It starts nothing and panics on a Config that lacks a required field.
func New(cfg Config) *Pool {
	if err := cfg.validate(); err != nil {
		panic(err)
	}
	return &Pool{cfg: cfg, kick: make(chan struct{}, 1), classes: make(map[key]*classInfo)}
}

func (p *Pool) now() int64 { return p.cfg.Now().UnixMilli() }

// Status is the state of the pool.
type Status struct {
	Rules
	Ready, Making int
	Taken         int // sandboxes in use that were warm
}

// Status returns the state of the pool. The caller knows how many sandboxes in use are Taken.
func (p *Pool) Status(ctx context.Context) (Status, error) {
	if p == nil {
		return Status{}, nil
	}
	out := Status{Rules: p.cfg.Rules(ctx)}
	open, err := p.cfg.Store.OpenWarm(ctx)
	for _, w := range open {
		switch w.State {
		case Ready:
			out.Ready++
		case Making:
			out.Making++
		}
	}
	return out, err
}

// Run keeps the pool as its rules say until ctx is done, and returns when all its work has ended.
func (p *Pool) Run(ctx context.Context) {
	for {
		p.Tend(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-p.cfg.After(p.cfg.Every):
		}
	}
}

// Tend ends useless sandboxes, extends the leases of the rest and makes missing ones: once, now.
func (p *Pool) Tend(ctx context.Context) {
	open, err := p.cfg.Store.OpenWarm(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Log.Warn("the warm sandboxes could not be read", "error", err)
		}
		return
	}
	rules := p.cfg.Rules(ctx)
	p.learn(ctx, rules)
	p.mu.Lock()
	first := !p.swept
	p.swept = true
	p.mu.Unlock()
	ready := make(map[key]int)
	for _, w := range open {
		if ctx.Err() != nil {
			return
		}
		k := key{w.Handle.Kind, w.Class}
		// One that is being made, or taken, belongs to the goroutine that does so; after a restart there is none.
		if !first && (w.State == Making || w.State == Taken) {
			continue
		}
		if why := p.useless(ctx, rules, w, ready[k]); why != "" {
			p.end(ctx, w, why)
			continue
		}
		if p.keep(ctx, w) {
			ready[k]++
		}
	}
	p.refill(ctx, rules, ready)
}

// learn collects the classes: the default sizes of executors, and those requested lately.
func (p *Pool) learn(ctx context.Context, rules Rules) {
	if !rules.Enabled {
		return
	}
	now := p.now()
	known := make(map[key]executors.Size)
	var defaults []key
	for _, e := range p.cfg.Executors.Own() {
		kind := e.Kind()
		w, ok := e.(executors.Warmer)
		if !ok {
			continue
		}
		caps := p.cfg.Choice.CapabilitiesOf(ctx, e)
		if !caps.Available {
			continue
		}
		sizes := caps.Sizes
		if len(sizes) == 0 {
			sizes = []executors.Size{{PriceNano: caps.PriceNano, Available: true, Default: true}}
		}
		for _, s := range sizes {
			class := w.Class(executors.Spec{Size: s})
			if class == "" || !s.Available {
				continue
			}
			k := key{kind, class}
			known[k] = s
			if s.Default {
				defaults = append(defaults, k)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, s := range known {
		c := p.classes[k]
		if c == nil {
			c = &classInfo{}
			p.classes[k] = c
		}
		c.size, c.def = s, slices.Contains(defaults, k)
	}
	for k, c := range p.classes {
		if _, ok := known[k]; !ok && c.making == 0 {
			delete(p.classes, k)
			continue
		}
		c.takes = slices.DeleteFunc(c.takes, func(at int64) bool { return now-at > recent.Milliseconds() })
	}
}

// want returns how many of a class are to be ready. Guarded by the pool's mu.
func (p *Pool) want(c *classInfo, rules Rules) int {
	if c == nil || !rules.Enabled || !c.def && p.now()-c.askedAt > wanted.Milliseconds() {
		return 0
	}
	return min(rules.Min+len(c.takes), rules.Max)
}

// useless says why a warm sandbox is to be ended; "" = it is useful.
func (p *Pool) useless(ctx context.Context, rules Rules, w Record, ready int) string {
	switch w.State {
	case Ready:
	case Ending:
		return w.Reason
	default:
		return "The server stopped while it was " + w.State + "."
	}
	if !rules.Enabled {
		return "The pool is switched off."
	}
	p.mu.Lock()
	c := p.classes[key{w.Handle.Kind, w.Class}]
	want := p.want(c, rules)
	p.mu.Unlock()
	switch age := p.now() - w.CreatedAt; {
	case c == nil && p.available(ctx, w.Handle.Kind):
		return "Its place makes none like it any more."
	case c != nil && ready >= want:
		return "It is not needed any more."
	case age > p.cfg.MaxAge.Milliseconds():
		return "It has grown old."
	}
	return ""
}

func (p *Pool) available(ctx context.Context, k executors.Kind) bool {
	e, ok := p.cfg.Executors.OwnOf(k)
	return ok && p.cfg.Choice.CapabilitiesOf(ctx, e).Available
}

// keep extends the lease of a warm sandbox and reports whether it is still ready. It ends one that is gone, or suspended.
func (p *Pool) keep(ctx context.Context, w Record) bool {
	e, ok := p.cfg.Executors.OwnOf(w.Handle.Kind)
	if !ok {
		return false
	}
	rctx, cancel := context.WithTimeout(ctx, 4*p.cfg.DialTimeout)
	defer cancel()
	if s, ok := e.(executors.Sleeper); ok {
		still, err := s.Asleep(rctx, w.Handle)
		if errors.Is(err, executors.ErrGone) {
			p.lost(ctx, w)
			return false
		}
		if err == nil && still {
			p.cfg.Metering.FoundStopped(ctx, p.record(w))
			p.end(ctx, w, "Its place had paused it.")
			return false // whoever took it meanwhile wakes it
		}
	}
	sb, err := e.Recover(rctx, w.Handle)
	switch {
	case errors.Is(err, executors.ErrGone):
		p.lost(ctx, w)
		return false
	case err != nil:
		p.cfg.Log.Warn("a warm sandbox cannot be reached", "sandbox_id", w.Handle.ID, "error", err)
		return true // it may be there
	}
	p.meter(ctx, w)
	if l, ok := sb.(executors.Leased); ok {
		d := p.lease(ctx, e)
		if lease, err := l.Extend(rctx, d); err != nil {
			p.cfg.Log.Warn("the lease of a warm sandbox could not be extended", "sandbox_id", w.Handle.ID, "error", err)
		} else {
			if lease.RunEndsAt > 0 && lease.RunEndsAt-p.now() < runLeft.Milliseconds() {
				p.end(ctx, w, "Its run is nearly over.")
				return false
			}
			w.LeaseUntil = lease.EndsAt
			return p.store(ctx, w, Ready)
		}
	}
	return true
}

// meter reports to the ledger a warm sandbox that an earlier server made.
func (p *Pool) meter(ctx context.Context, w Record) {
	p.mu.Lock()
	c := p.classes[key{w.Handle.Kind, w.Class}]
	p.mu.Unlock()
	if c == nil || p.cfg.Metering.Known(w.Handle.ID) {
		return
	}
	if err := p.cfg.Metering.Began(ctx, p.interval(w), true); err != nil {
		p.cfg.Log.Error("a warm sandbox runs and the ledger does not know", "sandbox_id", w.Handle.ID, "error", err)
	}
}

// lease returns for how long a warm sandbox is leased: long enough for the next sweep, and as short as the executor's leases are.
func (p *Pool) lease(ctx context.Context, e executors.Executor) time.Duration {
	d := time.Duration(p.cfg.Choice.CapabilitiesOf(ctx, e).LeaseMs) * time.Millisecond
	return max(d, 3*p.cfg.Every)
}

// store writes a warm sandbox whose state is from; false when it was not written.
func (p *Pool) store(ctx context.Context, w Record, from string) bool {
	ok, err := p.cfg.Store.UpdateWarm(ctx, w, from)
	if err != nil && ctx.Err() == nil {
		p.cfg.Log.Warn("a warm sandbox could not be stored", "sandbox_id", w.Handle.ID, "error", err)
	}
	return ok && err == nil
}

// record returns a warm sandbox as a record for the ledger: without an owner.
func (p *Pool) record(w Record) executors.Record {
	rec := executors.Record{Handle: w.Handle, State: executors.Running, StartedAt: w.CreatedAt, Purpose: executors.ForPool}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.classes[key{w.Handle.Kind, w.Class}]; c != nil {
		rec.CPUs, rec.MemoryMB, rec.PriceNano = c.size.CPUs, c.size.MemoryMB, c.size.PriceNano
	}
	return rec
}

func (p *Pool) interval(w Record) executors.UsageInterval {
	return p.cfg.Metering.UsageInterval(p.record(w))
}

// IDs returns the ids of the warm sandboxes.
func (p *Pool) IDs(ctx context.Context) ([]string, error) {
	if p == nil {
		return nil, nil
	}
	open, err := p.cfg.Store.OpenWarm(ctx)
	out := make([]string, 0, len(open))
	for _, w := range open {
		out = append(out, w.Handle.ID)
	}
	return out, err
}
