package executors

import (
	"context"
)

// Participant is what one part of the system does at the turns of a sandbox's life. What is nil it has no say in. The functions of one turn are
// called in the order in which their participants were attached, by one goroutine at a time for each workspace.
type Participant struct {
	Name string // for people who read the list

	// Making is called before a sandbox is made in a place that can do c, with s as it stands by then, and fills in its part. An error stops the
	// making, in its words. What it made is given back in Ended, also when the sandbox could not be made.
	Making func(ctx context.Context, c Capabilities, s *Spec) error
	// Found is called before a stored sandbox is looked for again after a restart, and each time it is looked for. An error counts as a sandbox
	// that cannot be reached now.
	Found func(ctx context.Context, r Record) error
	// Live is called for each place that becomes live by Ensure or Recover. It must not block.
	Live func(p *Place)
	// Arriving is called for each sandbox that was made in a place with a disk of its own, before anybody works in it, and brings there what the
	// workspace has. An error ends the making, and the sandbox.
	Arriving func(ctx context.Context, a Arrival) error
	// Home is called before Pausing's functions and like them. An error says what of the place's work it alone holds for good: the place is not
	// ended with it unless that is given up.
	Home func(ctx context.Context, p *Place) error
	// Pausing is called before a sandbox in a place with a disk of its own is paused: its guest still answers, and what is to be brought home
	// is brought home now. The context is one that Ending's functions get, too. It logs what it cannot do.
	Pausing func(ctx context.Context, p *Place)
	// Ending is called before a live sandbox is ended on purpose (destroyed, moved, idle for long): its guest still answers, and what is to be
	// brought home is brought home now. It may use p, and with its ctx Ensure and RunInSandbox, which give it p; not Destroy. It logs what it
	// cannot do.
	Ending func(ctx context.Context, p *Place)
	// Ended is called once a sandbox's row is closed, however it ended. It must not block.
	Ended func(r Record)
	// Left is called for each sandbox on a member's machine that was left behind and is found again, before it is ended, and keeps what it
	// alone holds. Nothing runs in it any more. An error keeps the sandbox: it is tried again.
	Left func(ctx context.Context, p *Place) error
	// Use says what goes on in a workspace: a sandbox that is in use is not idle. It must not block.
	Use func(workspaceID string) Use
}
