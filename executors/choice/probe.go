package choice

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// staleFor is how long an answer that is not fresh any more is still given while the next one is awaited.
const staleFor = 10 * time.Minute

// probe is what one executor said last of what it can do. A place without a boundary is asked each time, for whether it may be used
// hangs on how many teams there are; the others are asked when their answer is not fresh, once at a time, and never waited for
// longer than ProbeTimeout: a daemon that hangs holds up nobody.
type probe struct {
	mu      sync.Mutex
	known   bool
	lasts   bool // caps need not be asked for each time
	caps    executors.Capabilities
	at      int64         // ms UTC of caps
	asking  chan struct{} // closed when the answer under way is there or given up; nil without one
	hangs   bool          // an answer was given up and has not come yet
	startMs int64         // how long makings took lately
}

// Capabilities says of every configured executor what it can do, in the order of choice. Members of families are not among them: see Options.
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

// answer is what e said of what it can do, while that is fresh.
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
		return silent(e, "whoever asked did not wait for its answer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reported()
}

// told is the answer with how long makings took. Only with p.mu.
func (p *probe) reported() executors.Capabilities {
	c := p.caps
	if p.startMs > 0 {
		c.StartMs = p.startMs
	}
	return c
}

// ask begins to ask e. Only with p.mu.
func (ch *Chooser) ask(p *probe, e executors.Executor) {
	asking := make(chan struct{})
	p.asking = asking
	ctx, cancel := context.WithTimeout(context.Background(), ch.cfg.ProbeTimeout) // the answer is for all who wait for it, not for who came first
	giveUp := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.asking == asking {
			p.give(ch.unanswered(p, e, "it did not answer within "+ch.cfg.ProbeTimeout.String()), true, ch.now())
			p.hangs = true
		}
	})
	begun := ch.work.Go(func() { // ends with the executor's answer: an executor heeds the end of its context
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
			ch.cfg.Log.Warn("executor did not tell its capabilities", "executor", e.Kind(), "error", err)
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

// give keeps an answer and wakes who waits for it. Only with p.mu.
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

// unanswered is what is said of an executor that says nothing: not available, otherwise as it was known. Only with p.mu.
func (ch *Chooser) unanswered(p *probe, e executors.Executor, reason string) executors.Capabilities {
	c := silent(e, reason)
	if p.known && p.caps.Boundary != "" {
		c.Name, c.Boundary, c.Isolation, c.Isolated = p.caps.Name, p.caps.Boundary, p.caps.Isolation, p.caps.Isolated
	}
	return c
}

// silent is what is said of an executor that never said anything. Its boundary is not known, so that nothing is promised of it.
func silent(e executors.Executor, reason string) executors.Capabilities {
	return executors.Capabilities{Kind: e.Kind(), Name: string(e.Kind()), Reason: reason, Cure: "Look into the server's log."}
}

// Recheck forgets what a place said of itself, since a making failed there, and asks it anew at once.
func (ch *Chooser) Recheck(e executors.Executor) {
	p := ch.probeOf(e.Kind())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = 0
	if p.asking == nil && !p.hangs {
		ch.ask(p, e)
	}
}

// NoteMaking notes how long the making of a sandbox took: the newest counts for a third.
func (ch *Chooser) NoteMaking(k executors.Kind, ms int64) {
	p := ch.probeOf(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if ms = max(ms, 1); p.startMs == 0 {
		p.startMs = ms
	}
	p.startMs = max((2*p.startMs+ms)/3, 1)
}

// Reprobe forgets what every place said of itself, for what changed around them.
func (ch *Chooser) Reprobe() {
	for _, e := range ch.cfg.Executors.Own() {
		ch.Recheck(e)
	}
}

// probeOf is what is kept of what a place says of itself. A member of a family is asked each time: it answers from memory, and comes and
// goes at any moment.
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

// Forget drops what is kept of members that are no more.
func (ch *Chooser) Forget(known map[executors.Kind]executors.Executor) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	maps.DeleteFunc(ch.probes, func(k executors.Kind, _ *probe) bool { return k.Member() != "" && known[k] == nil })
}
