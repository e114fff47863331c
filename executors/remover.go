package executors

import (
	"context"
)

// Remover is an optional ability of an Executor: it destroys a sandbox that nobody has found again, and need not be woken for it.
type Remover interface {
	// Remove destroys the sandbox of h. Idempotent.
	Remove(ctx context.Context, h Handle) error
}
