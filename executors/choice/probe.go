package choice

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// staleFor is how long an outdated answer is still returned while the next one is awaited.
const staleFor = 10 * time.Minute

// probe holds what one executor last reported. An executor without a boundary is asked each time, because whether it may be used depends on
// the number of teams. The others are asked when their answer is outdated, one call at a time, and no caller waits longer than ProbeTimeout:
// a daemon that hangs blocks nobody.
type probe struct {
	mu      sync.Mutex
	known   bool
	lasts   bool // caps may be reused
	caps    executors.Capabilities
	at      int64         // ms UTC of caps
	asking  chan struct{} // closed when the call under way has answered or was given up; nil without one
	hangs   bool          // a call was given up and has not answered yet
	startMs int64         // how long recent makings took
}

// Capabilities returns the capabilities of every configured executor, in order of preference. Members of families are not included: see
// Options.
func (ch *Chooser) Capabilities(ctx context.Context) []executors.Capabilities {
	var all []executors.Executor
	seen := make(map[executors.Kind]bool)
	add := func(k executors.Kind) {
		if e, ok := ch.cfg.Executors.OwnOf(k); ok && !seen[k] {
			seen[k] = true
			all = append(all, e)
		}
	}
	for _, k := range ch.cfg.Order {
		add(k)
	}
	for _, e := range ch.cfg.Executors.Own() {
		add(e.Kind())
	}
	out := make([]executors.Capabilities, len(all))
	var wg sync.WaitGroup
	for i, e := range all {
		wg.Go(func() { out[i] = ch.CapabilitiesOf(ctx, e) })
	}
	wg.Wait()
	return out
}

// answer returns e's capabilities, while they are fresh.
func (ch *Chooser) answer(ctx context.Context, e executors.Executor) executors.Capabilities {
	p := ch.probeOf(e.Kind())
	p.mu.Lock()
	age := ch.now() - p.at
	lasting := p.known && p.lasts
	if lasting && age < ch.cfg.ProbeFresh.Milliseconds() || p.hangs {
		defer p.mu.Unlock()
		return p.reported()
	}
	if p.asking == nil {
		ch.ask(p, e)
	}
	if lasting && age < staleFor.Milliseconds() {
		defer p.mu.Unlock()
		return p.reported()
	}
	asking := p.asking
	if asking == nil { // answered at once
		defer p.mu.Unlock()
		return p.reported()
	}
	p.mu.Unlock()
	select {
	case <-asking:
	case <-ctx.Done():
		return silent(e, "the caller did not wait for its answer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reported()
}

// reported returns the answer and how long makings took. Guarded by p.mu.
func (p *probe) reported() executors.Capabilities {
	c := p.caps
	if p.startMs > 0 {
		c.StartMs = p.startMs
	}
	return c
}

// ask starts a call to e. Guarded by p.mu.
func (ch *Chooser) ask(p *probe, e executors.Executor) {
	asking := make(chan struct{})
	p.asking = asking
	ctx, cancel := context.WithTimeout(context.Background(), ch.cfg.ProbeTimeout) // the answer is for everybody who waits, not only for the first caller
	giveUp := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.asking == asking {
			p.give(ch.unanswered(p, e, "it did not answer within "+ch.cfg.ProbeTimeout.String()), true, ch.now())
			p.hangs = true
		}
	})
	begun := ch.work.Go(func() { // ends with the executor's answer: an executor returns when its context ends
		defer cancel()
		c, err := e.Capabilities(ctx)
		giveUp()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hangs = false
		switch {
		case ctx.Err() != nil && err != nil:
			p.give(ch.unanswered(p, e, "it did not answer within "+ch.cfg.ProbeTimeout.String()), true, ch.now())
		case err != nil:
			ch.cfg.Log.Warn("an executor did not report its capabilities", "executor", e.Kind(), "error", err)
			p.give(ch.unanswered(p, e, "it did not answer: "+executors.CleanReason(err.Error())), true, ch.now())
		default:
			c = complete(e, c)
			p.give(c, c.Boundary != executors.NoBoundary && c.Kind.Member() == "", ch.now())
		}
	})
	if !begun {
		giveUp()
		cancel()
		p.give(ch.unanswered(p, e, "the server is stopping"), false, ch.now())
	}
}

// give stores an answer and wakes the waiting callers. Guarded by p.mu.
func (p *probe) give(c executors.Capabilities, lasts bool, now int64) {
	p.known, p.caps, p.lasts, p.at = true, c, lasts, now
	if p.asking != nil {
		close(p.asking)
		p.asking = nil
	}
}

// complete fills in what an executor left out.
func complete(e executors.Executor, c executors.Capabilities) executors.Capabilities {
	c.Kind = e.Kind()
	c.Name = cmp.Or(c.Name, string(c.Kind))
	switch {
	case c.Boundary != "":
	case c.Isolated:
		c.Boundary = executors.ProcessBoundary
	default:
		c.Boundary = executors.NoBoundary
	}
	return c
}

// unanswered returns the capabilities of an executor that does not answer: not available, otherwise as last known. Guarded by p.mu.
func (ch *Chooser) unanswered(p *probe, e executors.Executor, reason string) executors.Capabilities {
	c := silent(e, reason)
	if p.known && p.caps.Boundary != "" {
		c.Name, c.Boundary, c.Isolation, c.Isolated = p.caps.Name, p.caps.Boundary, p.caps.Isolation, p.caps.Isolated
	}
	return c
}

// silent returns the capabilities of an executor that never answered. Its boundary is unknown, so that nothing is promised.
func silent(e executors.Executor, reason string) executors.Capabilities {
	return executors.Capabilities{Kind: e.Kind(), Name: string(e.Kind()), Reason: reason, Cure: "Look into the server's log."}
}

// Recheck drops an executor's cached capabilities after a failed making, and asks it again at once.
func (ch *Chooser) Recheck(e executors.Executor) {
	p := ch.probeOf(e.Kind())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = 0
	if p.asking == nil && !p.hangs {
		ch.ask(p, e)
	}
}

// NoteMaking records how long making a sandbox took: the newest counts for a third of the average.
func (ch *Chooser) NoteMaking(k executors.Kind, ms int64) {
	p := ch.probeOf(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ms = max(ms, 1); p.startMs == 0 {
		p.startMs = ms
	}
	p.startMs = max((2*p.startMs+ms)/3, 1)
}

// Reprobe drops all cached capabilities because something around the executors changed.
func (ch *Chooser) Reprobe() {
	for _, e := range ch.cfg.Executors.Own() {
		ch.Recheck(e)
	}
}

// probeOf returns the probe of an executor. A member of a family is asked each time: it answers from memory, and comes and goes at any
// moment.
func (ch *Chooser) probeOf(k executors.Kind) *probe {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	p := ch.probes[k]
	if p == nil {
		p = &probe{}
		ch.probes[k] = p
	}
	return p
}

// Forget drops the probes of members that no longer exist.
func (ch *Chooser) Forget(known map[executors.Kind]executors.Executor) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	maps.DeleteFunc(ch.probes, func(k executors.Kind, _ *probe) bool { return k.Member() != "" && known[k] == nil })
}
