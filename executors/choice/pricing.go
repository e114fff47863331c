package choice

import (
	"context"
	"math"
	"slices"

	"github.com/parawork/parawork/executors"
)

// The size by which a sandbox without limits is charged, in an executor that has a price and no sizes.
const (
	unboundCPUs     = 1
	unboundMemoryMB = 1024
)

// counted returns the size a sandbox is charged for in an executor without sizes: its limits, in whole CPUs.
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

// CapabilitiesOf returns e's capabilities, as last reported while that is fresh, with its current price.
func (ch *Chooser) CapabilitiesOf(ctx context.Context, e executors.Executor) executors.Capabilities {
	c := ch.answer(ctx, e)
	c.Sizes = slices.Clone(c.Sizes) // the reported value is shared: copy it
	for i, s := range c.Sizes {
		c.Sizes[i].PriceNano, c.Metered = ch.cfg.Price.Of(e.Kind(), s.CPUs, s.MemoryMB, s.PriceNano)
		if s.Default {
			c.PriceNano = c.Sizes[i].PriceNano
		}
	}
	if len(c.Sizes) == 0 {
		var of executors.Limits
		if ch.cfg.Usual != nil {
			of = ch.cfg.Usual(ctx, e.Kind())
		}
		cpus, memoryMB := counted(of)
		c.PriceNano, c.Metered = ch.cfg.Price.Of(e.Kind(), cpus, memoryMB, c.PriceNano)
	}
	return c
}

// Charged returns what a new sandbox is charged for: its size, or its limits where the executor has a price but no sizes.
func (ch *Chooser) Charged(c executors.Capabilities, size executors.Size, l executors.Limits) (cpus int, memoryMB, hourNano int64) {
	if len(c.Sizes) > 0 {
		return size.CPUs, size.MemoryMB, size.PriceNano
	}
	if c.PriceNano == 0 && !c.Metered {
		return 0, 0, 0
	}
	cpus, memoryMB = counted(l)
	hourNano, _ = ch.cfg.Price.Of(c.Kind, cpus, memoryMB, c.PriceNano)
	return cpus, memoryMB, hourNano
}
