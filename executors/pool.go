package executors

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/id"
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
	Handle     Handle
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
	TakeWarm(ctx context.Context, kind Kind, class, by string) (WarmRecord, bool, error)
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
	kind  Kind
	class string
}

// poolClass is what is known of a class. Only with the pool's mu.
type poolClass struct {
	size    Size
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
	known := make(map[poolKey]Size)
	var defaults []poolKey
	for kind, e := range p.m.byKind {
		w, ok := e.(Warmer)
		if !ok {
			continue
		}
		caps := p.m.capabilities(ctx, e)
		if !caps.Available {
			continue
		}
		sizes := caps.Sizes
		if len(sizes) == 0 {
			sizes = []Size{{PriceNano: caps.PriceNano, Available: true, Default: true}}
		}
		for _, s := range sizes {
			class := w.Class(Spec{Size: s})
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

func (p *pool) available(ctx context.Context, k Kind) bool {
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
	if s, ok := e.(Sleeper); ok {
		still, err := s.Asleep(rctx, w.Handle)
		if errors.Is(err, ErrGone) {
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
	case errors.Is(err, ErrGone):
		p.lost(ctx, w)
		return false
	case err != nil:
		p.m.cfg.Log.Warn("warm sandbox cannot be reached", "sandbox_id", w.Handle.ID, "error", err)
		return true // it may be there
	}
	p.meter(ctx, w)
	if l, ok := sb.(Leased); ok {
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
func (p *pool) lease(ctx context.Context, e Executor) time.Duration {
	d := time.Duration(p.m.capabilities(ctx, e).LeaseMs) * time.Millisecond
	return max(d, 3*p.cfg.Every)
}

// refill makes what is missing, a few at a time, and waits for it.
func (p *pool) refill(ctx context.Context, rules PoolRules, ready map[poolKey]int) {
	now := p.m.now()
	var missing []poolKey
	p.mu.Lock()
	for k, c := range p.classes {
		if c.retryAt > now {
			continue
		}
		for range max(p.want(c, rules)-ready[k]-c.making, 0) {
			missing = append(missing, k)
		}
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	limit := make(chan struct{}, poolAtOnce)
	for _, k := range missing {
		limit <- struct{}{}
		if ctx.Err() != nil || p.waits(k) {
			<-limit
			continue
		}
		wg.Go(func() {
			defer func() { <-limit }()
			p.make(ctx, k)
		})
	}
	wg.Wait()
}

// waits reports whether a making of the class has just failed.
func (p *pool) waits(k poolKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.classes[k]
	return c == nil || c.retryAt > p.m.now()
}

// make makes one warm sandbox.
func (p *pool) make(ctx context.Context, k poolKey) {
	p.mu.Lock()
	c := p.classes[k]
	if c == nil {
		p.mu.Unlock()
		return
	}
	c.making++
	size := c.size
	p.mu.Unlock()
	w := WarmRecord{Handle: Handle{Kind: k.kind, ID: id.New("wrm")}, Class: k.class, State: WarmMaking, CreatedAt: p.m.now()}
	err := p.make1(ctx, &w, size)
	p.mu.Lock()
	defer p.mu.Unlock()
	c.making--
	if err == nil {
		c.wait, c.retryAt = 0, 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	c.wait = min(max(2*c.wait, poolWaitLeast), poolWaitMost)
	c.retryAt = p.m.now() + c.wait.Milliseconds()
	p.m.cfg.Log.Warn("no sandbox could be made ahead of time", "executor", k.kind, "error", err, "again_in", c.wait.String())
}

func (p *pool) make1(ctx context.Context, w *WarmRecord, size Size) error {
	s := p.stretch(*w)
	s.CPUs, s.MemoryMB, s.PriceNano = size.CPUs, size.MemoryMB, size.PriceNano
	if err := p.m.afford(ctx, s); err != nil {
		return err
	}
	if err := p.cfg.Store.InsertWarm(ctx, *w); err != nil {
		return err
	}
	mctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	h, err := p.m.byKind[w.Handle.Kind].(Warmer).Warm(mctx, w.Handle.ID, w.Class)
	if err != nil {
		w.State, w.Reason, w.EndedAt = WarmEnding, cleanReason(reasonOf(err)), p.m.now()
		p.store(context.WithoutCancel(ctx), *w, WarmMaking)
		return err
	}
	w.Handle = h
	if err := p.m.began(ctx, s, true); err != nil {
		p.end(ctx, *w, "The ledger could not be told of it.")
		return err
	}
	w.State, w.ReadyAt = WarmReady, p.m.now()
	if !p.store(context.WithoutCancel(ctx), *w, WarmMaking) {
		w.State = WarmMaking
		p.end(ctx, *w, "It could not be stored.")
		return errors.New("storing a warm sandbox failed")
	}
	return nil
}

// end ends a warm sandbox. One that cannot be ended now is tried again.
func (p *pool) end(ctx context.Context, w WarmRecord, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	from := w.State
	w.State, w.Reason = WarmEnding, why
	if !p.store(ctx, w, from) {
		return // somebody has taken it
	}
	e, ok := p.m.byKind[w.Handle.Kind]
	if !ok {
		return
	}
	sb, err := e.Recover(ctx, w.Handle)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	switch {
	case errors.Is(err, ErrGone):
		p.lost(ctx, w)
		return
	case err != nil:
		p.m.cfg.Log.Warn("warm sandbox could not be ended", "sandbox_id", w.Handle.ID, "error", err)
		return
	}
	p.m.stood(ctx, p.stretch(w), 0, ByServer)
	p.m.cfg.Counters.Cleaned(w.Handle.Kind)
	w.EndedAt = p.m.now()
	p.store(ctx, w, WarmEnding)
}

// lost notes that a warm sandbox is gone.
func (p *pool) lost(ctx context.Context, w WarmRecord) {
	from := w.State
	w.State, w.EndedAt = WarmEnding, p.m.now()
	if w.Reason == "" {
		w.Reason = "It no longer exists."
	}
	if p.store(ctx, w, from) { // else it was taken meanwhile: it is another sandbox by now
		p.m.stoodGone(ctx, p.record(w))
	}
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
func (p *pool) record(w WarmRecord) Record {
	rec := Record{Handle: w.Handle, State: Running, StartedAt: w.CreatedAt, Purpose: poolPurpose}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.classes[poolKey{w.Handle.Kind, w.Class}]; c != nil {
		rec.CPUs, rec.MemoryMB, rec.PriceNano = c.size.CPUs, c.size.MemoryMB, c.size.PriceNano
	}
	return rec
}

func (p *pool) stretch(w WarmRecord) Stretch { return stretch(p.record(w)) }

// createWarm makes the sandbox of s of a warm one where there is one. nil = there was none that served, and nothing of it is left: one is
// made as ever.
func (m *Manager) createWarm(ctx context.Context, e Executor, s Spec, k *making) Sandbox {
	p := m.pool()
	w, ok := e.(Warmer)
	if p == nil || !ok || !p.cfg.Rules(ctx).Enabled {
		return nil
	}
	class := w.Class(s)
	if class == "" {
		return nil
	}
	key := poolKey{e.Kind(), class}
	defer p.asked(key)
	got, ok, err := p.cfg.Store.TakeWarm(ctx, e.Kind(), class, s.ID)
	if err != nil {
		m.cfg.Log.Warn("no warm sandbox could be taken", "error", err)
	}
	if err != nil || !ok {
		m.cfg.Counters.Warm(e.Kind(), false)
		return nil
	}
	s.Warm = &got.Handle
	sb, err := e.Create(ctx, s)
	if err == nil && p.consumed(ctx, e, got) {
		m.stood(ctx, p.stretch(got), 0, ByServer)
		got.EndedAt = m.now()
		p.store(context.WithoutCancel(ctx), got, WarmTaken)
		m.cfg.Counters.Warm(e.Kind(), true)
		k.change(func(r *Record) { r.Pooled = true })
		return sb
	}
	m.cfg.Counters.Warm(e.Kind(), false)
	if err != nil {
		m.cfg.Log.Warn("a warm sandbox did not serve; one is made instead", "sandbox_id", s.ID, "warm_id", got.Handle.ID, "error", err)
	}
	p.end(ctx, got, "It did not serve.")
	if err != nil {
		return nil
	}
	return sb // its place made one instead by itself
}

// consumed reports whether a warm sandbox has become another: it is not there any more.
func (p *pool) consumed(ctx context.Context, e Executor, w WarmRecord) bool {
	rctx, cancel := context.WithTimeout(ctx, 2*p.m.cfg.DialTimeout)
	defer cancel()
	_, err := e.Recover(rctx, w.Handle)
	return errors.Is(err, ErrGone)
}

// asked notes that one of a class was asked for, and has the pool look at once.
func (p *pool) asked(k poolKey) {
	p.mu.Lock()
	if c := p.classes[k]; c != nil {
		c.askedAt = p.m.now()
		c.takes = append(c.takes, c.askedAt)
	}
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default: // it is about to look
	}
}

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
