package history

import (
	"sync/atomic"
	"time"
)

// While output pours in, what only looks at it (the screen, packing, the index for searches) waits: processor time belongs to
// the stream then. An agent's redraws are far below this rate.
const (
	pourWindow = 50 * time.Millisecond
	pourAbove  = 256 << 10              // bytes within a window that mean output pours in
	pourRest   = 100 * time.Millisecond // after the last such window it does no more
	pourLook   = 50 * time.Millisecond  // how often those who wait look again
	screenLag  = 32 << 20               // bytes a screen may fall behind for it: still read within a moment by whoever comes
	keepLag    = 256 << 20              // bytes of history that may wait to be packed
)

// pouring knows whether output pours in. add is for the one who appends; now is safe for everybody.
type pouring struct {
	since time.Time
	bytes int
	until atomic.Int64 // ms since 1970
}

func (p *pouring) add(now time.Time, n int) {
	if now.Sub(p.since) > pourWindow {
		p.since, p.bytes = now, 0
	}
	if p.bytes += n; p.bytes >= pourAbove {
		p.until.Store(now.Add(pourRest).UnixMilli())
	}
}

func (p *pouring) now() bool { return time.Now().UnixMilli() < p.until.Load() }
