//go:build linux || darwin

package hostproc

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
)

// groupTimeout bounds the wait for the kernel to release a group.
const groupTimeout = 30 * time.Second

// Groups gives each sandbox a control group, where this machine has them.
type Groups struct {
	Tree *cgroup.Tree // nil = none
}

// Support says what control groups can do on this machine, and what is missing.
func (gs Groups) Support() (limits, pause bool, warning string) {
	if gs.Tree == nil {
		return false, false, ""
	}
	s := gs.Tree.Support()
	if !s.All() {
		warning = "Limits of CPU, memory and processes are not all enforced: " + s.Reason + ". " + s.Cure
	}
	return s.All(), s.Freeze, warning
}

// Enter puts a process that was just started, and has started nothing itself yet, into a group of the sandbox's own with its limits. It
// skips limits that cannot be enforced on this machine: Support reports them.
func (gs Groups) Enter(pid int, sandboxID string, limits executors.Limits) error {
	if gs.Tree == nil || gs.Tree.Support().Version == 0 {
		return nil
	}
	have, l := gs.Tree.Support(), executors.GroupLimits(limits)
	if !have.CPU {
		l.CPUs = 0
	}
	if !have.Memory {
		l.MemoryBytes = 0
	}
	if !have.Processes {
		l.Processes = 0
	}
	g, err := gs.Tree.Make(sandboxID, l)
	if err != nil {
		return fmt.Errorf("making the control group of sandbox %s: %w", sandboxID, err)
	}
	return g.Join(pid)
}

// Of finds a sandbox's group again. Without a group, the value's methods do nothing.
func (gs Groups) Of(sandboxID string) executors.Confined {
	if gs.Tree == nil {
		return executors.Confined{}
	}
	g, err := gs.Tree.Find(sandboxID)
	if err != nil {
		return executors.Confined{}
	}
	return executors.Confined{Group: g}
}

// Unfreeze resumes a suspended sandbox, so that it can answer, or end.
func (gs Groups) Unfreeze(ctx context.Context, sandboxID string) error {
	g := gs.Of(sandboxID).Group
	if g == nil || !g.Frozen() {
		return nil
	}
	return g.Unfreeze(ctx)
}

// Dissolve kills what is left in a sandbox's group and removes the group.
func (gs Groups) Dissolve(ctx context.Context, sandboxID string) error {
	g := gs.Of(sandboxID).Group
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	return g.Destroy(ctx)
}
