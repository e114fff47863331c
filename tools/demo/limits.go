package demo

import (
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/sandboxes"
)

// maxAddresses is how many addresses are remembered. When there are more, any one is forgotten: who has so many addresses is not held by
// limits of one.
const maxAddresses = 10_000

// admit counts the start of a sandbox, or says which limit forbids it. One that is refused counts for nobody.
func (s *Service) admit(open []sandboxes.Sandbox, from, key string) error {
	l, now := s.cfg.Limits, s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	live, mine, first, firstOfMine := map[string]bool{}, 0, int64(0), int64(0)
	for _, sb := range open {
		live[sb.Key] = true
		first = earlier(first, sb.EndsAt)
		if strings.HasPrefix(sb.Key, from+".") {
			mine++
			firstOfMine = earlier(firstOfMine, sb.EndsAt)
		}
	}
	for k := range s.starting {
		if !live[k] {
			live[k] = true
			if strings.HasPrefix(k, from+".") {
				mine++
			}
		}
	}
	if mine >= l.PerAddress {
		return refused("demo_address_sandboxes", firstOfMine-now.UnixMilli(), "Your address has %d sandboxes of the demo, the most it may have at once. Wait until one has ended.", mine)
	}
	if len(live) >= l.AtOnce {
		return s.full(first - now.UnixMilli())
	}
	// Limits of one address do not hold who has very many.
	if s.all.TokensAt(now) < 1 {
		return s.full(time.Minute.Milliseconds() / int64(l.AtOnce))
	}
	b := s.starts[from]
	if b == nil {
		s.forgetAddresses(now)
		b = rate.NewLimiter(rate.Limit(float64(l.StartsPerHour)/time.Hour.Seconds()), l.StartsPerHour)
		s.starts[from] = b
	}
	if wait := take(b, now); wait > 0 {
		return refused("demo_starts_limit", wait.Milliseconds(), "Your address has started %d sandboxes of the demo within an hour, the most it may start. Try again later, or sign in.", l.StartsPerHour)
	}
	s.all.AllowN(now, 1)
	s.starting[key] = true
	for id := range s.runs { // of sandboxes that have ended
		if !s.running[id] && !has(open, id) {
			delete(s.runs, id)
		}
	}
	return nil
}

// forgetAddresses makes room for one address more: first of those whose allowance is whole again.
func (s *Service) forgetAddresses(now time.Time) {
	if len(s.starts) < maxAddresses {
		return
	}
	for a, b := range s.starts {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(s.starts, a)
		}
	}
	for a := range s.starts {
		if len(s.starts) < maxAddresses {
			return
		}
		delete(s.starts, a)
	}
}

// begin counts a run of code in a sandbox, until done is called.
func (s *Service) begin(sandboxID string) (done func(), err error) {
	l, now := s.cfg.Limits, s.cfg.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[sandboxID] {
		return nil, refused("demo_run_active", 1000, "Your code is still running. Wait until it has ended.")
	}
	b := s.runs[sandboxID]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(float64(l.RunsPerMinute)/time.Minute.Seconds()), l.RunsPerMinute)
		s.runs[sandboxID] = b
	}
	if wait := take(b, now); wait > 0 {
		return nil, refused("demo_runs_limit", wait.Milliseconds(), "You have run code %d times within a minute, the most the demo allows. Wait a moment.", l.RunsPerMinute)
	}
	s.running[sandboxID] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, sandboxID)
	}, nil
}

// take counts one, or says how long to wait.
func take(b *rate.Limiter, now time.Time) time.Duration {
	r := b.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

func has(open []sandboxes.Sandbox, id string) bool {
	for _, sb := range open {
		if sb.ID == id {
			return true
		}
	}
	return false
}

func earlier(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}

func (s *Service) full(waitMs int64) error {
	return refused("demo_full", waitMs, "All %d sandboxes of the demo are in use, or too many were started lately. Try again in a few minutes, or sign in.", s.cfg.Limits.AtOnce)
}

func refused(code string, waitMs int64, format string, args ...any) error {
	return fault.New(fault.RateLimited, code, format, args...).With("retry_after_ms", max(waitMs, 1000))
}
