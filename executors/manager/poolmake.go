package manager

import (
	"context"
	"errors"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/id"
)

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
	w := WarmRecord{Handle: executors.Handle{Kind: k.kind, ID: id.New(warmPrefix)}, Class: k.class, State: WarmMaking, CreatedAt: p.m.now()}
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

func (p *pool) make1(ctx context.Context, w *WarmRecord, size executors.Size) error {
	s := p.stretch(*w)
	s.CPUs, s.MemoryMB, s.PriceNano = size.CPUs, size.MemoryMB, size.PriceNano
	s.PriceNano, s.Metered = p.m.price(s.Kind, s.CPUs, s.MemoryMB, s.PriceNano)
	if err := p.m.afford(ctx, s); err != nil {
		return err
	}
	if err := p.cfg.Store.InsertWarm(ctx, *w); err != nil {
		p.m.release(ctx, s.SandboxID)
		return err
	}
	mctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	h, err := p.m.byKind[w.Handle.Kind].(executors.Warmer).Warm(mctx, w.Handle.ID, w.Class)
	if err != nil {
		p.m.release(ctx, s.SandboxID)
		w.State, w.Reason, w.EndedAt = WarmEnding, executors.CleanReason(executors.ReasonOf(err)), p.m.now()
		p.store(context.WithoutCancel(ctx), *w, WarmMaking)
		return err
	}
	w.Handle = h
	if err := p.m.began(ctx, s, true); err != nil {
		p.m.release(ctx, s.SandboxID)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
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
	case errors.Is(err, executors.ErrGone):
		p.lost(ctx, w)
		return
	case err != nil:
		p.m.cfg.Log.Warn("warm sandbox could not be ended", "sandbox_id", w.Handle.ID, "error", err)
		return
	}
	p.m.stood(ctx, p.stretch(w), 0, executors.ByServer)
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

// createWarm makes the sandbox of s of a warm one where there is one. nil = there was none that served, and nothing of it is left: one is
// made as ever.
func (m *Manager) createWarm(ctx context.Context, e executors.Executor, s executors.Spec, k *making) executors.Sandbox {
	p := m.pool()
	w, ok := e.(executors.Warmer)
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
		m.stood(ctx, p.stretch(got), 0, executors.ByServer)
		got.EndedAt = m.now()
		p.store(context.WithoutCancel(ctx), got, WarmTaken)
		m.cfg.Counters.Warm(e.Kind(), true)
		k.change(func(r *executors.Record) { r.Pooled = true })
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
func (p *pool) consumed(ctx context.Context, e executors.Executor, w WarmRecord) bool {
	rctx, cancel := context.WithTimeout(ctx, 2*p.m.cfg.DialTimeout)
	defer cancel()
	_, err := e.Recover(rctx, w.Handle)
	return errors.Is(err, executors.ErrGone)
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
