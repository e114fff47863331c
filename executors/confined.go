package executors

import (
	"context"
	"errors"

	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
)

// Confined gives a sandbox made of processes of this machine what a control group can do for it: figures, limits that can be
// changed, and pause. Executors embed it; without a group it says that it cannot.
type Confined struct {
	Group *cgroup.Group // nil = none can be had here
}

var (
	_ Metered = Confined{}
	_ Limiter = Confined{}
	_ Pauser  = Confined{}
)

var errNotGrouped = fault.New(fault.Unsupported, "sandbox_not_grouped",
	"This sandbox has no control group, so it can neither be paused nor limited. parawork doctor says why and what to do.")

// GroupLimits are a sandbox's limits as its control group takes them.
func GroupLimits(l Limits) cgroup.Limits {
	return cgroup.Limits{CPUs: l.CPUs, MemoryBytes: l.MemoryMB << 20, Processes: l.Processes}
}

// Figures are the group's.
func (c Confined) Figures() (Figures, error) {
	if c.Group == nil {
		return Figures{}, errNotGrouped
	}
	f, err := c.Group.Figures()
	if err != nil {
		return Figures{}, err
	}
	return Figures{CPUMs: f.CPUMs, MemoryBytes: f.MemoryBytes, MemoryPeak: f.MemoryPeak, Processes: f.Processes,
		OOMKills: f.OOMKills, ThrottledMs: f.ThrottledMs, ForksRefused: f.ForksRefused}, nil
}

// SetLimits changes the group's.
func (c Confined) SetLimits(l Limits) error {
	if c.Group == nil {
		return errNotGrouped
	}
	err := c.Group.Set(GroupLimits(l))
	if errors.Is(err, cgroup.ErrInUse) {
		return fault.New(fault.Conflict, "memory_in_use",
			"More memory is in use than the new limit of %s. Stop something that uses it, or choose more.", MemoryWords(l.MemoryMB))
	}
	if err == nil {
		boundFiles(c.Group.Processes(), l.DiskMB)
	}
	return err
}

// Pause freezes the group.
func (c Confined) Pause(ctx context.Context) error {
	if c.Group == nil {
		return errNotGrouped
	}
	return c.Group.Freeze(ctx)
}

// Resume thaws it.
func (c Confined) Resume(ctx context.Context) error {
	if c.Group == nil {
		return errNotGrouped
	}
	return c.Group.Unfreeze(ctx)
}
