package history

import (
	"sync/atomic"
	"time"
)

// While output flows fast, its secondary readers (the screen, packing, the search index) wait: processor time belongs to the
// stream then. An agent's redraws are far below this rate.
const (
	throttleWindow = 50 * time.Millisecond
	throttleAbove  = 256 << 10              // bytes within a window that count as fast output
	throttleRest   = 100 * time.Millisecond // how long after the last such window it ends
	throttleLook   = 50 * time.Millisecond  // how often waiting readers check again
	screenLag      = 32 << 20               // bytes a screen may fall behind meanwhile: a reader still catches up within a moment
	keepLag        = 256 << 20              // bytes of history that may wait to be packed
)

// throttle records whether output flows fast. Only the appender calls add; now is safe for everybody.
type throttle struct {
	since time.Time
	bytes int
	until atomic.Int64 // ms since 1970
}

func (p *throttle) add(now time.Time, n int) {
	if now.Sub(p.since) > throttleWindow {
		p.since, p.bytes = now, 0
	}
	if p.bytes += n; p.bytes >= throttleAbove {
		p.until.Store(now.Add(throttleRest).UnixMilli())
	}
}

func (p *throttle) now() bool { return time.Now().UnixMilli() < p.until.Load() }
