package filesync

import (
	"context"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// FakeBox is a guest that says what a test wants.
type FakeBox struct {
	Sets func(ctx context.Context, base string, since uint64) (<-chan guest.ChangeSet, error)
	Poll func(ctx context.Context, base string) (guest.ChangeSet, error)
	// Dirty is nil where the guest is of a build that does not know the question.
	Dirty func(ctx context.Context, base string) (guest.Dirty, error)
}

func (b *FakeBox) watch(ctx context.Context, base string, since uint64) (stream, error) {
	c, err := b.Sets(ctx, base, since)
	return fakeStream{ctx, c}, err
}

func (b *FakeBox) pollNow(ctx context.Context, base string) (guest.ChangeSet, error) {
	return b.Poll(ctx, base)
}

func (b *FakeBox) dirty(ctx context.Context, base string) (guest.Dirty, error) {
	if b.Dirty == nil {
		return guest.Dirty{}, fault.New(fault.NotFound, "guest_error", "404 page not found")
	}
	return b.Dirty(ctx, base)
}

type fakeStream struct {
	ctx context.Context
	c   <-chan guest.ChangeSet
}

func (s fakeStream) Next() (guest.ChangeSet, error) {
	select {
	case set, ok := <-s.c:
		if !ok {
			return set, context.Canceled
		}
		return set, nil
	case <-s.ctx.Done():
		return guest.ChangeSet{}, s.ctx.Err()
	}
}

func (fakeStream) Close() error { return nil }

// FollowBox follows a fake guest.
func (s *Service) FollowBox(workspaceID, teamID, sandboxID string, b *FakeBox, gone <-chan struct{}) {
	s.follow(workspaceID, teamID, sandboxID, b, gone, nil)
}

// Look looks at once through the follower of a workspace.
func (s *Service) Look(ctx context.Context, workspaceID, base string) error {
	s.mu.Lock()
	f := s.followers[workspaceID]
	s.mu.Unlock()
	return f.look(ctx, base)
}

// Crash has fn called at each point where a server can die between two steps of a mirror; it dies where fn returns an error.
func (s *Service) Crash(fn func(at string) error) { s.crash = fn }
