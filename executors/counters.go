package executors

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Counters count, for operators, what happened to the sandboxes of this instance. A CounterSaver keeps them over restarts. The zero value is
// ready to use, and a nil Counters counts nothing. Safe for concurrent use.
type Counters struct {
	mu    sync.Mutex
	since int64 // ms UTC
	kinds map[Kind]*tally
}

// tally holds the counts of one kind. Guarded by the Counters' mu.
type tally struct {
	purposes                        map[Purpose]*PurposeCounts
	fallbacks, warmHits, warmMisses int64

	runMs, idleMs int64
	create, lag   timing
	command       timing
}

// purpose returns the counts of a purpose. A sandbox without a stated purpose counts as an agent's.
func (t *tally) purpose(p Purpose) *PurposeCounts {
	p = cmp.Or(p, ForAgent)
	n := t.purposes[p]
	if n == nil {
		n = &PurposeCounts{}
		if t.purposes == nil {
			t.purposes = make(map[Purpose]*PurposeCounts)
		}
		t.purposes[p] = n
	}
	return n
}

// TimingBounds are the upper bounds of a Timing's buckets, in ms.
var TimingBounds = [...]int64{50, 100, 250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000, 60_000, 180_000}

// newest is how many durations the quantiles are computed from.
const newest = 1000

// timing collects durations. Guarded by the Counters' mu.
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

// Timing says how long something took. The quantiles cover the newest thousand durations.
type Timing struct {
	Count   int64
	SumMs   int64
	Buckets [len(TimingBounds)]int64 // how many took at most TimingBounds[i] ms but longer than the previous bound
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

// quantile returns the smallest of the sorted values that at least percent of them do not exceed.
func quantile(sorted []int64, percent int) int64 {
	at := (len(sorted)*percent + 99) / 100
	return sorted[max(at-1, 0)]
}

// PurposeCounts are the counts of the sandboxes of one purpose.
type PurposeCounts struct {
	Created        int64 // sandboxes that became live
	Failed         int64 // failed attempts to make a sandbox
	Cleaned        int64 // sandboxes removed because they were unknown or idle
	Reused         int64 // times a caller got the live sandbox instead of a new one
	HealthFailures int64 // unanswered health checks
}

// Add adds the counts of another purpose.
func (c *PurposeCounts) Add(o PurposeCounts) {
	c.Created += o.Created
	c.Failed += o.Failed
	c.Cleaned += o.Cleaned
	c.Reused += o.Reused
	c.HealthFailures += o.HealthFailures
}

// Counts are the counts of one kind of executor, or of a family.
type Counts struct {
	Kind          Kind
	PurposeCounts // of all purposes together
	Purposes      map[Purpose]PurposeCounts
	Fallbacks     int64 // workspaces that started in another executor because this one could not serve
	WarmHits      int64 // sandboxes taken from the warm pool
	WarmMisses    int64 // sandboxes the warm pool could have served but had none ready
	RunMs         int64 // how long sandboxes ran
	IdleMs        int64 // of that: while idle
	Create        Timing
	Lag           Timing // from the change of a file until the server has it
	Command       Timing // from the request for a command in a live sandbox until it runs
}

// count calls fn with the tally of a kind.
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

// Created counts a sandbox that became live, and how long making it took.
func (c *Counters) Created(k Kind, p Purpose, ms int64) {
	c.count(k, func(t *tally) { t.purpose(p).Created++; t.create.add(ms) })
}

// Failed counts a sandbox that could not be made.
func (c *Counters) Failed(k Kind, p Purpose) { c.count(k, func(t *tally) { t.purpose(p).Failed++ }) }

// Cleaned counts the removal of a sandbox that was unknown or not needed.
func (c *Counters) Cleaned(k Kind, p Purpose) { c.count(k, func(t *tally) { t.purpose(p).Cleaned++ }) }

// Reused counts a caller that got the live sandbox for a purpose.
func (c *Counters) Reused(k Kind, p Purpose) { c.count(k, func(t *tally) { t.purpose(p).Reused++ }) }

// Unhealthy counts an unanswered health check.
func (c *Counters) Unhealthy(k Kind, p Purpose) {
	c.count(k, func(t *tally) { t.purpose(p).HealthFailures++ })
}

// FellBack counts a workspace that started in another executor because this one could not serve.
func (c *Counters) FellBack(k Kind) { c.count(k, func(t *tally) { t.fallbacks++ }) }

// Synced counts a changed file that reached the server, and how long after its change.
func (c *Counters) Synced(k Kind, lagMs int64) { c.count(k, func(t *tally) { t.lag.add(lagMs) }) }

// Commanded counts a command that started, and how long after the request in a live sandbox.
func (c *Counters) Commanded(k Kind, ms int64) {
	c.count(k, func(t *tally) { t.command.add(ms) })
}

// Warm counts whether a sandbox was taken from the warm pool.
func (c *Counters) Warm(k Kind, hit bool) {
	c.count(k, func(t *tally) {
		if hit {
			t.warmHits++
		} else {
			t.warmMisses++
		}
	})
}

// Ran counts how long a sandbox ran, and whether it was idle.
func (c *Counters) Ran(k Kind, ms int64, idle bool) {
	c.count(k, func(t *tally) {
		t.runMs += ms
		if idle {
			t.idleMs += ms
		}
	})
}

// Counts returns the counts by kind.
func (c *Counters) Counts() map[Kind]Counts {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[Kind]Counts, len(c.kinds))
	for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
		t := c.kinds[k]
		n := Counts{Kind: k, Purposes: make(map[Purpose]PurposeCounts, len(t.purposes)), Fallbacks: t.fallbacks, WarmHits: t.warmHits,
			WarmMisses: t.warmMisses, RunMs: t.runMs, IdleMs: t.idleMs, Create: t.create.reported(), Lag: t.lag.reported(), Command: t.command.reported()}
		for p, of := range t.purposes {
			n.Purposes[p] = *of
			n.Add(*of)
		}
		out[k] = n
	}
	return out
}

// Begin sets when counting began, ms UTC, unless that is already set.
func (c *Counters) Begin(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == 0 {
		c.since = now
	}
}

// Since returns when counting began, ms UTC.
func (c *Counters) Since() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since
}
