//go:build linux || darwin

package local

import (
	"errors"
	"syscall"

	"github.com/parawork/parawork/executors"
)

// enter bounds a guest that was just started, and has started nothing itself yet: all it starts is bounded with it. One that has ended
// already is no error: whoever waits for it says why.
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
