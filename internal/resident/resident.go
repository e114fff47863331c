// Package resident keeps a server at rest small in memory. It knows the process and its own program's file, and nothing of what the program does.
// It has no goroutine but its caller's, and no lock.
package resident

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

const (
	settled   = 15 * time.Second // how long after the start a server has done what it does once
	dropEvery = time.Minute      // what is in use comes back in a millisecond or two
)

// Keeper gives memory back that is not in use.
type Keeper struct{ log *slog.Logger }

// New makes a Keeper.
func New(log *slog.Logger) *Keeper { return &Keeper{log} }

// Run gives back the memory that only the server's start needed and, from then on, now and then, the pages of the program itself that are
// not in use: the kernel brings many for each one that is. It works until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	wait := time.NewTimer(settled)
	defer wait.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		if first {
			debug.FreeOSMemory()
		}
		if err := dropProgram(); err != nil {
			k.log.Debug("the program's pages stay mapped", "error", err)
		}
		wait.Reset(dropEvery)
	}
}
