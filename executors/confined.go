package executors

import (
	"context"
	"errors"

	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
)

// Confined gives a sandbox whose processes run on this machine what a control group offers: figures, limits that can be changed, and pause.
// Executors embed it. Without a group its methods return an error that says so.
type Confined struct {
	Group *cgroup.Group // nil = this machine offers none
}

var (
	_ Metered = Confined{}
	_ Limiter = Confined{}
	_ Pauser  = Confined{}
)

var errNotGrouped = fault.New(fault.Unsupported, "sandbox_not_grouped",
	"This sandbox has no control group, so it can neither be paused nor limited. Run parawork doctor to see why and what to do.")

// GroupLimits converts a sandbox's limits to those of a control group.
func GroupLimits(l Limits) cgroup.Limits {
	return cgroup.Limits{CPUs: l.CPUs, MemoryBytes: l.MemoryMB << 20, Processes: l.Processes}
}

// Figures returns the group's figures.
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

// SetLimits changes the group's limits.
func (c Confined) SetLimits(l Limits) error {
	if c.Group == nil {
		return errNotGrouped
	}
	err := c.Group.Set(GroupLimits(l))
	if errors.Is(err, cgroup.ErrInUse) {
		return fault.New(fault.Conflict, "memory_in_use",
			"The sandbox uses more memory than the new limit of %s. Stop something that uses it, or choose a higher limit.", MemoryWords(l.MemoryMB))
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

// Resume unfreezes the group.
func (c Confined) Resume(ctx context.Context) error {
	if c.Group == nil {
		return errNotGrouped
	}
	return c.Group.Unfreeze(ctx)
}
