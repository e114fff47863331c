package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// States of a warm sandbox.
const (
	WarmMaking = "making" // its place makes it
	WarmReady  = "ready"
	WarmTaken  = "taken"  // a making has it; what is left of it afterwards is ended, never given to another
	WarmEnding = "ending" // it is being ended
)

// WarmRecord is the stored row of a sandbox that was made ahead of time. Times are ms UTC, 0 = not yet.
type WarmRecord struct {
	Handle     executors.Handle
	Class      string
	State      string
	Reason     string
	TakenBy    string // the sandbox it became
	CreatedAt  int64
	ReadyAt    int64
	LeaseUntil int64
	EndedAt    int64
}

// WarmStore is what the pool needs of the storage.
type WarmStore interface {
	InsertWarm(ctx context.Context, r WarmRecord) error
	// UpdateWarm writes handle, state, reason, ready, lease and end of one whose state is from; false when it is not, or it has ended.
	UpdateWarm(ctx context.Context, r WarmRecord, from string) (bool, error)
	// TakeWarm makes the oldest ready one of a class taken by a sandbox; false when there is none. Nobody else is ever given it.
	TakeWarm(ctx context.Context, kind executors.Kind, class, by string) (WarmRecord, bool, error)
	// OpenWarm returns all that have not ended, the oldest first.
	OpenWarm(ctx context.Context) ([]WarmRecord, error)
}

// PoolRules are how many sandboxes are made ahead of time, for each class that is asked for.
type PoolRules struct {
	Enabled  bool
	Min, Max int
}

// PoolConfig is what a pool is made of.
type PoolConfig struct {
	Store  WarmStore
	Rules  func(ctx context.Context) PoolRules
	Every  time.Duration // how often it is swept; default 60 s
	MaxAge time.Duration // how long a warm sandbox lives at most; default 4 h
}

const (
	poolEvery  = time.Minute
	poolMaxAge = 4 * time.Hour
	// poolRunLeft is how much of its run a warm sandbox must have left to be of use.
	poolRunLeft = 20 * time.Minute
	// poolRecent is how long takes count for how many are kept ready.
	poolRecent = 10 * time.Minute
	// poolWanted is how long a class that is not the default is kept after it was asked for.
	poolWanted = time.Hour
	// poolAtOnce is how many are made at a time: services allow few makings a second.
	poolAtOnce = 2
	// poolWaits bound the wait after a making that failed: doubled each time.
	poolWaitLeast, poolWaitMost = time.Minute, 15 * time.Minute
)

// poolPurpose is what a warm sandbox is for, in the ledger.
const poolPurpose = "pool"

// pool keeps sandboxes that were made ahead of time. Its goroutine is Manager.Run's.
type pool struct {
	m    *Manager
	cfg  PoolConfig
	kick chan struct{} // one was taken: look at once

	mu      sync.Mutex
	classes map[poolKey]*poolClass
	swept   bool // what an earlier server left was looked at
}

type poolKey struct {
	kind  executors.Kind
	class string
}

// poolClass is what is known of a class. Only with the pool's mu.
type poolClass struct {
	size    executors.Size
	def     bool    // what a workspace gets that asks for none
	askedAt int64   // ms UTC
	takes   []int64 // ms UTC, lately
	making  int
	retryAt int64 // ms UTC: not before
	wait    time.Duration
}

// UsePool has the Manager make sandboxes ahead of time where a place can. It is called before Run.
func (m *Manager) UsePool(cfg PoolConfig) {
	if cfg.Every <= 0 {
		cfg.Every = poolEvery
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = poolMaxAge
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warm = &pool{m: m, cfg: cfg, kick: make(chan struct{}, 1), classes: make(map[poolKey]*poolClass)}
}

func (m *Manager) pool() *pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warm
}

// PoolStatus is how the pool stands.
type PoolStatus struct {
	PoolRules
	Ready, Making int
	Taken         int // sandboxes in use that were warm
}

