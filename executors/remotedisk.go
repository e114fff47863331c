package executors

import (
	"context"
	"net"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Executors with a disk of their own (Capabilities.OwnDisk) run on another machine: the worktree inside is a copy. The server sends it when
// the sandbox is made (Arriving), syncs changes while the sandbox runs, and copies the rest back before the sandbox is suspended or ends
// (Pausing, Ending).

// Size is one size an executor offers. A sandbox keeps its size for life.
type Size struct {
	CPUs      int
	MemoryMB  int64
	PriceNano int64  // nano-USD per hour while it runs
	Available bool   // whether sandboxes of this size can be made now
	Reason    string // why not, in words
	Cure      string // what to do about it
	Default   bool   // the size of a workspace that asks for none

	Refused *fault.Error // why the asking user may not have it, nil = they may; see choice.Config
}

// Lease says how long a sandbox lives unless the lease is extended. Times are ms UTC, 0 = no bound.
type Lease struct {
	EndsAt    int64 // then its executor pauses or ends it
	RunEndsAt int64 // the executor extends the lease no further; a pause and a wake begin another run
}

// Leased is an optional ability of a Sandbox that its executor ends on its own. The Manager keeps extending the lease of a sandbox in use by
// a short time, so that a dead server costs one lease at most.
type Leased interface {
	// Extend lets the sandbox live for at least d from now, or less where the run may not last longer.
	Extend(ctx context.Context, d time.Duration) (Lease, error)
}

// SinglePipe is an optional ability of a Sandbox whose pipes are expensive: everything goes over one.
type SinglePipe interface {
	OnePipe() bool
}

// Sleeper is an optional ability of an Executor whose paused sandboxes cost nothing and live without the server: they are found again
// without waking them, and the Manager calls Recover, which wakes, only when somebody needs them.
type Sleeper interface {
	// Asleep reports whether the sandbox is suspended. ErrGone when it no longer exists.
	Asleep(ctx context.Context, h Handle) (bool, error)
}

// Explainer is an optional ability of a Sleeper whose sandboxes may fall asleep although nobody paused them.
type Explainer interface {
	// AsleepBecause says in sentences why the sandbox did, as known since Asleep said that it is; "" = nothing is known.
	AsleepBecause(sandboxID string) string
}

// Warmer is an optional ability of an Executor that can make sandboxes ahead of time: without an owner, with a running guest. A sandbox that
// has served a workspace is never warm again.
type Warmer interface {
	// Warm makes one for class, as returned by Class for a Spec. On error it leaves nothing behind.
	Warm(ctx context.Context, id, class string) (Handle, error)
	// Class returns what a warm sandbox needs to serve s, its template and size; "" = no warm sandbox can.
	Class(s Spec) string
}

// Arrival is a new, still empty sandbox with a disk of its own.
type Arrival struct {
	Place *Place
	Spec  Spec
	// Say reports the progress of the copy: a step's name, a title for people, and bytes done of the total (0 = unknown). It may be called
	// often.
	Say func(step, title string, done, all int64)
}

// Steps of making a sandbox with a disk of its own, as in the API.
const (
	StepImage    = "image"    // the image is fetched
	StepTools    = "tools"    // what the image lacks is installed
	StepCreate   = "create"   // the executor makes a sandbox
	StepGuest    = "guest"    // the guest is copied into the sandbox and answers
	StepSend     = "send"     // the repository is sent
	StepCheckout = "checkout" // git checks out the worktree
	StepSetup    = "setup"    // the project's setup script runs, unless the workspace had a sandbox before
)

// Callee is an optional ability of an Executor whose guests may call this server: see guest/call.
type Callee interface {
	// Called takes over the connection of somebody who says to be a sandbox's guest, for a purpose of guest/call; accept makes it. False: nobody
	// is expected, and accept was not called.
	Called(sandboxID, purpose string, accept func() (net.Conn, error)) bool
}
