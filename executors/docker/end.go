//go:build linux || darwin

package docker

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
)

var _ executors.Destroyer = (*Executor)(nil)

// End destroys a sandbox whose guest may no longer answer.
func (e *Executor) End(ctx context.Context, sandboxID string) error {
	if err := hostproc.CheckID(sandboxID); err != nil {
		return err
	}
	defer e.turns.Lock(sandboxID)()
	return e.destroy(ctx, sandboxID)
}
