package manager

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
)

// A member of a family may be unreachable: a machine that is switched off, or without network. Its sandboxes go on there, or wait; nobody
// can know. They stay their workspaces' sandboxes, whose guests cannot be called until the machine is back: then the server continues where
// they are. Meanwhile the server ends none of them, and makes none elsewhere instead.

// Away says why the workspace's sandbox is unreachable although it may go on; nil = it is reachable, or there is none.
func (m *Manager) Away(ctx context.Context, workspaceID string) error {
	m.mu.Lock()
	s := m.slots[workspaceID]
	m.mu.Unlock()
	if s == nil {
		return nil
	}
	k := s.kind()
	if k == "" {
		return nil
	}
	return m.cfg.Choice.Unreachable(ctx, k)
}

// kind returns the kind of the slot's sandbox, "" = it has none.
func (s *slot) kind() executors.Kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.place != nil:
		return s.place.Kind
	case s.stray != nil:
		return s.stray.Handle.Kind
	}
	return ""
}

// look is an executor that changed.
type look struct {
	kind  executors.Kind
	evict bool // it goes for good
}

// Look requests a check of all sandboxes of an executor that became reachable, became unreachable or changed. It does not wait for the
// check.
func (m *Manager) Look(k executors.Kind) {
	select {
	case m.checks.looks <- look{kind: k}:
	default: // beyond this many the regular check suffices
	}
}

// EvictSoon is Evict without waiting for it.
func (m *Manager) EvictSoon(k executors.Kind) {
	select {
	case m.checks.looks <- look{kind: k, evict: true}:
	default:
		m.cfg.Log.Warn("an executor about to be removed could not be emptied: the queue of checks is full", "executor", k)
	}
}

// recheckLooks checks the sandboxes of executors that changed.
func (c *checks) recheckLooks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-c.looks:
			c.m.work.Go(func() { c.lookAt(ctx, l) }) // bounded by the calls it makes, and by ctx
		}
	}
}

func (c *checks) lookAt(ctx context.Context, l look) {
	if l.evict {
		c.m.Evict(ctx, l.kind)
		return
	}
	c.checkAll(ctx, c.m.slotsWhere(func(s *slot) bool { return s.kind() == l.kind }))
	if e, ok := c.m.cfg.Executors.Find(ctx, l.kind); ok {
		c.m.reaper.reapPlace(ctx, l.kind, e)
	}
}

// left records that a live sandbox is unreachable now. A suspended one is left as it is.
func (s *slot) left(ctx context.Context, p *place, why error) {
	reason := executors.CleanReason(executors.ReasonOf(why))
	s.mu.Lock()
	if s.place != p || p.closing || p.paused.Load() != nil {
		s.mu.Unlock()
		return
	}
	p.setAway(&why)
	p.MarkSuspended(reason)
	news := p.record.Reason != reason
	p.record.Reason = reason
	rec := p.record
	s.mu.Unlock()
	if !news {
		return
	}
	s.m.cfg.Log.Info("a sandbox's executor is unreachable", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "reason", reason)
	if err := s.m.cfg.Store.UpdateSandbox(context.WithoutCancel(ctx), rec); err != nil {
		s.m.cfg.Log.Warn("a sandbox could not be stored as unreachable", "sandbox_id", p.SandboxID, "error", err)
	}
	s.m.publish(ctx, rec)
}

// setAway records whether a sandbox is unreachable now, and why, and reports whether it was reachable before.
func (p *place) setAway(why *error) (was bool) {
	was = p.away.Swap(why) != nil
	switch {
	case !was && why != nil:
		p.m.still.Add(1)
	case was && why == nil:
		p.m.still.Add(-1)
	}
	return was
}

// cameBack lets callers reach a guest again that was unreachable. The returned func wakes those who waited for that.
func (p *place) cameBack() (done func()) {
	if !p.setAway(nil) || p.paused.Load() != nil {
		return func() {}
	}
	p.Unfreeze() // from here on its guest may be called
	return p.MarkResumed
}

// leaveBehind abandons the workspace's unreachable sandbox, so that the workspace can go on elsewhere. Once its executor is reachable, the
// server saves what it holds: see Participant.Left. The caller holds the slot's turn.
func (s *slot) leaveBehind(ctx context.Context, why error) {
	reason := fmt.Sprintf("It was left behind: %s Once it can be reached again, the server saves the work done there as a branch of its own and ends the sandbox.", sentence(executors.ReasonOf(why)))
	if p := s.current(); p != nil {
		s.m.noteEnd(p.SandboxID, "left behind: the workspace goes on elsewhere")
		s.mu.Lock()
		p.closing = true
		s.mu.Unlock()
		s.endPlace(ctx, p, executors.Gone, reason)
		return
	}
	s.mu.Lock()
	stray := s.stray
	s.stray = nil
	s.mu.Unlock()
	if stray != nil {
		s.m.noteEnd(stray.Handle.ID, "left behind: the workspace goes on elsewhere")
		s.m.cfg.Metering.Stopped(ctx, s.m.cfg.Metering.UsageInterval(*stray), 0, executors.ByHeartbeat)
		s.m.finish(ctx, *stray, executors.Gone, reason)
	}
}
