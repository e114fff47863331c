// Package tasks provides groups of goroutines with an owner who can end them.
package tasks

import (
	"context"
	"sync"
	"time"
)

// Group runs goroutines that outlive the call that began them, until its owner closes it. Unlike a sync.WaitGroup, it may be given work
// while its owner waits for the end: it refuses work that comes too late. The zero value is ready; safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // added to only under mu, and never once closed
}

// Go runs fn in a goroutine of its own, or reports false when the group is closed: then fn does not run.
func (g *Group) Go(fn func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(fn)
	return true
}

// Enter counts the caller's own work, as Go does a goroutine's, until leave is called; false when the group is closed. leave may be called
// more than once.
func (g *Group) Enter() (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.running.Add(1)
	return sync.OnceFunc(g.running.Done), true
}

// After runs fn once d has passed, unless the group is closed by then.
func (g *Group) After(d time.Duration, fn func()) *time.Timer {
	return time.AfterFunc(d, func() {
		if leave, ok := g.Enter(); ok {
			defer leave()
			fn()
		}
	})
}

// Close refuses further work and waits for what runs. It ends nothing: the owner first cancels what should end early. It may be called more
// than once, and concurrently.
func (g *Group) Close() {
	g.refuse()
	g.running.Wait()
}

// refuse lets nothing more begin.
func (g *Group) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Sleep waits for d; false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Wake makes the goroutine that receives from c check again, without waiting for it: if c already holds a wake-up, one is enough.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
