package executors

import (
	"context"
)

// Remover is an optional ability of an Executor: it destroys a sandbox that was not recovered, without waking it.
type Remover interface {
	// Remove destroys the sandbox of h. Idempotent.
	Remove(ctx context.Context, h Handle) error
}
