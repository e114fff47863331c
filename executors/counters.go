package executors

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Counters count what happens in the places of this process: since it began, for operators. The zero value is ready, and nil counts
// nothing. Safe for concurrent use.
type Counters struct {
	since atomic.Int64 // ms UTC
	mu    sync.Mutex
	kinds map[Kind]*tally
}

// tally is what is counted of one kind. Only with the Counters' mu.
type tally struct {
	created, failed, cleaned, reused, unhealthy, fallbacks, warmHits, warmMisses int64

	runMs, idleMs int64
	create, lag   timing
	command       timing
}

// TimingBounds are the upper bounds of a Timing's buckets, ms.
var TimingBounds = [...]int64{50, 100, 250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000, 60_000, 180_000}

// newest is how many durations quantiles are told from.
const newest = 1000

// timing counts durations. Only with the Counters' mu.
type timing struct {
	count, sum int64
	buckets    [len(TimingBounds)]int64
	ring       []int64 // the newest
	at         int
}

func (t *timing) add(ms int64) {
	ms = max(ms, 0)
	t.count++
	t.sum += ms
	for i, top := range TimingBounds {
		if ms <= top {
			t.buckets[i]++
			break
		}
	}
	if len(t.ring) < newest {
		t.ring = append(t.ring, ms)
		return
	}
	t.ring[t.at] = ms
	t.at = (t.at + 1) % newest
}

// Timing is how long something took. Quantiles are those of the newest thousand.
type Timing struct {
	Count   int64
	SumMs   int64
	Buckets [len(TimingBounds)]int64 // how many took at most TimingBounds[i] ms, and longer than the bound before it
	P50Ms   int64
	P95Ms   int64
}

func (t *timing) reported() Timing {
	out := Timing{Count: t.count, SumMs: t.sum, Buckets: t.buckets}
	if len(t.ring) == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(t.ring))
	out.P50Ms, out.P95Ms = quantile(sorted, 50), quantile(sorted, 95)
	return out
}

// quantile is the value below which percent of the sorted values lie, or which they reach.
func quantile(sorted []int64, percent int) int64 {
	at := (len(sorted)*percent + 99) / 100
	return sorted[max(at-1, 0)]
}

// Counts are what was counted of one kind of place, or of a family.
type Counts struct {
	Kind           Kind
	Created        int64 // sandboxes that became live
	Failed         int64 // sandboxes that could not be made
	Cleaned        int64 // sandboxes that were removed: unknown ones, and idle ones
	Reused         int64 // times somebody got the live sandbox instead of a new one
	HealthFailures int64 // health checks that were not answered
	Fallbacks      int64 // workspaces that started elsewhere because this place could not serve
	WarmHits       int64 // sandboxes that were made of a warm one
	WarmMisses     int64 // sandboxes that could have been, had there been a warm one
	RunMs          int64 // how long sandboxes ran
	IdleMs         int64 // of that: without anything to do
	Create         Timing
	Lag            Timing // from the change of a file to its being home
	Command        Timing // from the asking for a command in a live sandbox to its running
}

// count does fn with the tally of a kind.
func (c *Counters) count(k Kind, fn func(*tally)) {
	if c == nil {
		return
	}
	k = k.Base()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.kinds[k]
	if t == nil {
		t = &tally{}
		if c.kinds == nil {
			c.kinds = make(map[Kind]*tally)
		}
		c.kinds[k] = t
	}
	fn(t)
}

// Created notes that a sandbox became live, and how long its making took.
func (c *Counters) Created(k Kind, ms int64) {
	c.count(k, func(t *tally) { t.created++; t.create.add(ms) })
}

// Failed notes that a sandbox could not be made.
func (c *Counters) Failed(k Kind) { c.count(k, func(t *tally) { t.failed++ }) }

// Cleaned notes that a sandbox was removed that nobody knew or needed.
func (c *Counters) Cleaned(k Kind) { c.count(k, func(t *tally) { t.cleaned++ }) }

// Reused notes that somebody got the live sandbox.
func (c *Counters) Reused(k Kind) { c.count(k, func(t *tally) { t.reused++ }) }

// Unhealthy notes that a health check was not answered.
func (c *Counters) Unhealthy(k Kind) { c.count(k, func(t *tally) { t.unhealthy++ }) }

// FellBack notes that a workspace started elsewhere because this place could not serve.
func (c *Counters) FellBack(k Kind) { c.count(k, func(t *tally) { t.fallbacks++ }) }

// Synced notes that a file's change is home, and how long after it.
func (c *Counters) Synced(k Kind, lagMs int64) { c.count(k, func(t *tally) { t.lag.add(lagMs) }) }

// Commanded notes that a command runs, and how long after it was asked for in a live sandbox.
func (c *Counters) Commanded(k Kind, ms int64) {
	c.count(k, func(t *tally) { t.command.add(ms) })
}

// Warm notes whether a sandbox was made of a warm one.
func (c *Counters) Warm(k Kind, hit bool) {
	c.count(k, func(t *tally) {
		if hit {
			t.warmHits++
		} else {
			t.warmMisses++
		}
	})
}

// Ran notes that a sandbox ran for a while, and whether it had nothing to do.
func (c *Counters) Ran(k Kind, ms int64, idle bool) {
	c.count(k, func(t *tally) {
		t.runMs += ms
		if idle {
			t.idleMs += ms
		}
	})
}

// Counts tells what was counted, by kind.
func (c *Counters) Counts() map[Kind]Counts {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[Kind]Counts, len(c.kinds))
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		t := c.kinds[k]
		out[k] = Counts{Kind: k, Created: t.created, Failed: t.failed, Cleaned: t.cleaned, Reused: t.reused, HealthFailures: t.unhealthy,
			Fallbacks: t.fallbacks, WarmHits: t.warmHits, WarmMisses: t.warmMisses, RunMs: t.runMs, IdleMs: t.idleMs,
			Create: t.create.reported(), Lag: t.lag.reported(), Command: t.command.reported()}
	}
	return out
}

// Begin notes since when is counted, ms UTC, where that is not known yet.
func (c *Counters) Begin(now int64) { c.since.CompareAndSwap(0, now) }

// Since is since when is counted, ms UTC.
func (c *Counters) Since() int64 { return c.since.Load() }
