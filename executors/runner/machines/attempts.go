package machines

import (
	"net/netip"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Unauthenticated calls are rate-limited by source address: a burst, then a steady rate. Successful calls do not count, so that a fleet
// behind one address is not blocked.
const (
	attemptBurst = 30
	attemptEvery = 2 * time.Second
	maxAddresses = 10_000 // remembered addresses; beyond this all share one count
)

type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	from map[string]*bucket
}

// bucket is the used-up budget at a time.
type bucket struct {
	used float64
	at   time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, from: map[string]*bucket{}}
}

// begin counts a call before it is tried.
func (a *attempts) begin(address string) error {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(addressKey(address), now)
	if b.used+1 > attemptBurst {
		wait := time.Duration((b.used + 1 - attemptBurst) * float64(attemptEvery))
		secs := int64(wait/time.Second) + 1
		return fault.New(fault.RateLimited, "too_many_attempts", "Too many failed attempts. Try again in %d seconds.", secs).With("retry_after_ms", secs*1000)
	}
	b.used++
	return nil
}

// succeeded reverses what begin counted.
func (a *attempts) succeeded(address string) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(addressKey(address), now)
	b.used = max(0, b.used-1)
}

// of returns the current count of a key. a.mu is held.
func (a *attempts) of(key string, now time.Time) *bucket {
	b := a.from[key]
	if b == nil && len(a.from) >= maxAddresses {
		for k, o := range a.from {
			if now.Sub(o.at) > attemptBurst*attemptEvery {
				delete(a.from, k)
			}
		}
		if len(a.from) >= maxAddresses {
			key = ""
			b = a.from[key]
		}
	}
	if b == nil {
		b = &bucket{at: now}
		a.from[key] = b
	}
	b.used = max(0, b.used-float64(now.Sub(b.at))/float64(attemptEvery))
	b.at = now
	return b
}

// addressKey returns the address range whose calls are counted together: an IPv6 user has a whole /64.
func addressKey(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return "?"
	}
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}
