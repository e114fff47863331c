package manager

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
)

// A member of a family may be away: a machine that is switched off, or without network. Its sandboxes go on there, or wait; nobody can say.
// They stay their workspaces' places, whose guests cannot be asked until the machine is back: then they are taken up where they are.
// Nothing of that ends a sandbox, and nothing is made elsewhere instead.

// Away says why the workspace's sandbox cannot be heard now although it may go on; nil = it can, or there is none.
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

// kind is where the slot's sandbox is, "" = it has none.
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

// look is a place that changed.
type look struct {
	kind  executors.Kind
	evict bool // it goes for good
}

// Look has all sandboxes of a place looked at now, which came, went or changed. It does not wait for that.
func (m *Manager) Look(k executors.Kind) {
	select {
	case m.checks.looks <- look{kind: k}:
	default: // so many come and go that the regular check will do
	}
}

// EvictSoon is Evict without waiting for it.
func (m *Manager) EvictSoon(k executors.Kind) {
	select {
	case m.checks.looks <- look{kind: k, evict: true}:
	default:
		m.cfg.Log.Warn("a place that goes for good could not be emptied: too much happens at once", "executor", k)
	}
}

// recheckLooks looks at the places that changed.
func (c *checks) recheckLooks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-c.looks:
			c.m.work.Go(func() { c.lookAt(ctx, l) }) // bounded by what it asks, and by ctx
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

// left notes that a live place cannot be heard now. What stands still anyway is left as it is.
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
	s.m.cfg.Log.Info("place of a sandbox is away", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "reason", reason)
	if err := s.m.cfg.Store.UpdateSandbox(context.WithoutCancel(ctx), rec); err != nil {
		s.m.cfg.Log.Warn("sandbox could not be stored as out of reach", "sandbox_id", p.SandboxID, "error", err)
	}
	s.m.publish(ctx, rec)
}

// setAway notes whether a place cannot be heard now, and why, and says whether it could not before.
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

// cameBack lets a place's guest be asked again that could not be heard before. The returned func wakes who waited for that.
func (p *place) cameBack() (done func()) {
	if !p.setAway(nil) || p.paused.Load() != nil {
		return func() {}
	}
	p.Unfreeze() // from here on its guest may be asked
	return p.MarkResumed
}

// leaveBehind gives up the workspace's sandbox, which is out of reach, so that the workspace can go on elsewhere. What it holds is brought
// home once its place is back: see Participant.Left. The caller holds the slot's turn.
func (s *slot) leaveBehind(ctx context.Context, why error) {
	reason := fmt.Sprintf("It was left behind: %s What was done there meanwhile is kept as a branch of its own once it can be reached again, and the sandbox is ended then.", sentence(executors.ReasonOf(why)))
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
