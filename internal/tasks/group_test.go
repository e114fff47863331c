package tasks_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// What is to run later does not once the group is closed, and is waited for when it has begun.
func TestAfter(t *testing.T) {
	t.Parallel()
	var g tasks.Group
	began, on := make(chan struct{}), make(chan struct{})
	over := false
	g.After(0, func() { close(began); <-on; over = true })
	late := g.After(time.Hour, func() { t.Error("ran although the group was closed") })
	<-began
	go close(on)
	g.Close()
	if !over {
		t.Error("what had begun was not waited for")
	}
	late.Reset(0)
	time.Sleep(20 * time.Millisecond)
}

func TestSleep(t *testing.T) {
	t.Parallel()
	if !tasks.Sleep(t.Context(), time.Millisecond) {
		t.Error("it did not sleep to the end")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if tasks.Sleep(ctx, time.Hour) {
		t.Error("it slept on")
	}
}

func TestWhoEntersAGroupIsWaitedFor(t *testing.T) {
	t.Parallel()
	var g tasks.Group
	leave, ok := g.Enter()
	if !ok {
		t.Fatal("an open group let nobody in")
	}
	closed := make(chan struct{})
	left := false
	go func() {
		defer close(closed)
		g.Close()
		if !left {
			t.Error("a group closed before the one in it had left")
		}
	}()
	for { // until it is closing
		other, ok := g.Enter()
		if !ok {
			break
		}
		other()
	}
	left = true
	leave()
	leave() // again: counts once
	<-closed
}

func TestAScopeEndsItsWorkWithACause(t *testing.T) {
	t.Parallel()
	s := tasks.NewScope(t.Context())
	cause := errors.New("over")
	var saw error
	s.Go(func() {
		<-s.Context().Done()
		saw = context.Cause(s.Context())
	})
	s.End(cause)
	if !errors.Is(saw, cause) {
		t.Errorf("the work saw %v", saw)
	}
	if s.Go(func() { t.Error("work ran in a scope that has ended") }) {
		t.Error("a scope that has ended took work")
	}
	s.End(errors.New("later"))
	if got := context.Cause(s.Context()); !errors.Is(got, cause) {
		t.Errorf("the cause became %v", got)
	}
}
