package manager

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
)

// idleAfter is how long a place may be idle; 0 = for ever.
func (m *Manager) idleAfter(p *place, purpose executors.Purpose) time.Duration {
	if m.cfg.IdleAfter == nil {
		return 0
	}
	if purpose == "" {
		purpose = executors.ForAgent
	}
	return max(m.cfg.IdleAfter(p.Kind.Base(), purpose), 0)
}

// rest ends a place that has been idle for as long as its kind may be, or lets it sleep where that is free. Where it is ended, a place is
// idle while no process runs in it and nobody is at it. What a guest says of its processes is its own matter: a liar keeps, or loses,
// only itself.
func (m *Manager) rest(ctx context.Context, r *room, p *place) {
	r.mu.Lock()
	purpose := p.record.Purpose
	r.mu.Unlock()
	after := m.idleAfter(p, purpose)
	if after <= 0 || p.paused.Load() != nil {
		return
	}
	if m.sleepsFree(ctx, p) {
		m.doze(ctx, r, p, after)
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
	if again, _ := p.Used(); !idle || again != uses || r.place != p {
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

// sleepsFree reports whether a place that stands still costs nothing, and loses nothing.
func (m *Manager) sleepsFree(ctx context.Context, p *place) bool {
	e, ok := m.cfg.Executors.Find(ctx, p.Kind)
	if !ok || !m.cfg.Choice.CapabilitiesOf(ctx, e).PauseFree {
		return false
	}
	_, ok = m.pauser(ctx, p)
	return ok
}

// doze lets a place sleep that nobody has used for a while: no session works, nothing was printed or typed, nobody looks, no command of
// ours runs. Programs that wait, such as an agent for its next prompt, are no use.
func (m *Manager) doze(ctx context.Context, r *room, p *place, after time.Duration) {
	uses, quiet, at := m.quiet(p)
	now := m.now()
	r.mu.Lock()
	switch {
	case !quiet:
		p.idleAt = 0
	case p.idleAt == 0 || p.idleUses != uses:
		p.idleAt = now
	}
	if p.idleAt != 0 {
		p.idleAt = min(max(p.idleAt, at), now)
	}
	p.idleUses = uses
	due := p.idleAt != 0 && r.place == p && now-p.idleAt >= after.Milliseconds()
	since := p.idleAt
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
	stirred := func() bool { // since it was found idle: while everything was brought home, too
		again, quiet, at := m.quiet(p)
		return !quiet || at > since || again != uses || r.current() != p || p.paused.Load() != nil
	}
	if stirred() {
		return
	}
	reason := fmt.Sprintf("Asleep after %s. It wakes when you type.", idleWords(after))
	if err := m.lull(ctx, r, p, executors.ByIdle, reason, stirred); err != nil {
		m.cfg.Log.Warn("idle sandbox could not be paused", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	if !p.Asleep() {
		return
	}
	m.tell(ctx, p, "sandbox.asleep", fmt.Sprintf("The sandbox fell asleep after %s. It wakes when it is needed.", idleWords(after)))
	if _, quiet, at := m.quiet(p); !quiet || at > since { // in the last moment somebody came
		if _, err := m.rouse(context.WithoutCancel(ctx), r, p); err != nil {
			m.cfg.Log.Warn("sandbox that was used as it fell asleep could not be woken", "sandbox_id", p.SandboxID, "error", err)
		}
	}
}

// quiet reports whether nobody uses the place now, how often it was used before, and when something last happened in it (ms UTC).
func (m *Manager) quiet(p *place) (uses uint64, quiet bool, at int64) {
	uses, busy := p.Used()
	u := m.useOf(p.WorkspaceID)
	return uses, !busy && !u.Working && u.Viewers == 0, u.LastAt
}

// idleAt is when an idle place is ended if nothing happens, ms UTC; 0 = it is not idle, or may be so for ever. Only with the room's mu.
func (m *Manager) idleAt(p *place) int64 {
	after := m.idleAfter(p, p.record.Purpose)
	if after <= 0 || p.idleAt == 0 || p.paused.Load() != nil {
		return 0
	}
	return p.idleAt + after.Milliseconds()
}

// idle reports whether nothing runs in the place and nobody is at it.
func (m *Manager) idle(ctx context.Context, p *place) (uses uint64, idle bool) {
	uses, busy := p.Used()
	if busy {
		return uses, false
	}
	if u := m.useOf(p.WorkspaceID); u.Working || u.Viewers > 0 {
		return uses, false
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
