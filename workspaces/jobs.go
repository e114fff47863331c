package workspaces

import (
	"context"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// maxJobs is how many clones and creations work at the same time; the others wait their turn.
const maxJobs = 4

// jobs are the clones and creations under way, by the id of their project or workspace.
type jobs struct {
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

func newJobs() *jobs {
	return &jobs{known: make(map[string]*job), turns: make(chan struct{}, maxJobs)}
}

// add starts fn under Run, or as soon as Run runs. fn gets a context that ends when the job is cancelled, and always runs:
// it is what cleans up.
func (j *jobs) add(id string, fn func(ctx context.Context)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return fault.New(fault.Unavailable, "stopping", "The server is being stopped. Try again when it is back.")
	}
	if _, ok := j.known[id]; ok {
		return fault.New(fault.Conflict, "already_running", "This is already under way.")
	}
	ctx, cancel := context.WithCancelCause(tenant.All(context.Background(), "jobs go on when who asked has left"))
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
func (j *jobs) start(b *job) {
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

// cancel ends the job's context with cause and returns what is closed when the job has cleaned up; nil when there is none.
func (j *jobs) cancel(id string, cause error) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	b, ok := j.known[id]
	if !ok {
		return nil
	}
	b.cancel(cause)
	return b.done
}

// run starts what waits and everything that is added, until ctx is done and every job has ended.
func (j *jobs) run(ctx context.Context) {
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
		b.cancel(errShutdown)
	}
	j.mu.Unlock()
	j.wg.Wait()
}
