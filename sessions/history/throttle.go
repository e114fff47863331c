package history

import (
	"sync/atomic"
	"time"
)

// While output pours in, what only looks at it (the screen, packing, the index for searches) waits: processor time belongs to
// the stream then. An agent's redraws are far below this rate.
const (
	throttleWindow = 50 * time.Millisecond
	throttleAbove  = 256 << 10              // bytes within a window that mean output pours in
	throttleRest   = 100 * time.Millisecond // after the last such window it does no more
	throttleLook   = 50 * time.Millisecond  // how often those who wait look again
	screenLag      = 32 << 20               // bytes a screen may fall behind for it: still read within a moment by whoever comes
	keepLag        = 256 << 20              // bytes of history that may wait to be packed
)

// throttle knows whether output pours in. add is for the one who appends; now is safe for everybody.
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
