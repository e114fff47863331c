package changes

import "time"

// The pace of polling. A hint is answered after a moment, so that a burst of writes is one poll; without hints polls become ever
// rarer; and polling never uses more than a tenth of a core.
const (
	hintDelay   = 300 * time.Millisecond
	weakMax     = time.Second     // between polls while output flows and nothing changes
	weakCovered = 2 * time.Second // the same when the file system reports writes
	idleFirst   = time.Second
	idleMax     = 30 * time.Second
	idleCovered = 2 * time.Minute
	costFactor  = 9               // pause at least this many times what the poll cost
	costMax     = 2 * time.Minute // but not longer
)

// schedule decides when to look next. It only calculates; its owner has the clock and the lock.
type schedule struct {
	polled    bool
	earliest  time.Time // not before, to save CPU
	idle      time.Time // at the latest
	idleGap   time.Duration
	weakGap   time.Duration
	strongAt  time.Time // first strong hint since the last poll began
	weakAt    time.Time // first weak one
	lastBegin time.Time
	running   bool // a poll is under way
	duringWas bool // it answers a strong hint
}

// hint records that something may have changed, and reports whether that can bring the next poll forward.
func (s *schedule) hint(now time.Time, strong bool) bool {
	at := &s.weakAt
	if strong {
		at = &s.strongAt
	}
	if !at.IsZero() {
		return false
	}
	*at = now
	return true
}

// begin records that a poll begins: it answers earlier hints.
func (s *schedule) begin(now time.Time) {
	s.duringWas = !s.strongAt.IsZero()
	s.strongAt, s.weakAt = time.Time{}, time.Time{}
	s.lastBegin, s.running = now, true
}

// end records that a poll ended, its cost in CPU time, and whether it found anything. covered reports that the file system
// reports writes in every known folder.
func (s *schedule) end(now time.Time, cost time.Duration, changed, covered bool) {
	s.polled, s.running = true, false
	s.earliest = now.Add(min(costFactor*cost, costMax))
	idleTop, weakTop := idleMax, weakMax
	if covered {
		idleTop, weakTop = idleCovered, weakCovered
	}
	switch {
	case changed:
		s.idleGap, s.weakGap = idleFirst, hintDelay
	case s.duringWas:
		s.idleGap, s.weakGap = max(s.idleGap, idleFirst), hintDelay
	default:
		s.idleGap = min(max(2*s.idleGap, idleFirst), idleTop)
		s.weakGap = min(max(2*s.weakGap, hintDelay), weakTop)
	}
	s.idle = now.Add(s.idleGap)
}

// due is when to look next; the zero time means at once.
func (s *schedule) due() time.Time {
	if s.running { // its end changes this
		return s.lastBegin.Add(time.Hour)
	}
	if !s.polled {
		return time.Time{}
	}
	at := s.idle
	if !s.strongAt.IsZero() {
		at = earlier(at, s.strongAt.Add(hintDelay))
	}
	if !s.weakAt.IsZero() {
		weak := s.weakAt.Add(hintDelay)
		if paced := s.lastBegin.Add(s.weakGap); paced.After(weak) {
			weak = paced
		}
		at = earlier(at, weak)
	}
	if at.Before(s.earliest) {
		return s.earliest
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
