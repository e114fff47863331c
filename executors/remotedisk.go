package executors

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Places with a disk of their own (Capabilities.OwnDisk) are on another machine: the worktree inside is a copy. It is sent when the
// sandbox is made (Arriving), followed while it changes, and brought home before the sandbox stands still or ends (Pausing, Ending).

// Size is one size a place offers. A sandbox keeps its size for life.
type Size struct {
	CPUs      int
	MemoryMB  int64
	PriceNano int64  // nano-USD per hour while it runs
	Available bool   // sandboxes of this size can be made now
	Reason    string // why not, in words
	Cure      string // what to do about it
	Default   bool   // what a workspace gets that asks for none

	Refused *fault.Error // why who asks may not have it, nil = they may; see choice.Config
}

// Lease says how long a sandbox lives unless somebody extends it. Times are ms UTC, 0 = no bound.
type Lease struct {
	EndsAt    int64 // then its place pauses or ends it
	RunEndsAt int64 // beyond this its place extends nothing; a pause and a wake begin another run
}

// Leased is an optional ability of a Sandbox whose place ends it by itself. The Manager keeps extending the lease of what is in use, by so
// little that a server that died costs one lease at most.
type Leased interface {
	// Extend has the sandbox live for at least d from now, and less only where the run may not last longer.
	Extend(ctx context.Context, d time.Duration) (Lease, error)
}

// SinglePipe is an optional ability of a Sandbox to which pipes are dear: everything goes over one.
type SinglePipe interface {
	OnePipe() bool
}

// Sleeper is an optional ability of an Executor whose paused sandboxes cost nothing and need nobody: they are found again without being
// woken, and Recover, which wakes, is called only when somebody needs them.
type Sleeper interface {
	// Asleep reports whether the sandbox stands still. ErrGone when it no longer exists.
	Asleep(ctx context.Context, h Handle) (bool, error)
}

// Warmer is an optional ability of an Executor that can make sandboxes ahead of time: of nobody yet, with a guest that runs. A sandbox
// that has served a workspace is never warm again.
type Warmer interface {
	// Warm makes one for class, which Class tells of a Spec. On error nothing is left behind.
	Warm(ctx context.Context, id, class string) (Handle, error)
	// Class tells what a warm sandbox must be like to serve s: template and size; "" = none can.
	Class(s Spec) string
}

// Arrival is a sandbox with a disk of its own that was just made and is still empty.
type Arrival struct {
	Place *Place
	Spec  Spec
	// Say tells how far the sending is: a step's name, a title for people, and bytes done of all (0 = not known). It may be called often.
	Say func(step, title string, done, all int64)
}

// Steps of a making in a place with a disk of its own, as in the API.
const (
	StepImage    = "image"    // the image is fetched
	StepTools    = "tools"    // what the image lacks is installed
	StepCreate   = "create"   // the place makes a sandbox
	StepGuest    = "guest"    // the guest is brought there and answers
	StepSend     = "send"     // the repository is sent
	StepCheckout = "checkout" // the worktree is laid out
	StepSetup    = "setup"    // the project's setup script, where this is not the workspace's first sandbox
)
