package manager

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
)

// idleAfter returns how long a sandbox may be idle; 0 = forever.
func (p *place) idleAfter(purpose executors.Purpose) time.Duration {
	if p.m.cfg.IdleAfter == nil {
		return 0
	}
	purpose = cmp.Or(purpose, executors.ForAgent)
	return max(p.m.cfg.IdleAfter(p.Kind.Base(), purpose), 0)
}

// rest ends a sandbox that has been idle as long as its kind may be, or suspends it where that is free. To be ended, a sandbox counts as
// idle while no process runs in it and nobody uses it. The guest reports its processes, and a guest that lies affects only its own sandbox.
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
	if !ok { // another call makes, moves or destroys it now
		return
	}
	defer release()
	_, idle = p.idle(ctx)
	s.mu.Lock()
	if again, _ := p.Used(); !idle || again != uses || s.place != p {
		s.mu.Unlock()
		return
	}
	p.closing = true // from here on, callers of Ensure wait for the next sandbox
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer cancel()
	reason := fmt.Sprintf("Stopped after %s; starts again when needed.", idleWords(after))
	if err := s.end(ctx, p, reason); err != nil {
		s.m.cfg.Log.Warn("an idle sandbox could not be ended", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	s.m.cfg.Counters.Cleaned(p.Kind, purpose)
}

// sleepsFree reports whether a suspended sandbox costs nothing, and loses nothing.
func (p *place) sleepsFree(ctx context.Context) bool {
	e, ok := p.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok || !p.m.cfg.Choice.CapabilitiesOf(ctx, e).PauseFree {
		return false
	}
	_, ok = p.pauser(ctx)
	return ok
}

// suspendIdle suspends a sandbox that nobody has used for a while: no session works, nothing was printed or typed, nobody watches, none of
// our commands runs. Programs that wait, such as an agent at its prompt, do not count as use.
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
	if !ok { // another call makes, moves or destroys it now
		return
	}
	defer release()
	stirred := func() bool { // since it was found idle, and also while files were copied to the server
		again, quiet, at := p.quiet()
		return !quiet || at > since || again != uses || s.current() != p || p.paused.Load() != nil
	}
	if stirred() {
		return
	}
	reason := fmt.Sprintf("Asleep after %s. It wakes when you type.", idleWords(after))
	if err := s.suspend(ctx, p, executors.ByIdle, reason, stirred); err != nil {
		s.m.cfg.Log.Warn("an idle sandbox could not be paused", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	if !p.Asleep() {
		return
	}
	p.notify(ctx, "sandbox.asleep", fmt.Sprintf("The sandbox fell asleep after %s. It wakes when it is needed.", idleWords(after)))
	if _, quiet, at := p.quiet(); !quiet || at > since { // somebody came at the last moment
		if _, err := s.wakeForUse(context.WithoutCancel(ctx), p); err != nil {
			s.m.cfg.Log.Warn("a sandbox that was used while it fell asleep could not be woken", "sandbox_id", p.SandboxID, "error", err)
		}
	}
}

// quiet reports whether nobody uses the sandbox now, how often it was used before, and when something last happened in it (ms UTC).
func (p *place) quiet() (uses uint64, quiet bool, at int64) {
	uses, busy := p.Used()
	u := p.m.attached().useOf(p.WorkspaceID)
	return uses, !busy && !u.Working && u.Viewers == 0, u.LastAt
}

// idleEnd is when the server ends an idle sandbox if nothing happens, ms UTC; 0 = it is not idle, or may be idle forever. Guarded by the
// slot's mu.
func (p *place) idleEnd() int64 {
	after := p.idleAfter(p.record.Purpose)
	if after <= 0 || p.idleAt == 0 || p.paused.Load() != nil {
		return 0
	}
	return p.idleAt + after.Milliseconds()
}

// idle reports whether nothing runs in the sandbox and nobody uses it.
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
