// Package jobs runs work that goes on when its caller has left, a limited number at a time. Each job has an id, by which it can be
// cancelled. Jobs owns a goroutine for each job; Run returns when all of them have ended. Its lock is never held while a job works.
package jobs

import (
	"context"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Jobs are the jobs under way, by their ids. Safe for concurrent use.
type Jobs struct {
	stopped error // the cause with which Run's end cancels running jobs

	mu      sync.Mutex
	known   map[string]*job
	waiting []*job
	running bool
	closed  bool
	turns   chan struct{}
	wg      sync.WaitGroup
}

type job struct {
	id     string
	ctx    context.Context // the job's life: ends with a cause when it is cancelled
	cancel context.CancelCauseFunc
	fn     func(ctx context.Context)
	done   chan struct{}
}

// New makes Jobs of which most run at the same time; the others wait their turn. stopped is the cause with which the end of Run cancels.
func New(most int, stopped error) *Jobs {
	return &Jobs{stopped: stopped, known: make(map[string]*job), turns: make(chan struct{}, most)}
}

// Add starts fn under Run, or as soon as Run runs. fn gets a context that ends when the job is cancelled, and always runs, so that it can
// clean up.
func (j *Jobs) Add(id string, fn func(ctx context.Context)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fault.New(fault.Unavailable, "stopping", "The server is being stopped. Try again when it is back.")
	}
	if _, ok := j.known[id]; ok {
		return fault.New(fault.Conflict, "already_running", "This is already under way.")
	}
	ctx, cancel := context.WithCancelCause(tenant.All(context.Background(), "jobs go on when their caller has left"))
	b := &job{id: id, ctx: ctx, cancel: cancel, fn: fn, done: make(chan struct{})}
	j.known[id] = b
	if j.running {
		j.start(b)
	} else {
		j.waiting = append(j.waiting, b)
	}
	return nil
}

// start runs b; the lock is held.
func (j *Jobs) start(b *job) {
	j.wg.Go(func() {
		defer func() {
			b.cancel(nil)
			j.mu.Lock()
			delete(j.known, b.id)
			j.mu.Unlock()
			close(b.done)
		}()
		select {
		case j.turns <- struct{}{}:
			defer func() { <-j.turns }()
		case <-b.ctx.Done():
		}
		b.fn(b.ctx)
	})
}

// Cancel ends the job's context with cause and returns a channel that is closed when the job has cleaned up; nil when there is no such job.
func (j *Jobs) Cancel(id string, cause error) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, ok := j.known[id]
	if !ok {
		return nil
	}
	b.cancel(cause)
	return b.done
}

// Run starts waiting and added jobs until ctx is done and every job has ended.
func (j *Jobs) Run(ctx context.Context) {
	j.mu.Lock()
	j.running = true
	for _, b := range j.waiting {
		j.start(b)
	}
	j.waiting = nil
	j.mu.Unlock()

	<-ctx.Done()

	j.mu.Lock()
	j.closed = true
	for _, b := range j.known {
		b.cancel(j.stopped)
	}
	j.mu.Unlock()
	j.wg.Wait()
}
