package executors

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// use notes that somebody works in the place until the returned func is called.
func (p *Place) use() func() {
	p.useMu.Lock()
	p.busy++
	p.uses++
	p.useMu.Unlock()
	return sync.OnceFunc(func() {
		p.useMu.Lock()
		p.busy--
		p.uses++
		p.useMu.Unlock()
	})
}

// used says how often the place was used so far, and whether it is right now.
func (p *Place) used() (times uint64, now bool) {
	p.useMu.Lock()
	defer p.useMu.Unlock()
	return p.uses, p.busy > 0
}

// rest ends a place that has been idle for as long as its kind may: no process runs in it and nobody is at it. What a guest says of its
// processes is its own matter: a liar keeps, or loses, only itself.
func (m *Manager) rest(ctx context.Context, r *room, p *Place) {
	if m.cfg.IdleAfter == nil {
		return
	}
	after := m.cfg.IdleAfter(p.Kind)
	if after <= 0 {
		return
	}
	uses, idle := m.idle(ctx, p)
	now := m.now()
	r.mu.Lock()
	if !idle || p.idleUses != uses {
		p.idleAt, p.idleUses = 0, uses
	}
	if idle && p.idleAt == 0 {
		p.idleAt = now
	}
	due := idle && r.place == p && now-p.idleAt >= after.Milliseconds()
	r.mu.Unlock()
	if !due {
		return
	}
	select { // who makes, moves or destroys it now has other plans
	case r.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-r.turn }()
	_, idle = m.idle(ctx, p)
	r.mu.Lock()
	if again, _ := p.used(); !idle || again != uses || r.place != p {
		r.mu.Unlock()
		return
	}
	p.closing = true // from here on, who asks for a place waits for the next one
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	reason := fmt.Sprintf("Stopped after %s; starts again by itself.", idleWords(after))
	if err := m.end(ctx, r, p, reason); err != nil {
		m.cfg.Log.Warn("idle sandbox could not be ended", "sandbox_id", p.SandboxID, "error", err)
	}
}

// idleAt is when an idle place is ended if nothing happens, ms UTC; 0 = it is not idle, or may be so for ever. Only with the room's mu.
func (m *Manager) idleAt(p *Place) int64 {
	if m.cfg.IdleAfter == nil || p.idleAt == 0 || p.paused.Load() != nil {
		return 0
	}
	after := m.cfg.IdleAfter(p.Kind)
	if after <= 0 {
		return 0
	}
	return p.idleAt + after.Milliseconds()
}

// idle reports whether nothing runs in the place and nobody is at it.
func (m *Manager) idle(ctx context.Context, p *Place) (uses uint64, idle bool) {
	uses, busy := p.used()
	if busy {
		return uses, false
	}
	for _, fn := range m.registered().using {
		if fn(p.WorkspaceID) {
			return uses, false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s, err := p.Guest.Stats(ctx)
	return uses, err == nil && s.Processes == 0
}

func idleWords(d time.Duration) string {
	if n := int(d.Minutes()); d%time.Minute == 0 && n > 1 {
		return fmt.Sprintf("%d idle minutes", n)
	} else if n == 1 && d == time.Minute {
		return "1 idle minute"
	}
	return d.String() + " of idleness"
}
