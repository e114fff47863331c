package executors

import (
	"context"
)

// Participant holds the callbacks of one component for the events in a sandbox's life. A nil callback is skipped. The callbacks of one event
// run in the order in which the participants were attached, in one goroutine at a time for each workspace.
type Participant struct {
	Name string // for people who read the list

	// Making is called before the executor with capabilities c makes a sandbox; it fills in its part of s as set so far. An error stops the
	// making and is reported as it is. Ended releases what Making acquired, also when the sandbox could not be made.
	Making func(ctx context.Context, c Capabilities, s *Spec) error
	// Found is called before each attempt to find a stored sandbox again after a restart. On an error the sandbox counts as unreachable for
	// now.
	Found func(ctx context.Context, r Record) error
	// Live is called for each sandbox that becomes live through Ensure or Recover. It must not block.
	Live func(p *Place)
	// Arriving is called for each new sandbox with a disk of its own, before anybody works in it, and copies the workspace's files there. An
	// error ends the making, and the sandbox.
	Arriving func(ctx context.Context, a Arrival) error
	// Home is called before Pausing, with the same context. An error says which work only the sandbox holds and the server can never get:
	// the Manager does not end the sandbox then, unless its user discards that work.
	Home func(ctx context.Context, p *Place) error
	// Pausing is called before a sandbox with a disk of its own is paused: its guest still answers, and this callback copies changes to the
	// server now. Its context is like Ending's. It logs what it cannot do.
	Pausing func(ctx context.Context, p *Place)
	// Ending is called before a live sandbox is ended on purpose (destroyed, moved, idle too long): its guest still answers, and this
	// callback copies changes to the server now. It may use p, and may call Ensure and RunInSandbox with its ctx, which return p; it must
	// not call Destroy. It logs what it cannot do.
	Ending func(ctx context.Context, p *Place)
	// Ended is called once a sandbox's row is closed, however the sandbox ended. It must not block.
	Ended func(r Record)
	// Left is called for each abandoned sandbox on a member's machine that is found again, before it is ended, and saves what only the
	// sandbox holds. Nothing runs in it any more. On an error the sandbox stays, and the Manager tries again.
	Left func(ctx context.Context, p *Place) error
	// Use says what goes on in a workspace: a sandbox in use is not idle. It must not block.
	Use func(workspaceID string) Use
}
