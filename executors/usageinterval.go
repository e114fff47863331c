package executors

import (
	"context"
)

// UsageInterval is one stretch of a sandbox running, as a Ledger is told of it. A pause ends it; waking begins another one.
type UsageInterval struct {
	SandboxID   string
	TeamID      string // "" = the instance's own
	WorkspaceID string
	UserID      string // who asked for the sandbox; "" = the server
	Kind        Kind
	Purpose     string
	CPUs        int
	MemoryMB    int64
	PriceNano   int64 // nano-USD an hour while it runs; 0 = free
	Metered     bool  // its time counts in people's hours, and in how many run at once
	Since       int64 // when it began as far as its place knows, ms UTC; 0 = now
}

// StopSource says who knows when a stretch ended.
type StopSource string

// Witnesses of an end, the best first.
const (
	ByExecutor  StopSource = "executor"  // the executor's own record
	ByServer    StopSource = "server"    // this server ended it, or made it stand still
	ByHeartbeat StopSource = "heartbeat" // nobody: it was last known to run then
)

// Ran is a place's own record of a sandbox's latest run. Times are ms UTC by the place's clock, 0 = it does not know, or not yet.
type Ran struct {
	BeganAt int64
	EndedAt int64 // it was paused or ended then
}

// RunRecorder is an optional ability of an Executor whose place keeps a record of when sandboxes run: the best there is for what they cost.
type RunRecorder interface {
	// Ran tells of the sandbox's latest run. ErrGone when the place knows nothing of it any more.
	Ran(ctx context.Context, h Handle) (Ran, error)
}
