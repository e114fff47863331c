package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/locks"
)

func TestATurnIsOnePersonsAtATime(t *testing.T) {
	t.Parallel()
	turn := locks.NewTurn()
	count := 0 // guarded by the turn: the race detector looks on
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			unlock, err := turn.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			count++
		})
	}
	wg.Wait()
	if count != 1000 || turn.Locked() {
		t.Errorf("%d turns, locked %v", count, turn.Locked())
	}
}

func TestWhoWaitsForATurnGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	turn := locks.NewTurn()
	unlock, ok := turn.TryLock()
	if !ok || !turn.Locked() {
		t.Fatal("a free turn was not taken")
	}
	if _, ok := turn.TryLock(); ok {
		t.Error("a turn was taken twice")
	}
	gone, leave := context.WithCancelCause(t.Context())
	left := errors.New("left")
	leave(left)
	if _, err := turn.Lock(gone); !errors.Is(err, left) {
		t.Errorf("a turn that somebody has: %v", err)
	}
	done := make(chan struct{})
	go func() { // another goroutine hands it on
		defer close(done)
		unlock()
	}()
	if _, err := turn.Lock(t.Context()); err != nil {
		t.Errorf("a turn that was given back: %v", err)
	}
	<-done
	turn.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("a turn that nobody has was unlocked")
		}
	}()
	turn.Unlock()
}
