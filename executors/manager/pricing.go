package manager

import (
	"context"
	"math"
	"slices"

	"github.com/parawork/parawork/executors"
)

// Pricing says what an hour of a sandbox of a size costs now in a kind of place, nano-USD, and whether its time is metered: counts in
// people's hours and in how many run at once.
type Pricing func(k executors.Kind, cpus int, memoryMB int64) (hourNano int64, metered bool)

// What a sandbox counts as that has no limit, in a place that has a price and no sizes.
const (
	unboundCPUs     = 1
	unboundMemoryMB = 1024
)

// counted is the size a sandbox is charged for in a place without sizes: what its limits let it have, in whole CPUs.
func counted(l executors.Limits) (cpus int, memoryMB int64) {
	cpus, memoryMB = int(math.Ceil(l.CPUs)), l.MemoryMB
	if cpus <= 0 {
		cpus = unboundCPUs
	}
	if memoryMB <= 0 {
		memoryMB = unboundMemoryMB
	}
	return cpus, memoryMB
}

// price is what an hour costs now. What the place says itself holds where there is no price book.
func (m *Manager) price(k executors.Kind, cpus int, memoryMB, itself int64) (hourNano int64, metered bool) {
	if m.cfg.Price == nil {
		return itself, itself > 0
	}
	return m.cfg.Price(k.Base(), cpus, memoryMB)
}

// capabilities says what e can do, as last heard while that is fresh, with what it costs now.
func (m *Manager) capabilities(ctx context.Context, e executors.Executor) executors.Capabilities {
	c := m.heard(ctx, e)
	c.Sizes = slices.Clone(c.Sizes) // what was heard is everybody's
	for i, s := range c.Sizes {
		c.Sizes[i].PriceNano, c.Metered = m.price(e.Kind(), s.CPUs, s.MemoryMB, s.PriceNano)
		if s.Default {
			c.PriceNano = c.Sizes[i].PriceNano
		}
	}
	if len(c.Sizes) == 0 {
		var of executors.Limits
		if m.meters != nil {
			of = m.meters.Usual(ctx, e.Kind())
		}
		cpus, memoryMB := counted(of)
		c.PriceNano, c.Metered = m.price(e.Kind(), cpus, memoryMB, c.PriceNano)
	}
	return c
}

// sized is what a new sandbox of a place is charged for: its size, or where the place has none and costs something, what its limits say.
func (m *Manager) sized(c executors.Capabilities, size executors.Size, l executors.Limits) (cpus int, memoryMB, hourNano int64) {
	if len(c.Sizes) > 0 {
		return size.CPUs, size.MemoryMB, size.PriceNano
	}
	if c.PriceNano == 0 && !c.Metered {
		return 0, 0, 0
	}
	cpus, memoryMB = counted(l)
	hourNano, _ = m.price(c.Kind, cpus, memoryMB, c.PriceNano)
	return cpus, memoryMB, hourNano
}

// stretch is what the ledger is told of a sandbox, with what it costs now.
func (m *Manager) stretch(r executors.Record) executors.Stretch {
	s := executors.Stretch{SandboxID: r.Handle.ID, TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID, Kind: r.Handle.Kind.Base(),
		Purpose: string(r.Purpose), CPUs: r.CPUs, MemoryMB: r.MemoryMB}
	s.PriceNano, s.Metered = m.price(s.Kind, s.CPUs, s.MemoryMB, r.PriceNano)
	return s
}

// resized has a live sandbox charged for the limits it was just given, in a place that has a price and no sizes.
func (m *Manager) resized(ctx context.Context, p *place, l executors.Limits) {
	e, ok := m.executor(ctx, p.Kind)
	if !ok {
		return
	}
	c := m.capabilities(ctx, e)
	if len(c.Sizes) > 0 {
		return
	}
	cpus, memoryMB, hour := m.sized(c, executors.Size{}, l)
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
		m.runsOn(ctx, rec, 0)
	}
}

// mayGrow asks whether a live sandbox may have what it would be charged for with other limits, where that is more than it has: as if it began
// with them. asked says that there is something held back for it, until it is told that it runs (resized), or released.
func (m *Manager) mayGrow(ctx context.Context, p *place, l executors.Limits) (asked bool, err error) {
	e, ok := m.executor(ctx, p.Kind)
	if !ok {
		return false, nil
	}
	c := m.capabilities(ctx, e)
	if len(c.Sizes) > 0 {
		return false, nil
	}
	cpus, memoryMB, hour := m.sized(c, executors.Size{}, l)
	r := m.room(p.WorkspaceID)
	r.mu.Lock()
	rec := p.record
	r.mu.Unlock()
	if rec.State != executors.Running || cpus <= rec.CPUs && memoryMB <= rec.MemoryMB {
		return false, nil
	}
	rec.CPUs, rec.MemoryMB, rec.PriceNano = cpus, memoryMB, hour
	if err := m.afford(ctx, m.stretch(rec)); err != nil {
		return false, err
	}
	return true, nil
}
