package locks_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/locks"
)

func TestKeysTakeTurnsAndAreForgotten(t *testing.T) {
	t.Parallel()
	var k locks.Keyed
	counts := make([]int, 10) // each guarded by its key: the race detector looks on
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			defer k.Lock(strconv.Itoa(i % 10))()
			counts[i%10]++
		})
	}
	wg.Wait()
	for i, n := range counts {
		if n != 100 {
			t.Errorf("key %d had %d turns", i, n)
		}
	}
	if n := k.Len(); n != 0 {
		t.Errorf("%d keys are kept that nobody uses", n)
	}
	unlock, other := k.Lock("a"), k.Lock("b") // of different keys nobody waits for another
	if n := k.Len(); n != 2 {
		t.Errorf("%d keys are held", n)
	}
	unlock()
	other()
}

func TestWhoWaitsForAKeyGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	var k locks.Keyed
	unlock := k.Lock("a")
	gone, leave := context.WithCancelCause(t.Context())
	left := errors.New("left")
	leave(left)
	if _, err := k.LockContext(gone, "a"); !errors.Is(err, left) {
		t.Errorf("a lock that is held: %v", err)
	}
	if _, ok := k.TryLock("a"); ok {
		t.Error("a lock was taken twice")
	}
	unlock()
	unlock, ok := k.TryLock("a")
	if !ok {
		t.Fatal("a free lock was not taken")
	}
	unlock()
	if n := k.Len(); n != 0 {
		t.Errorf("%d keys are kept that nobody uses", n)
	}
}
