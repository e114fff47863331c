package tasks_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/internal/tasks"
)

func TestWorkEndsWithItsGroup(t *testing.T) {
	t.Parallel()
	var g tasks.Group
	var running, began atomic.Int64
	var givers sync.WaitGroup
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	for range 4 { // they give work while the owner closes
		givers.Go(func() {
			for g.Go(func() {
				running.Add(1)
				defer running.Add(-1)
				began.Add(1)
				once()
			}) {
			}
		})
	}
	<-first
	g.Close()
	if n := running.Load(); n != 0 {
		t.Errorf("%d goroutines run on", n)
	}
	n := began.Load()
	givers.Wait()
	if g.Go(func() { t.Error("work ran in a closed group") }) || began.Load() != n {
		t.Error("a closed group took work")
	}
	g.Close() // again: nothing to wait for
}
