// Package resident keeps the memory of an idle server small. It knows the process and its own program's file, and nothing about what the
// program does. It starts no goroutine, and has no lock.
package resident

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

const (
	settled   = 15 * time.Second // how long after the start a server has finished its one-time work
	dropEvery = time.Minute      // used pages come back in a millisecond or two
)

// Keeper returns unused memory to the system.
type Keeper struct{ log *slog.Logger }

// New makes a Keeper.
func New(log *slog.Logger) *Keeper { return &Keeper{log} }

// Run returns the memory that only the server's start needed and, from then on, now and then, the unused pages of the program itself: the
// kernel maps many for each one that is used. It works until ctx ends.
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
