package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/pool"
)

// settled notes that a live place is in its room: one that was just made is known to run, one that was found again is asked since when.
func (m *Manager) settled(ctx context.Context, p *place) {
	if p.Asleep() || m.cfg.Metering.Made(p.SandboxID) { // it was found as it stood, or was just made
		return
	}
	if p.record.State == executors.Paused { // it stood still until it was woken to be found
		m.cfg.Metering.FoundStopped(ctx, p.record)
	}
	m.cfg.Metering.RunsOn(ctx, p.record, m.cfg.Metering.RunningSince(ctx, p.record.Handle))
}

// known are the ids of all sandboxes that have not ended, and of those that were made ahead of time.
func (m *Manager) known(ctx context.Context) ([]string, error) {
	open, err := m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := m.cfg.Pool.IDs(ctx)
	for _, r := range open {
		ids = append(ids, r.Handle.ID)
	}
	return ids, err
}

// resting are the sandboxes that have nothing to do now.
func (m *Manager) resting() map[string]bool {
	out := make(map[string]bool)
	for _, p := range m.places() {
		r := m.room(p.WorkspaceID)
		r.mu.Lock()
		if p.idleAt != 0 {
			out[p.SandboxID] = true
		}
		r.mu.Unlock()
	}
	return out
}

// Counters tell what happened in the places of this process.
func (m *Manager) Counters() *executors.Counters { return m.cfg.Counters }

// Pool tells how the pool of sandboxes that were made ahead of time stands.
func (m *Manager) Pool(ctx context.Context) (pool.Status, error) {
	out, err := m.cfg.Pool.Status(ctx)
	if m.cfg.Pool == nil {
		return out, err
	}
	for _, p := range m.places() {
		r := m.room(p.WorkspaceID)
		r.mu.Lock()
		if p.record.Pooled {
			out.Taken++
		}
		r.mu.Unlock()
	}
	return out, err
}

// resized has a live sandbox charged for the limits it was just given, in a place that has a price and no sizes.
func (m *Manager) resized(ctx context.Context, p *place, l executors.Limits) {
	e, ok := m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return
	}
	c := m.cfg.Choice.CapabilitiesOf(ctx, e)
	if len(c.Sizes) > 0 {
		return
	}
	cpus, memoryMB, hour := m.cfg.Choice.Charged(c, executors.Size{}, l)
	r := m.room(p.WorkspaceID)
	r.mu.Lock()
	if r.place != p || p.record.CPUs == cpus && p.record.MemoryMB == memoryMB {
		r.mu.Unlock()
		return
	}
	p.record.CPUs, p.record.MemoryMB, p.record.PriceNano = cpus, memoryMB, hour
	rec := p.record
	r.mu.Unlock()
	if err := m.cfg.Store.UpdateSandbox(ctx, rec); err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("the size a sandbox is charged for could not be stored", "sandbox_id", rec.Handle.ID, "error", err)
	}
	if rec.State == executors.Running {
		m.cfg.Metering.RunsOn(ctx, rec, 0)
	}
}

// mayGrow asks whether a live sandbox may have what it would be charged for with other limits, where that is more than it has: as if it began
// with them. asked says that there is something held back for it, until it is told that it runs (resized), or released.
func (m *Manager) mayGrow(ctx context.Context, p *place, l executors.Limits) (asked bool, err error) {
	e, ok := m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return false, nil
	}
	c := m.cfg.Choice.CapabilitiesOf(ctx, e)
	if len(c.Sizes) > 0 {
		return false, nil
	}
	cpus, memoryMB, hour := m.cfg.Choice.Charged(c, executors.Size{}, l)
	r := m.room(p.WorkspaceID)
	r.mu.Lock()
	rec := p.record
	r.mu.Unlock()
	if rec.State != executors.Running || cpus <= rec.CPUs && memoryMB <= rec.MemoryMB {
		return false, nil
	}
	rec.CPUs, rec.MemoryMB, rec.PriceNano = cpus, memoryMB, hour
	if err := m.cfg.Metering.Afford(ctx, m.cfg.Metering.Stretch(rec)); err != nil {
		return false, err
	}
	return true, nil
}
