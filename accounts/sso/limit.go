package sso

import (
	"net/netip"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// One address may begin so many sign-ins at once, and then one more each so often: each costs a row.
const (
	tripBurst = 30
	tripEvery = 2 * time.Second
	mostAddrs = 50_000
)

// limits counts beginnings by address, in memory.
type limits struct {
	now func() time.Time

	mu   sync.Mutex
	full map[string]time.Time // when an address will have all its beginnings again
}

// take counts one beginning.
func (l *limits) take(ip string) error {
	now := l.now()
	key := ip
	if a, err := netip.ParseAddr(ip); err == nil {
		a = a.Unmap().WithZone("")
		key = a.String()
		if p, err := a.Prefix(64); err == nil && a.Is6() {
			key = p.String()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full == nil || len(l.full) >= mostAddrs {
		l.full = kept(l.full, now)
	}
	at := l.full[key]
	if at.Before(now) {
		at = now
	}
	if wait := at.Add(tripEvery).Sub(now) - tripBurst*tripEvery; wait > 0 {
		secs := int64(wait/time.Second) + 1
		return fault.New(fault.RateLimited, "too_many_attempts", "Too many failed attempts. Try again in %d seconds.", secs).With("retry_after_ms", secs*1000)
	}
	l.full[key] = at.Add(tripEvery)
	return nil
}

// kept are the addresses that still count; none when all do, which bounds the memory.
func kept(all map[string]time.Time, now time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for k, at := range all {
		if at.After(now) {
			out[k] = at
		}
	}
	if len(out) >= mostAddrs {
		return map[string]time.Time{}
	}
	return out
}
