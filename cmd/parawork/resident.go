package main

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	settled   = 15 * time.Second // how long after the start a server has done what it does once
	dropEvery = time.Minute      // what is in use comes back in a millisecond or two
)

// settle keeps a server at rest small: it gives back the memory that only its start needed, and from then on, now and then, the pages of
// the program itself that are not in use. The kernel brings many for each one that is.
func (h *house) settle(ctx context.Context) error {
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
			h.log.Debug("the program's pages stay mapped", "error", err)
		}
		wait.Reset(dropEvery)
	}
}
