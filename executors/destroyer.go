package executors

import "context"

// Destroyer is an optional ability of an Executor: it destroys a sandbox of which only the id is known, whether or not its guest still
// answers. A machine's kill switch must not wait for a guest that hangs.
type Destroyer interface {
	// End destroys the sandbox. Idempotent.
	End(ctx context.Context, sandboxID string) error
}
