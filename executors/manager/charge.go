package manager

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/pool"
)

// settled records that a live sandbox is in its slot: metering asks the executor when a recovered one began to run, and knows that a new one
// runs.
func (p *place) settled(ctx context.Context) {
	if p.Asleep() || p.m.cfg.Metering.Made(p.SandboxID) { // it was found as it was, or was just made
		return
	}
	if p.record.State == executors.Paused { // it was suspended and had to be woken to be found
		p.m.cfg.Metering.FoundStopped(ctx, p.record)
	}
	p.m.cfg.Metering.RunsOn(ctx, p.record, p.m.cfg.Metering.RunningSince(ctx, p.record.Handle))
}

// known returns the ids of all sandboxes that have not ended, and of those in the warm pool.
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

// resting returns the sandboxes that are idle now.
func (m *Manager) resting() map[string]bool {
	out := make(map[string]bool)
	for _, p := range m.places() {
		s := m.slot(p.WorkspaceID)
		s.mu.Lock()
		if p.idleAt != 0 {
			out[p.SandboxID] = true
		}
		s.mu.Unlock()
	}
	return out
}

// Counters returns the counts of the sandboxes of this process.
func (m *Manager) Counters() *executors.Counters { return m.cfg.Counters }

// Pool returns the state of the warm pool.
func (m *Manager) Pool(ctx context.Context) (pool.Status, error) {
	out, err := m.cfg.Pool.Status(ctx)
	if m.cfg.Pool == nil {
		return out, err
	}
	for _, p := range m.places() {
		s := m.slot(p.WorkspaceID)
		s.mu.Lock()
		if p.record.Pooled {
			out.Taken++
		}
		s.mu.Unlock()
	}
	return out, err
}

// resized makes metering charge a live sandbox for its new limits, where its executor has a price and no sizes.
func (p *place) resized(ctx context.Context, l executors.Limits) {
	e, ok := p.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return
	}
	c := p.m.cfg.Choice.CapabilitiesOf(ctx, e)
	if len(c.Sizes) > 0 {
		return
	}
	cpus, memoryMB, hour := p.m.cfg.Choice.Charged(c, executors.Size{}, l)
	s := p.m.slot(p.WorkspaceID)
	s.mu.Lock()
	if s.place != p || p.record.CPUs == cpus && p.record.MemoryMB == memoryMB {
		s.mu.Unlock()
		return
	}
	p.record.CPUs, p.record.MemoryMB, p.record.PriceNano = cpus, memoryMB, hour
	rec := p.record
	s.mu.Unlock()
	if err := p.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil && ctx.Err() == nil {
		p.m.cfg.Log.Warn("the size a sandbox is charged for could not be stored", "sandbox_id", rec.Handle.ID, "error", err)
	}
	if rec.State == executors.Running {
		p.m.cfg.Metering.RunsOn(ctx, rec, 0)
	}
}

// mayGrow asks the ledger whether a live sandbox may have other limits, where those cost more than the current ones, as if a sandbox with
// those limits began. asked says that the ledger holds a reservation until resized or released.
func (p *place) mayGrow(ctx context.Context, l executors.Limits) (asked bool, err error) {
	e, ok := p.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return false, nil
	}
	c := p.m.cfg.Choice.CapabilitiesOf(ctx, e)
	if len(c.Sizes) > 0 {
		return false, nil
	}
	cpus, memoryMB, hour := p.m.cfg.Choice.Charged(c, executors.Size{}, l)
	s := p.m.slot(p.WorkspaceID)
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	if rec.State != executors.Running || cpus <= rec.CPUs && memoryMB <= rec.MemoryMB {
		return false, nil
	}
	rec.CPUs, rec.MemoryMB, rec.PriceNano = cpus, memoryMB, hour
	if err := p.m.cfg.Metering.Afford(ctx, p.m.cfg.Metering.UsageInterval(rec)); err != nil {
		return false, err
	}
	return true, nil
}
