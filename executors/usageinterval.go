package executors

import (
	"context"
)

// UsageInterval is one interval in which a sandbox ran, as reported to a Ledger. A pause ends it; waking begins another one.
type UsageInterval struct {
	SandboxID   string
	TeamID      string // "" = the instance itself
	WorkspaceID string
	UserID      string // the user who asked for the sandbox; "" = the server
	Kind        Kind
	Purpose     string
	CPUs        int
	MemoryMB    int64
	PriceNano   int64 // nano-USD an hour while it runs; 0 = free
	Metered     bool  // its time counts towards people's quotas of hours and of concurrent sandboxes
	Since       int64 // when it began according to the executor, ms UTC; 0 = now
}

// StopSource says where the end time of a usage interval comes from.
type StopSource string

// Sources of an end time, the best first.
const (
	ByExecutor  StopSource = "executor"  // the executor's own record
	ByServer    StopSource = "server"    // this server ended it, or suspended it
	ByHeartbeat StopSource = "heartbeat" // nobody: it was last known to run then
)

// Ran is an executor's own record of a sandbox's latest run. Times are ms UTC by this server's clock, 0 = unknown, or not yet.
type Ran struct {
	BeganAt int64
	EndedAt int64 // when it was paused or ended
}

// RunRecorder is an optional ability of an Executor that records when sandboxes run: the best basis for their cost.
type RunRecorder interface {
	// Ran returns the sandbox's latest run. ErrGone when the executor has no record of it any more.
	Ran(ctx context.Context, h Handle) (Ran, error)
}
