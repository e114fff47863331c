package pool

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// refill makes missing sandboxes, a few at a time, and waits for them.
func (p *Pool) refill(ctx context.Context, rules Rules, ready map[key]int) {
	now := p.now()
	var missing []key
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
	limit := make(chan struct{}, atOnce)
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

// waits reports whether making one of the class has just failed.
func (p *Pool) waits(k key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.classes[k]
	return c == nil || c.retryAt > p.now()
}

// make makes one warm sandbox.
func (p *Pool) make(ctx context.Context, k key) {
	p.mu.Lock()
	c := p.classes[k]
	if c == nil {
		p.mu.Unlock()
		return
	}
	c.making++
	size := c.size
	p.mu.Unlock()
	w := Record{Handle: executors.Handle{Kind: k.kind, ID: id.New(IDPrefix)}, Class: k.class, State: Making, CreatedAt: p.now()}
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
	c.wait = min(max(2*c.wait, waitLeast), waitMost)
	c.retryAt = p.now() + c.wait.Milliseconds()
	p.cfg.Log.Warn("no sandbox could be made ahead of time", "executor", k.kind, "error", err, "again_in", c.wait.String())
}

func (p *Pool) make1(ctx context.Context, w *Record, size executors.Size) error {
	s := p.interval(*w)
	s.CPUs, s.MemoryMB, s.PriceNano = size.CPUs, size.MemoryMB, size.PriceNano
	s.PriceNano, s.Metered = p.cfg.Metering.Price(s.Kind, s.CPUs, s.MemoryMB, s.PriceNano)
	if err := p.cfg.Metering.Afford(ctx, s); err != nil {
		return err
	}
	if err := p.cfg.Store.InsertWarm(ctx, *w); err != nil {
		p.cfg.Metering.Release(ctx, s.SandboxID)
		return err
	}
	mctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	e, _ := p.cfg.Executors.OwnOf(w.Handle.Kind)
	h, err := e.(executors.Warmer).Warm(mctx, w.Handle.ID, w.Class) // classes are those of Warmers
	if err != nil {
		p.cfg.Metering.Release(ctx, s.SandboxID)
		w.State, w.Reason, w.EndedAt = Ending, executors.CleanReason(executors.ReasonOf(err)), p.now()
		p.store(context.WithoutCancel(ctx), *w, Making)
		return err
	}
	w.Handle = h
	if err := p.cfg.Metering.Began(ctx, s, true); err != nil {
		p.cfg.Metering.Release(ctx, s.SandboxID)
		p.end(ctx, *w, "The ledger could not record it.")
		return err
	}
	w.State, w.ReadyAt = Ready, p.now()
	if !p.store(context.WithoutCancel(ctx), *w, Making) {
		w.State = Making
		p.end(ctx, *w, "It could not be stored.")
		return errors.New("a warm sandbox could not be stored")
	}
	return nil
}

// end ends a warm sandbox. If that fails now, the pool tries again.
func (p *Pool) end(ctx context.Context, w Record, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	from := w.State
	w.State, w.Reason = Ending, why
	if !p.store(ctx, w, from) {
		return // somebody has taken it
	}
	e, ok := p.cfg.Executors.OwnOf(w.Handle.Kind)
	if !ok {
		return
	}
	sb, err := e.Recover(ctx, w.Handle)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	switch {
	case errors.Is(err, executors.ErrGone):
		p.lost(ctx, w)
		return
	case err != nil:
		p.cfg.Log.Warn("a warm sandbox could not be ended", "sandbox_id", w.Handle.ID, "error", err)
		return
	}
	p.cfg.Metering.Stopped(ctx, p.interval(w), 0, executors.ByServer)
	p.cfg.Counters.Cleaned(w.Handle.Kind, executors.ForPool)
	w.EndedAt = p.now()
	p.store(ctx, w, Ending)
}

// lost records that a warm sandbox is gone.
func (p *Pool) lost(ctx context.Context, w Record) {
	from := w.State
	w.State, w.EndedAt = Ending, p.now()
	w.Reason = cmp.Or(w.Reason, "It no longer exists.")
	if p.store(ctx, w, from) { // otherwise it was taken meanwhile: it is another sandbox by now
		p.cfg.Metering.FoundStopped(ctx, p.record(w))
	}
}

// consumed reports whether a warm sandbox has become another, and no longer exists as itself.
func (p *Pool) consumed(ctx context.Context, e executors.Executor, w Record) bool {
	rctx, cancel := context.WithTimeout(ctx, 2*p.cfg.DialTimeout)
	defer cancel()
	_, err := e.Recover(rctx, w.Handle)
	return errors.Is(err, executors.ErrGone)
}

// asked records that one of a class was requested, and makes the pool check at once.
func (p *Pool) asked(k key) {
	p.mu.Lock()
	if c := p.classes[k]; c != nil {
		c.askedAt = p.now()
		c.takes = append(c.takes, c.askedAt)
	}
	p.mu.Unlock()
	tasks.Wake(p.kick) // it is about to check
}

// Take makes the sandbox of s from a warm one where there is one; pooled says that it did. nil = no warm one served, and nothing of it is
// left: the caller makes a new one.
func (p *Pool) Take(ctx context.Context, e executors.Executor, s executors.Spec) (sb executors.Sandbox, pooled bool) {
	if p == nil {
		return nil, false
	}
	w, ok := e.(executors.Warmer)
	if !ok || !p.cfg.Rules(ctx).Enabled {
		return nil, false
	}
	class := w.Class(s)
	if class == "" {
		return nil, false
	}
	defer p.asked(key{e.Kind(), class})
	got, ok, err := p.cfg.Store.TakeWarm(ctx, e.Kind(), class, s.ID)
	if err != nil {
		p.cfg.Log.Warn("no warm sandbox could be taken", "error", err)
	}
	if err != nil || !ok {
		p.cfg.Counters.Warm(e.Kind(), false)
		return nil, false
	}
	s.Warm = &got.Handle
	sb, err = e.Create(ctx, s)
	if err == nil && p.consumed(ctx, e, got) {
		p.cfg.Metering.Stopped(ctx, p.interval(got), 0, executors.ByServer)
		got.EndedAt = p.now()
		p.store(context.WithoutCancel(ctx), got, Taken)
		p.cfg.Counters.Warm(e.Kind(), true)
		return sb, true
	}
	p.cfg.Counters.Warm(e.Kind(), false)
	if err != nil {
		p.cfg.Log.Warn("a warm sandbox did not serve; one is made instead", "sandbox_id", s.ID, "warm_id", got.Handle.ID, "error", err)
	}
	p.end(ctx, got, "It did not serve.")
	if err != nil {
		return nil, false
	}
	return sb, false // its executor made one instead on its own
}
