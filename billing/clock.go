package billing

import (
	"sync"
	"time"
)

// slack is how far the server's clock may be from where it should be before it counts as put forward or back.
const slack = 5 * time.Second

// clock tells the ledger's time: ms UTC that never go back, however the server's clock is put. A small error of it is followed; when it
// was put forward the ledger's time leaps with it, and says so; when it was put back, the ledger's time goes on ahead of it. Otherwise
// segments would overlap, or last for longer than anything ran.
type clock struct {
	now     func() time.Time
	elapsed func() time.Duration

	mu    sync.Mutex
	begun bool
	at    int64         // the ledger's time when it was last asked
	mono  time.Duration // elapsed by then
	ahead int64         // how far the ledger's time is ahead of the server's clock, ms, when that was last news
}

// start sets the ledger's time: ahead of the server's clock as it was, and never before what it has written already.
func (c *clock) start(least, ahead int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.now().UnixMilli()
	c.at, c.mono, c.begun, c.ahead = max(wall+ahead, least), c.elapsed(), true, ahead
}

// jump is a change of the server's clock.
type jump struct {
	from    int64 // the ledger's time without it
	forward int64 // put forward by so much, ms; 0 = put back, or the ledger's time is ahead by another amount
	ahead   int64 // how far the ledger's time is ahead now, ms
}

// read returns the time, and the jump that was noticed on the way.
func (c *clock) read() (int64, *jump) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.now().UnixMilli(), c.elapsed()
	if !c.begun {
		c.at, c.mono, c.begun = wall, mono, true
		return wall, nil
	}
	// Whole ms only: what is left over counts the next time.
	passed := (mono - c.mono).Milliseconds()
	c.mono += time.Duration(passed) * time.Millisecond
	c.at += max(passed, 0)
	from, off := c.at, wall-c.at
	ahead := int64(0)
	switch {
	case off > slack.Milliseconds():
		c.at, c.ahead = wall, 0
		return wall, &jump{from: from, forward: off}
	case off < -slack.Milliseconds():
		ahead = -off
	default:
		c.at = max(c.at, wall)
	}
	if d := ahead - c.ahead; d > slack.Milliseconds() || d < -slack.Milliseconds() || ahead == 0 && c.ahead != 0 {
		c.ahead = ahead
		return c.at, &jump{from: from, ahead: ahead}
	}
	return c.at, nil
}

// lift turns a time by somebody else's clock into the ledger's: those are compared with the server's, which may be behind it.
func (c *clock) lift(ms int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off := c.at - c.now().UnixMilli(); off > slack.Milliseconds() {
		return ms + off
	}
	return ms
}

// again has the next read notice anew how far the ledger's time is ahead.
func (c *clock) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = -1
}

// Clock is the source of the ledger's time, with or without a Ledger: ms UTC that never go back. It holds the jumps of the server's clock
// until the Ledger has written them. Safe for concurrent use; readers do not wait for writers.
type Clock struct {
	clock

	clockJumpsMu sync.Mutex
	leaps        [][2]int64 // from, to: times the clock was put forward that are not written yet
}

// NewClock makes a Clock. now is the server's clock, which may jump, and elapsed one that does not and goes on while the machine sleeps; nil =
// those of this machine.
func NewClock(now func() time.Time, since func() time.Duration) *Clock {
	if now == nil {
		now = time.Now
	}
	if since == nil {
		since = elapsed
	}
	return &Clock{clock: clock{now: now, elapsed: since}}
}

// Now is the ledger's time, ms UTC.
func (c *Clock) Now() int64 {
	// The next writer writes a jump that is noticed here.
	now, j, _ := c.noticed()
	if j != nil && j.forward == 0 {
		c.again()
	}
	return now
}

// noticed is the ledger's time, the jump that was noticed, and whether one is not written yet.
func (c *Clock) noticed() (now int64, j *jump, pending bool) {
	c.clockJumpsMu.Lock()
	defer c.clockJumpsMu.Unlock()
	now, j = c.read()
	if j != nil && j.forward > 0 {
		c.leaps = append(c.leaps, [2]int64{j.from, now})
	}
	return now, j, len(c.leaps) > 0
}

// clockJump is the first time the clock was put forward that is not written yet; false when there is none.
func (c *Clock) clockJump() (next [2]int64, any bool) {
	c.clockJumpsMu.Lock()
	defer c.clockJumpsMu.Unlock()
	if len(c.leaps) == 0 {
		return next, false
	}
	return c.leaps[0], true
}

// written takes out what clockJump returned, once it is written.
func (c *Clock) written() {
	c.clockJumpsMu.Lock()
	defer c.clockJumpsMu.Unlock()
	c.leaps = c.leaps[1:]
}
