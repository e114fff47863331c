package rest

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/internal/fault"
)

// Cost names what an operation costs the server much of. Operations with the same name share a limit.
type Cost string

// The costs.
const (
	Searching  Cost = "search"   // reads what sessions printed, changes, or folders of this machine
	Comparing  Cost = "compare"  // walks two trees and their differences
	Exporting  Cost = "export"   // reads all there is, into a file
	Cloning    Cost = "clone"    // fetches a repository
	Building   Cost = "build"    // builds an image
	Mailing    Cost = "mail"     // sends mail, or makes a link that is sent
	Measuring  Cost = "disk"     // counts or frees space on the disk
	Snapshots  Cost = "snapshot" // takes or restores all files of a workspace
	Reaching   Cost = "outside"  // has the server ask another one, at an address that people enter
	costPeriod      = time.Minute
)

// Rate bounds how often an operation is done: so many times a minute by one person, and by all of a team together; 0 = unbounded. A
// minute's worth may come at once.
type Rate struct{ User, Team int }

// Throttle counts costly calls in memory; a restart forgets them. Safe for concurrent use.
type Throttle struct {
	rates map[Cost]Rate
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter // per cost and person or team
	swept   time.Time
}

// NewThrottle makes a Throttle; costs that rates does not name are unbounded.
func NewThrottle(rates map[Cost]Rate, now func() time.Time) *Throttle {
	return &Throttle{rates: rates, now: now, buckets: map[string]*rate.Limiter{}}
}

// Take counts a call; rate_limited where it is one too many. One that is refused counts for nobody.
func (t *Throttle) Take(c Cost, userID, teamID string) error {
	r, now := t.rates[c], t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	mine, wait := t.reserve("u", c, userID, r.User, now)
	if wait > 0 {
		return tooOften(c, "user", r.User, wait)
	}
	if _, wait = t.reserve("t", c, teamID, r.Team, now); wait > 0 {
		if mine != nil {
			mine.CancelAt(now)
		}
		return tooOften(c, "team", r.Team, wait)
	}
	return nil
}

// reserve counts a call of one person or team, or says how long they have to wait.
func (t *Throttle) reserve(kind string, c Cost, id string, most int, now time.Time) (*rate.Reservation, time.Duration) {
	if most <= 0 || id == "" {
		return nil, 0
	}
	key := kind + string(c) + " " + id
	b := t.buckets[key]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(float64(most)/costPeriod.Seconds()), most)
		t.buckets[key] = b
	}
	r := b.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return r, wait
}

// sweep forgets whoever has not called for a minute: their allowance is whole again.
func (t *Throttle) sweep(now time.Time) {
	if now.Sub(t.swept) < costPeriod {
		return
	}
	t.swept = now
	for key, b := range t.buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(t.buckets, key)
		}
	}
}

func tooOften(c Cost, who string, most int, wait time.Duration) error {
	secs := int64((wait + time.Second - 1) / time.Second)
	whom := "You ask"
	if who == "team" {
		whom = "Your team asks"
	}
	return fault.New(fault.RateLimited, "rate_limited", "%s for this more often than this server allows, which is %d times a minute. Try again in %d seconds.", whom, most, secs).
		With("limit", string(c)).With("scope", who).With("per_minute", most).With("retry_after_ms", secs*1000)
}

// Charge counts a call of the operation's caller against a limit: for operations that are costly only sometimes.
func (t *Throttle) Charge(ctx context.Context, c Cost) error {
	call := CallOf(ctx)
	return t.Take(c, call.Actor.User.ID, call.Object.TeamID)
}
