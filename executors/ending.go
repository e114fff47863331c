package executors

import "context"

// Destroyer is an optional ability of an Executor: it destroys a sandbox of which only the id is known, whether or not its guest still
// answers. A machine's kill switch must not wait for a guest that hangs.
type Destroyer interface {
	// End destroys the sandbox. Idempotent.
	End(ctx context.Context, sandboxID string) error
}

// Remover is an optional ability of an Executor: it destroys a sandbox that was not recovered, without waking it.
type Remover interface {
	// Remove destroys the sandbox of h. Idempotent.
	Remove(ctx context.Context, h Handle) error
}

type discarding struct{}

// Discard marks the context of a Destroy whose caller gives up what only the sandbox holds.
func Discard(ctx context.Context) context.Context { return context.WithValue(ctx, discarding{}, true) }

// Discarding reports whether Discard marked ctx.
func Discarding(ctx context.Context) bool { return ctx.Value(discarding{}) != nil }
