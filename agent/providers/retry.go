package providers

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

// Policy says how often a request is tried. Zero values stand for the defaults.
type Policy struct {
	MaxTries int           // 8
	MaxTime  time.Duration // from the first failure to the start of the last try: 10 minutes
	First    time.Duration // the wait after the first failure, which doubles with each further one: 1 second
	Longest  time.Duration // the longest wait, unless the provider asks for more: 1 minute
}

// Retrying returns a provider that makes further tries of requests that failed for a while. Before each one it yields an event of kind Retry:
// what came before is void. It waits as long as the provider asks, and gives up at once when that would take too long.
func Retrying(p Provider, policy Policy) Provider {
	policy.MaxTries = cmp.Or(policy.MaxTries, 8)
	policy.MaxTime = cmp.Or(policy.MaxTime, 10*time.Minute)
	policy.First = cmp.Or(policy.First, time.Second)
	policy.Longest = cmp.Or(policy.Longest, time.Minute)
	return retrying{p, policy}
}

type retrying struct {
	p Provider
	Policy
}

// Stream implements Provider.
func (r retrying) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var failing time.Time // since when
		for try := 1; ; try++ {
			err, left := once(r.p.Stream(ctx, req), yield)
			if err == nil || left {
				return
			}
			now := time.Now()
			if failing.IsZero() {
				failing = now
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || !e.Retryable() || try >= r.MaxTries || ctx.Err() != nil {
				yield(Event{}, err)
				return
			}
			wait := r.wait(try, e.RetryAfter)
			if now.Add(wait).Sub(failing) > r.MaxTime {
				yield(Event{}, err)
				return
			}
			if !yield(Event{Kind: Retry, Wait: wait, Error: e}, nil) {
				return
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				yield(Event{}, ctx.Err())
				return
			}
		}
	}
}

// once passes on the events of one try. It returns the error that ended it, and whether the consumer left.
func once(events iter.Seq2[Event, error], yield func(Event, error) bool) (err error, left bool) { //nolint:revive // the error is what it is about
	for e, err := range events {
		if err != nil {
			return err, false
		}
		if !yield(e, nil) {
			return nil, true
		}
	}
	return nil, false
}

// wait is how long to wait after a try. Chance keeps the agents apart that failed at the same time.
func (r retrying) wait(try int, asked time.Duration) time.Duration {
	wait := min(r.First<<min(try-1, 20), r.Longest)
	if asked > 0 {
		return asked + rand.N(r.First/4+1)
	}
	return wait/2 + rand.N(wait/2+1)
}
