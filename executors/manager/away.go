package manager

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// A member of a family may be away: a machine that is switched off, or without network. Its sandboxes go on there, or wait; nobody can say.
// They stay their workspaces' places, whose guests cannot be asked until the machine is back: then they are taken up where they are.
// Nothing of that ends a sandbox, and nothing is made elsewhere instead.

// codeAway is the code of the error that a place cannot be heard now.
const codeAway = "runner_offline"

// awayWhy says why a member of a family cannot be heard now; nil = it can, or it is no such place.
func (m *Manager) awayWhy(ctx context.Context, k executors.Kind) error {
	if k.Member() == "" {
		return nil
	}
	e, ok := m.cfg.Executors.Find(ctx, k)
	if !ok {
		return nil
	}
	c := m.cfg.Choice.CapabilitiesOf(context.WithoutCancel(ctx), e)
	if !c.Away {
		return nil
	}
	return fault.New(fault.Unavailable, codeAway, "%s is %s. What runs there goes on, and is taken up when it is back.", c.Name, strings.TrimSuffix(c.Reason, ".")).
		With("executor", string(k.Base())).With("runner_id", k.Member()).With("offline_since", c.AwaySince)
}

// Away says why the workspace's sandbox cannot be heard now although it may go on; nil = it can, or there is none.
func (m *Manager) Away(ctx context.Context, workspaceID string) error {
	m.mu.Lock()
	r := m.rooms[workspaceID]
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	k := r.kind()
	if k == "" {
		return nil
	}
	return m.awayWhy(ctx, k)
}

// kind is where the room's sandbox is, "" = it has none.
func (r *room) kind() executors.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.place != nil:
		return r.place.Kind
	case r.stray != nil:
		return r.stray.Handle.Kind
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
	case m.looks <- look{kind: k}:
	default: // so many come and go that the regular check will do
	}
}

// EvictSoon is Evict without waiting for it.
func (m *Manager) EvictSoon(k executors.Kind) {
	select {
	case m.looks <- look{kind: k, evict: true}:
	default:
		m.cfg.Log.Warn("a place that goes for good could not be emptied: too much happens at once", "executor", k)
	}
}

// heedLooks looks at the places that changed.
func (m *Manager) heedLooks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-m.looks:
			m.work.Go(func() { m.lookAt(ctx, l) }) // bounded by what it asks, and by ctx
		}
	}
}

func (m *Manager) lookAt(ctx context.Context, l look) {
	if l.evict {
		m.Evict(ctx, l.kind)
		return
	}
	m.checkAll(ctx, m.roomsWhere(func(r *room) bool { return r.kind() == l.kind }))
	if e, ok := m.cfg.Executors.Find(ctx, l.kind); ok {
		m.reapPlace(ctx, l.kind, e)
	}
}

// left notes that a live place cannot be heard now. What stands still anyway is left as it is.
func (m *Manager) left(ctx context.Context, r *room, p *place, why error) {
	reason := executors.CleanReason(executors.ReasonOf(why))
	r.mu.Lock()
	if r.place != p || p.closing || p.paused.Load() != nil {
		r.mu.Unlock()
		return
	}
	m.setAway(p, &why)
	p.Chill(reason)
	news := p.record.Reason != reason
	p.record.Reason = reason
	rec := p.record
	r.mu.Unlock()
	if !news {
		return
	}
	m.cfg.Log.Info("place of a sandbox is away", "sandbox_id", p.SandboxID, "workspace_id", p.WorkspaceID, "reason", reason)
	if err := m.cfg.Store.UpdateSandbox(context.WithoutCancel(ctx), rec); err != nil {
		m.cfg.Log.Warn("sandbox could not be stored as out of reach", "sandbox_id", p.SandboxID, "error", err)
	}
	m.publish(ctx, rec)
}

// setAway notes whether a place cannot be heard now, and why, and says whether it could not before.
func (m *Manager) setAway(p *place, why *error) (was bool) {
	was = p.away.Swap(why) != nil
	switch {
	case !was && why != nil:
		m.still.Add(1)
	case was && why == nil:
		m.still.Add(-1)
	}
	return was
}

// cameBack lets a place's guest be asked again that could not be heard before. The returned func wakes who waited for that.
func (m *Manager) cameBack(p *place) (done func()) {
	if !m.setAway(p, nil) || p.paused.Load() != nil {
		return func() {}
	}
	p.Unfreeze() // from here on its guest may be asked
	return p.Thaw
}

// leaveBehind gives up the workspace's sandbox, which is out of reach, so that the workspace can go on elsewhere. What it holds is brought
// home once its place is back: see Participant.Left. The caller holds the room's turn.
func (m *Manager) leaveBehind(ctx context.Context, r *room, why error) {
	reason := fmt.Sprintf("It was left behind: %s What was done there meanwhile is kept as a branch of its own once it can be reached again, and the sandbox is ended then.", sentence(executors.ReasonOf(why)))
	if p := r.current(); p != nil {
		m.noteEnd(p.SandboxID, "left behind: the workspace goes on elsewhere")
		r.mu.Lock()
		p.closing = true
		r.mu.Unlock()
		m.endPlace(ctx, r, p, executors.Gone, reason)
		return
	}
	r.mu.Lock()
	stray := r.stray
	r.stray = nil
	r.mu.Unlock()
	if stray != nil {
		m.noteEnd(stray.Handle.ID, "left behind: the workspace goes on elsewhere")
		m.cfg.Metering.Stopped(ctx, m.cfg.Metering.Stretch(*stray), 0, executors.ByHeartbeat)
		m.finish(ctx, *stray, executors.Gone, reason)
	}
}
