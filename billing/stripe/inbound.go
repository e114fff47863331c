package stripe

import (
	"context"
	"fmt"
	"sync"

	"github.com/parawork/parawork/internal/tenant"
)

// mostTogether is how many events are written in one transaction at most.
const mostTogether = 64

// inbound writes events that arrive at the same time in one transaction: a commit waits for the disk, and webhooks come in bursts. The
// first caller that finds no writer writes for all that wait; there is no goroutine.
type inbound struct {
	mu    sync.Mutex
	queue []*waiting
	busy  bool
}

type waiting struct {
	event Event
	done  chan error
	lead  chan struct{} // closed when this caller is to write
}

// add stores e, and returns once that succeeded or failed.
func (in *inbound) add(ctx context.Context, st Store, e Event) error {
	w := &waiting{event: e, done: make(chan error, 1), lead: make(chan struct{})}
	in.mu.Lock()
	in.queue = append(in.queue, w)
	lead := !in.busy
	in.busy = true
	in.mu.Unlock()
	if !lead {
		select {
		case err := <-w.done:
			return err
		case <-w.lead:
		}
	}
	in.write(ctx, st)
	return <-w.done
}

// write stores the first events of the queue and lets the next caller write. The caller's event is the first in the queue.
func (in *inbound) write(ctx context.Context, st Store) {
	in.mu.Lock()
	n := min(len(in.queue), mostTogether)
	batch := in.queue[:n:n]
	in.queue = append([]*waiting(nil), in.queue[n:]...)
	in.mu.Unlock()

	all := make([]Event, 0, len(batch))
	for _, w := range batch {
		all = append(all, w.event)
	}
	// The others' events do not fail because this request's client has left.
	err := addEvents(tenant.All(context.WithoutCancel(ctx), "events of the payment service"), st, all)
	for _, w := range batch {
		w.done <- err
	}

	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) == 0 {
		in.busy = false
		return
	}
	close(in.queue[0].lead)
}

func addEvents(ctx context.Context, st Store, all []Event) (err error) {
	defer func() {
		if p := recover(); p != nil { // the callers that wait get an answer in any case
			err = fmt.Errorf("storing events: %v", p)
		}
	}()
	return st.AddEvents(ctx, all)
}
