//go:build linux || darwin

package local

import (
	"errors"
	"syscall"

	"github.com/parawork/parawork/executors"
)

// enter limits a guest that was just started, and has started nothing itself yet: the limits also hold for all that it starts. One that has
// already ended is no error: the caller that waits for it reports why.
func (e *Executor) enter(pid int, s executors.Spec) error {
	err := bound(pid, s.Limits)
	if err == nil {
		err = e.groups.Enter(pid, s.ID, s.Limits)
	}
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
