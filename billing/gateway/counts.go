package gateway

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/billing/tokens"
)

// Bounds of the histograms.
var (
	// FirstByteBounds are those of the time until an answer began, ms.
	FirstByteBounds = [...]int64{50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000}
	// OwnBounds are those of what the gateway itself took of it, µs.
	OwnBounds = [...]int64{100, 250, 500, 1000, 2000, 5000, 10_000, 50_000}
)

// Outcome is how requests of an API went: "ok", or an Err of tokens.
type Outcome struct {
	API    string // messages, responses, chat_completions, embeddings; other for what is not counted
	Result string
}

// Histogram counts durations below bounds; the last is of those above all.
type Histogram struct {
	Buckets []int64 // one more than there are bounds
	Count   int64
	Sum     int64
}

func (h *Histogram) add(v int64, bounds []int64) {
	if h.Buckets == nil {
		h.Buckets = make([]int64, len(bounds)+1)
	}
	i := 0
	for i < len(bounds) && v > bounds[i] {
		i++
	}
	h.Buckets[i]++
	h.Count++
	h.Sum += v
}

// Counts is what was counted since the server started.
type Counts struct {
	Since     int64 // ms UTC
	Outcomes  map[Outcome]int64
	Retries   int64
	InFlight  int64
	FirstByte Histogram        // ms
	Own       Histogram        // µs
	Tokens    map[string]int64 // by kind: input, output, cache_read, cache_write
}

type counts struct {
	mu    sync.Mutex
	since int64
	Counts
}

func (c *counts) begin() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.InFlight++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.InFlight--
	}
}

func (c *counts) ended(a api, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Outcomes == nil {
		c.Outcomes = map[Outcome]int64{}
	}
	result = cmp.Or(result, "ok")
	name := string(a)
	if a == other {
		name = "other"
	}
	c.Outcomes[Outcome{name, result}]++
}

func (c *counts) retried() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Retries++
}

func (c *counts) began(firstByte, own time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.FirstByte.add(firstByte.Milliseconds(), FirstByteBounds[:])
	c.Own.add(own.Microseconds(), OwnBounds[:])
}

func (c *counts) used(t tokens.Tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Counts.Tokens == nil {
		c.Counts.Tokens = map[string]int64{}
	}
	for kind, n := range map[string]*int64{"input": t.Input, "output": t.Output, "cache_read": t.CacheRead, "cache_write": t.CacheWrite, "cache_write_hour": t.CacheWriteHour} {
		if n != nil {
			c.Counts.Tokens[kind] += *n
		}
	}
}

// Counts returns what was counted since the server started.
func (s *Service) Counts() Counts {
	c := &s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.Counts
	out.Since = c.since
	out.Outcomes = make(map[Outcome]int64, len(c.Outcomes))
	maps.Copy(out.Outcomes, c.Outcomes)
	out.Tokens = make(map[string]int64, len(c.Counts.Tokens))
	maps.Copy(out.Tokens, c.Counts.Tokens)
	out.FirstByte.Buckets = append([]int64(nil), c.FirstByte.Buckets...)
	out.Own.Buckets = append([]int64(nil), c.Own.Buckets...)
	return out
}

// reported keeps a session that is refused again and again from filling the table: one row a minute for each kind of refusal is enough.
type refusalRows struct {
	mu sync.Mutex
	at map[string]int64
}

const (
	notifyEvery = 60_000
	mostTold    = 10_000
)

func (t *refusalRows) again(key string, now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.at[key]; ok && now-last < notifyEvery && now >= last {
		return false
	}
	if t.at == nil || len(t.at) >= mostTold {
		t.at = map[string]int64{}
	}
	t.at[key] = now
	return true
}

// Below is a bound that so many percent of what was counted are within; nil when nothing was, or they are beyond the last bound.
func (h Histogram) Below(bounds []int64, percent int64) *int64 {
	if h.Count == 0 {
		return nil
	}
	need, n := (h.Count*percent+99)/100, int64(0)
	for i, b := range h.Buckets[:len(bounds)] {
		if n += b; n >= need {
			return new(bounds[i])
		}
	}
	return nil
}