// Pool tells how the pool stands.
func (m *Manager) Pool(ctx context.Context) (PoolStatus, error) {
	p := m.pool()
	if p == nil {
		return PoolStatus{}, nil
	}
	out := PoolStatus{PoolRules: p.cfg.Rules(ctx)}
	open, err := p.cfg.Store.OpenWarm(ctx)
	for _, w := range open {
		switch w.State {
		case WarmReady:
			out.Ready++
		case WarmMaking:
			out.Making++
		}
	}
	for _, pl := range m.places() {
		r := m.room(pl.WorkspaceID)
		r.mu.Lock()
		if pl.record.Pooled {
			out.Taken++
		}
		r.mu.Unlock()
	}
	return out, err
}

// run keeps the pool as its rules say until ctx is done, and returns when nothing of it is under way.
func (p *pool) run(ctx context.Context) {
	for {
		p.tend(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-p.m.cfg.After(p.cfg.Every):
		}
	}
}

// TendPool brings the pool to what its rules say, once, now.
func (m *Manager) TendPool(ctx context.Context) {
	if p := m.pool(); p != nil {
		p.tend(ctx)
	}
}

// tend ends what is of no use, extends the leases of the rest and makes what is missing.
func (p *pool) tend(ctx context.Context) {
	open, err := p.cfg.Store.OpenWarm(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.m.cfg.Log.Warn("warm sandboxes could not be read", "error", err)
		}
		return
	}
	rules := p.cfg.Rules(ctx)
	p.learn(ctx, rules)
	p.mu.Lock()
	first := !p.swept
	p.swept = true
	p.mu.Unlock()
	ready := make(map[poolKey]int)
	for _, w := range open {
		if ctx.Err() != nil {
			return
		}
		k := poolKey{w.Handle.Kind, w.Class}
		// What is being made, or taken, is somebody's who is at it; after a restart nobody is.
		if !first && (w.State == WarmMaking || w.State == WarmTaken) {
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

// learn finds out which classes there are: the default sizes of places, and those that were asked for lately.
func (p *pool) learn(ctx context.Context, rules PoolRules) {
	if !rules.Enabled {
		return
	}
	now := p.m.now()
	known := make(map[poolKey]executors.Size)
	var defaults []poolKey
	for kind, e := range p.m.byKind {
		w, ok := e.(executors.Warmer)
		if !ok {
			continue
		}
		caps := p.m.capabilities(ctx, e)
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
			k := poolKey{kind, class}
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
			c = &poolClass{}
			p.classes[k] = c
		}
		c.size, c.def = s, slices.Contains(defaults, k)
	}
	for k, c := range p.classes {
		if _, ok := known[k]; !ok && c.making == 0 {
			delete(p.classes, k)
			continue
		}
		c.takes = slices.DeleteFunc(c.takes, func(at int64) bool { return now-at > poolRecent.Milliseconds() })
	}
}

// want is how many of a class are to be ready. Only with the pool's mu.
func (p *pool) want(c *poolClass, rules PoolRules) int {
	if c == nil || !rules.Enabled || !c.def && p.m.now()-c.askedAt > poolWanted.Milliseconds() {
		return 0
	}
	return min(rules.Min+len(c.takes), rules.Max)
}

// useless says why a warm sandbox is to be ended; "" = it is of use.
func (p *pool) useless(ctx context.Context, rules PoolRules, w WarmRecord, ready int) string {
	switch w.State {
	case WarmReady:
	case WarmEnding:
		return w.Reason
	default:
		return "The server stopped while it was " + w.State + "."
	}
	if !rules.Enabled {
		return "The pool is switched off."
	}
	p.mu.Lock()
	c := p.classes[poolKey{w.Handle.Kind, w.Class}]
	want := p.want(c, rules)
	p.mu.Unlock()
	switch age := p.m.now() - w.CreatedAt; {
	case c == nil && p.available(ctx, w.Handle.Kind):
		return "Its place makes none like it any more."
	case c != nil && ready >= want:
		return "It is not needed any more."
	case age > p.cfg.MaxAge.Milliseconds():
		return "It has grown old."
	}
	return ""
}

func (p *pool) available(ctx context.Context, k executors.Kind) bool {
	e, ok := p.m.byKind[k]
	return ok && p.m.capabilities(ctx, e).Available
}

// keep extends the lease of a warm sandbox and reports whether it is ready still. One that is gone, or stands still, is ended.
func (p *pool) keep(ctx context.Context, w WarmRecord) bool {
	e, ok := p.m.byKind[w.Handle.Kind]
	if !ok {
		return false
	}
	rctx, cancel := context.WithTimeout(ctx, 4*p.m.cfg.DialTimeout)
	defer cancel()
	if s, ok := e.(executors.Sleeper); ok {
		still, err := s.Asleep(rctx, w.Handle)
		if errors.Is(err, executors.ErrGone) {
			p.lost(ctx, w)
			return false
		}
		if err == nil && still {
			p.m.stoodGone(ctx, p.record(w))
			p.end(ctx, w, "Its place had paused it.")
			return false // who took it meanwhile wakes it
		}
	}
	sb, err := e.Recover(rctx, w.Handle)
	switch {
	case errors.Is(err, executors.ErrGone):
		p.lost(ctx, w)
		return false
	case err != nil:
		p.m.cfg.Log.Warn("warm sandbox cannot be reached", "sandbox_id", w.Handle.ID, "error", err)
		return true // it may be there
	}
	p.meter(ctx, w)
	if l, ok := sb.(executors.Leased); ok {
		d := p.lease(ctx, e)
		if lease, err := l.Extend(rctx, d); err != nil {
			p.m.cfg.Log.Warn("lease of a warm sandbox could not be extended", "sandbox_id", w.Handle.ID, "error", err)
		} else {
			if lease.RunEndsAt > 0 && lease.RunEndsAt-p.m.now() < poolRunLeft.Milliseconds() {
				p.end(ctx, w, "Its run is nearly over.")
				return false
			}
			w.LeaseUntil = lease.EndsAt
			return p.store(ctx, w, WarmReady)
		}
	}
	return true
}

// meter has the ledger know of a warm sandbox that an earlier server made.
func (p *pool) meter(ctx context.Context, w WarmRecord) {
	t := &p.m.metering
	t.mu.Lock()
	_, known := t.runs[w.Handle.ID]
	t.mu.Unlock()
	p.mu.Lock()
	c := p.classes[poolKey{w.Handle.Kind, w.Class}]
	p.mu.Unlock()
	if known || c == nil {
		return
	}
	if err := p.m.began(ctx, p.stretch(w), true); err != nil {
		p.m.cfg.Log.Error("a warm sandbox runs and the ledger does not know", "sandbox_id", w.Handle.ID, "error", err)
	}
}

// lease is for how long a warm sandbox is kept: long enough for the next sweep to come, and as short as its place's leases are.
func (p *pool) lease(ctx context.Context, e executors.Executor) time.Duration {
	d := time.Duration(p.m.capabilities(ctx, e).LeaseMs) * time.Millisecond
	return max(d, 3*p.cfg.Every)
}

// store writes a warm sandbox whose state is from; false when it was not written.
func (p *pool) store(ctx context.Context, w WarmRecord, from string) bool {
	ok, err := p.cfg.Store.UpdateWarm(ctx, w, from)
	if err != nil && ctx.Err() == nil {
		p.m.cfg.Log.Warn("warm sandbox could not be stored", "sandbox_id", w.Handle.ID, "error", err)
	}
	return ok && err == nil
}

// record is a warm sandbox as the ledger knows sandboxes: of nobody.
func (p *pool) record(w WarmRecord) executors.Record {
	rec := executors.Record{Handle: w.Handle, State: executors.Running, StartedAt: w.CreatedAt, Purpose: poolPurpose}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.classes[poolKey{w.Handle.Kind, w.Class}]; c != nil {
		rec.CPUs, rec.MemoryMB, rec.PriceNano = c.size.CPUs, c.size.MemoryMB, c.size.PriceNano
	}
	return rec
}

func (p *pool) stretch(w WarmRecord) executors.Stretch { return p.m.stretch(p.record(w)) }

// ids are the warm sandboxes there are.
func (p *pool) ids(ctx context.Context) ([]string, error) {
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
