package accounts

import (
	"net/netip"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// How many failed logins are allowed: so many at once, then one more each so often. Nobody is ever locked out by what others
// do to their account: the narrow rule counts an account from one address.
var (
	pairRule   = rule{burst: 10, every: 30 * time.Second}        // one account from one address
	addrRule   = rule{burst: 50, every: 6 * time.Second}         // one address
	globalRule = rule{burst: 300, every: 100 * time.Millisecond} // everybody; addresses a user signed in from go on
)

type rule struct {
	burst int
	every time.Duration
}

// limits counts failed logins in memory. A restart forgets them, which an attacker cannot cause.
type limits struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket // per rule and key
	global  bucket
	good    map[string]time.Time // account and address of logins that succeeded
	swept   time.Time
}

// bucket is how much of a rule is used up, and when that was so.
type bucket struct {
	used float64
	at   time.Time
	rule rule
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, buckets: map[string]*bucket{}, good: map[string]time.Time{}, global: bucket{rule: globalRule}}
}

// level is what is used up at a time.
func (b *bucket) level(now time.Time) float64 {
	return max(0, b.used-float64(now.Sub(b.at))/float64(b.rule.every))
}

// wait is how long until one more is allowed; 0 = now.
func (b *bucket) wait(now time.Time) time.Duration {
	over := b.level(now) + 1 - float64(b.rule.burst)
	if over <= 0 {
		return 0
	}
	return time.Duration(over * float64(b.rule.every))
}

func (b *bucket) add(now time.Time, n float64) { b.used, b.at = max(0, b.level(now)+n), now }

// addressKey is the address whose failures are counted together: an IPv6 user has a whole /64.
func addressKey(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// begin counts an attempt before it is tried, so that many at once cannot slip through; succeeded takes it back.
func (l *limits) begin(account, ip string) error {
	now := l.now()
	addr := addressKey(ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	pair, any := l.bucket("p"+account+"\x00"+addr, pairRule), l.bucket("a"+addr, addrRule)
	wait := max(pair.wait(now), any.wait(now))
	if _, known := l.good[account+"\x00"+addr]; !known {
		wait = max(wait, l.global.wait(now))
	}
	if wait > 0 {
		secs := int64(wait/time.Second) + 1
		return fault.New(fault.RateLimited, "too_many_attempts", "Too many failed attempts. Try again in %d seconds.", secs).
			With("retry_after_ms", secs*1000)
	}
	pair.add(now, 1)
	any.add(now, 1)
	l.global.add(now, 1)
	return nil
}

// succeeded takes back what begin counted and forgets the account's failures from there.
func (l *limits) succeeded(account, ip string) {
	now := l.now()
	addr := addressKey(ip)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.buckets, "p"+account+"\x00"+addr)
	l.bucket("a"+addr, addrRule).add(now, -1)
	l.global.add(now, -1)
	l.good[account+"\x00"+addr] = now
}

func (l *limits) bucket(key string, r rule) *bucket {
	b := l.buckets[key]
	if b == nil {
		b = &bucket{rule: r}
		l.buckets[key] = b
	}
	return b
}

// sweep forgets what has drained. The global rule bounds how fast buckets appear, so that this bounds the memory.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for k, b := range l.buckets {
		if b.level(now) == 0 {
			delete(l.buckets, k)
		}
	}
	for k, at := range l.good {
		if now.Sub(at) > 30*24*time.Hour {
			delete(l.good, k)
		}
	}
}
