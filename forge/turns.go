package forge

import (
	"context"
	"sync"

	"github.com/parawork/parawork/internal/fault"
)

// turns lets one at a time do something with a workspace's pull request.
type turns struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// take waits for a turn. The result gives it back.
func (t *turns) take(ctx context.Context, key string) (func(), error) {
	for {
		t.mu.Lock()
		other := t.held[key]
		if other == nil {
			mine := make(chan struct{})
			t.held[key] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.held, key)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fault.Wrap(context.Cause(ctx), fault.Timeout, "pull_request_busy", "Something else is being done with this pull request. Try again in a moment.")
		}
	}
}

// try takes a turn that nobody has; false otherwise.
func (t *turns) try(key string) (func(), bool) {
	t.mu.Lock()
	busy := t.held[key] != nil
	t.mu.Unlock()
	if busy {
		return nil, false
	}
	done, cancel := context.WithCancel(context.Background())
	cancel() // so that it does not wait for its turn
	release, err := t.take(done, key)
	return release, err == nil
}
