package audit

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// How much is recorded of what is refused: so many at once, then one more each so often. What goes beyond is counted, and the count
// recorded, so that a flood fills no disk and hides nothing but itself.
var (
	strangerPace = pace{burst: 20, every: 30 * time.Second} // one address, not signed in
	strangers    = pace{burst: 300, every: 5 * time.Second} // all that are not signed in
	userPace     = pace{burst: 60, every: 2 * time.Second}  // one user
)

// again is after how long what somebody does many times to one thing, such as typing, is recorded again.
const again = 10 * time.Minute

// mostBuckets bounds the memory for counters.
const mostBuckets = 20_000

type pace struct {
	burst int
	every time.Duration
}

// bucket is how much of a pace is used up, and when that was so.
type bucket struct {
	pace pace
	used float64
	at   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.used, b.at = max(0, b.used-float64(now.Sub(b.at))/float64(b.pace.every)), now
	if b.used+1 > float64(b.pace.burst) {
		return false
	}
	b.used++
	return true
}

// bounds decides what is recorded of what comes often.
type bounds struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
	all     bucket
	last    map[string]time.Time // what comes often, when it was recorded last
	left    map[string]int64     // not recorded, by chain
	swept   time.Time
}

func newBounds(now func() time.Time) *bounds {
	return &bounds{now: now, buckets: map[string]*bucket{}, all: bucket{pace: strangers}, last: map[string]time.Time{}, left: map[string]int64{}}
}

// address is what is counted together: an IPv6 user has a whole /64.
func address(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// admits decides whether something that was refused is recorded.
func (b *bounds) admits(s Source, chain string) bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	key, p, stranger := "u"+s.ActorID, userPace, false
	if s.ActorID == "" {
		key, p, stranger = "a"+address(s.IP), strangerPace, true
	}
	one := b.buckets[key]
	if one == nil && len(b.buckets) < mostBuckets {
		one = &bucket{pace: p}
		b.buckets[key] = one
	}
	if one != nil && one.take(now) && (!stranger || b.all.take(now)) {
		return true
	}
	b.left[chain]++
	return false
}

// first decides whether something that comes often is recorded now.
func (b *bounds) first(s Source, e Entry) bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	key := s.ActorID + "\x00" + s.Credential + "\x00" + e.Action + "\x00" + e.TargetID
	if at, ok := b.last[key]; ok && now.Sub(at) < again || len(b.last) >= mostBuckets {
		return false
	}
	b.last[key] = now
	return true
}

// sweep forgets what has run out.
func (b *bounds) sweep(now time.Time) {
	if now.Sub(b.swept) < time.Minute {
		return
	}
	b.swept = now
	for k, one := range b.buckets {
		if now.Sub(one.at) > time.Duration(one.used*float64(one.pace.every)) {
			delete(b.buckets, k)
		}
	}
	for k, at := range b.last {
		if now.Sub(at) >= again {
			delete(b.last, k)
		}
	}
}

// takeLeft returns how many entries were not recorded, by chain, and resets the counts.
func (b *bounds) takeLeft() map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.left
	b.left = map[string]int64{}
	return out
}

// recorded decides whether an operation that ended is recorded: all that was done, but of what comes often one in ten minutes by
// the same person about the same thing; and of what was refused as much as bounds a flood.
func (l *Log) recorded(s Source, e Entry, often bool) bool {
	if e.Result == Refused || e.Result == Failed {
		return l.bounds.admits(s, e.Chain)
	}
	return !often || l.bounds.first(s, e)
}

// Record adds the entry of an operation that ended; often marks one that comes many times for one thing, such as typing. It keeps
// bounds: see recorded.
func (l *Log) Record(ctx context.Context, e Entry, often bool) error {
	if !l.recorded(SourceOf(ctx), e, often) {
		return nil
	}
	return l.Append(ctx, e)
}

// NotRecorded is the action of the entry that says how many refusals were not recorded one by one.
const NotRecorded = "audit.not_recorded"

// notifyLeft records how much was not.
func (l *Log) notifyLeft(ctx context.Context) {
	for chain, n := range l.bounds.takeLeft() {
		e := Entry{Chain: chain, Action: NotRecorded, Result: Refused, Data: map[string]string{"count": strconv.FormatInt(n, 10)}}
		if err := l.Append(ctx, e); err != nil && ctx.Err() == nil {
			l.cfg.Log.ErrorContext(ctx, "audit entries not written", "error", err)
		}
	}
}
