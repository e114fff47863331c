package filesync

import (
	"context"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// box is what following needs of a guest.
type box interface {
	watch(ctx context.Context, base string, since uint64) (stream, error)
	pollNow(ctx context.Context, base string) (guest.ChangeSet, error)
	dirty(ctx context.Context, base string) (guest.Dirty, error)
}

// stream delivers changes, record by record. Next returns when the context of watch ends.
type stream interface {
	Next() (guest.ChangeSet, error)
	Close() error
}

// realBox is the guest of a sandbox.
type realBox struct{ c *client.Client }

func (b realBox) watch(ctx context.Context, base string, since uint64) (stream, error) {
	return b.c.Watch(ctx, base, since)
}

func (b realBox) pollNow(ctx context.Context, base string) (guest.ChangeSet, error) {
	return b.c.PollNow(ctx, base)
}

func (b realBox) dirty(ctx context.Context, base string) (guest.Dirty, error) {
	return b.c.Dirty(ctx, base)
}
