package daemon

import (
	"context"
	"io"

	"github.com/parawork/parawork/guest"
)

// Changes reports differences from a base commit in the root. guest/changes implements it; all methods are safe for concurrent
// use and return when ctx ends.
type Changes interface {
	// Watch calls send with what differs from the version since (0 = everything), at once and then whenever the set of
	// changes differs, until ctx ends or send fails.
	Watch(ctx context.Context, base string, since uint64, send func(guest.ChangeSet) error) error
	// PollNow looks at once and returns the whole set (Reset).
	PollNow(ctx context.Context, base string) (guest.ChangeSet, error)
	// Dirty looks at once and names what may differ.
	Dirty(ctx context.Context, base string) (guest.Dirty, error)
	// Diff writes the unified diff of one path.
	Diff(ctx context.Context, req guest.DiffRequest, w io.Writer) error
	// Hint reports that something may have changed: a program has just written output. It is called often and must not block.
	Hint()
}
