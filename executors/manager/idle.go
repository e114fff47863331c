package manager

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
)

// idleAfter is how long a place may be idle; 0 = for ever.
func (p *place) idleAfter(purpose executors.Purpose) time.Duration {
	if p.m.cfg.IdleAfter == nil {
		return 0
	}
	purpose = cmp.Or(purpose, executors.ForAgent)
	return max(p.m.cfg.IdleAfter(p.Kind.Base(), purpose), 0)
}

// rest ends a place that has been idle for as long as its kind may be, or lets it sleep where that is free. Where it is ended, a place is
// idle while no process runs in it and nobody is at it. What a guest says of its processes is its own matter: a liar keeps, or loses,
// only itself.
func (s *slot) rest(ctx context.Context, p *place) {
	s.mu.Lock()
	purpose := p.record.Purpose
	s.mu.Unlock()
	after := p.idleAfter(purpose)
	if after <= 0 || p.paused.Load() != nil {
		return
	}
	if p.sleepsFree(ctx) {
		s.suspendIdle(ctx, p, after)
		return
	}
	uses, idle := p.idle(ctx)
	now := s.m.now()
	s.mu.Lock()
	if !idle || p.idleUses != uses {
		p.idleAt, p.idleUses = 0, uses
	}
	if idle && p.idleAt == 0 {
		p.idleAt = now
	}
	due := idle && s.place == p && now-p.idleAt >= after.Milliseconds()
	s.mu.Unlock()
	if !due {
		return
	}
	release, ok := s.turn.TryLock()
	if !ok { // who makes, moves or destroys it now has other plans
		return
	}
	defer release()
	_, idle = p.idle(ctx)
	s.mu.Lock()
	if again, _ := p.Used(); !idle || again != uses || s.place != p {
		s.mu.Unlock()
		return
	}
	p.closing = true // from here on, who asks for a place waits for the next one
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	reason := fmt.Sprintf("Stopped after %s; starts again by itself.", idleWords(after))
	if err := s.end(ctx, p, reason); err != nil {
		s.m.cfg.Log.Warn("idle sandbox could not be ended", "sandbox_id", p.SandboxID, "error", err)
	}
}

// sleepsFree reports whether a place that stands still costs nothing, and loses nothing.
func (p *place) sleepsFree(ctx context.Context) bool {
	e, ok := p.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok || !p.m.cfg.Choice.CapabilitiesOf(ctx, e).PauseFree {
		return false
	}
	_, ok = p.pauser(ctx)
	return ok
}

// doze lets a place sleep that nobody has used for a while: no session works, nothing was printed or typed, nobody looks, no command of
// ours runs. Programs that wait, such as an agent for its next prompt, are no use.
func (s *slot) suspendIdle(ctx context.Context, p *place, after time.Duration) {
	uses, quiet, at := p.quiet()
	now := s.m.now()
	s.mu.Lock()
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
	due := p.idleAt != 0 && s.place == p && now-p.idleAt >= after.Milliseconds()
	since := p.idleAt
	s.mu.Unlock()
	if !due {
		return
	}
	release, ok := s.turn.TryLock()
	if !ok { // who makes, moves or destroys it now has other plans
		return
	}
	defer release()
	stirred := func() bool { // since it was found idle: while everything was brought home, too
		again, quiet, at := p.quiet()
		return !quiet || at > since || again != uses || s.current() != p || p.paused.Load() != nil
	}
	if stirred() {
		return
	}
	reason := fmt.Sprintf("Asleep after %s. It wakes when you type.", idleWords(after))
	if err := s.lull(ctx, p, executors.ByIdle, reason, stirred); err != nil {
		s.m.cfg.Log.Warn("idle sandbox could not be paused", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	if !p.Asleep() {
		return
	}
	p.notify(ctx, "sandbox.asleep", fmt.Sprintf("The sandbox fell asleep after %s. It wakes when it is needed.", idleWords(after)))
	if _, quiet, at := p.quiet(); !quiet || at > since { // in the last moment somebody came
		if _, err := s.wakeForUse(context.WithoutCancel(ctx), p); err != nil {
			s.m.cfg.Log.Warn("sandbox that was used as it fell asleep could not be woken", "sandbox_id", p.SandboxID, "error", err)
		}
	}
}

// quiet reports whether nobody uses the place now, how often it was used before, and when something last happened in it (ms UTC).
func (p *place) quiet() (uses uint64, quiet bool, at int64) {
	uses, busy := p.Used()
	u := p.m.attached().useOf(p.WorkspaceID)
	return uses, !busy && !u.Working && u.Viewers == 0, u.LastAt
}

// idleEnd is when an idle place is ended if nothing happens, ms UTC; 0 = it is not idle, or may be so for ever. Only with the slot's mu.
func (p *place) idleEnd() int64 {
	after := p.idleAfter(p.record.Purpose)
	if after <= 0 || p.idleAt == 0 || p.paused.Load() != nil {
		return 0
	}
	return p.idleAt + after.Milliseconds()
}

// idle reports whether nothing runs in the place and nobody is at it.
func (p *place) idle(ctx context.Context) (uses uint64, idle bool) {
	uses, busy := p.Used()
	if busy {
		return uses, false
	}
	if u := p.m.attached().useOf(p.WorkspaceID); u.Working || u.Viewers > 0 {
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
