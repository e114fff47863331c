package history

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/screen"
)

const (
	readSize    = 64 << 10             // bytes read at a time
	modelLines  = 3000                 // lines of scrollback the model keeps
	modelPace   = 4 * time.Millisecond // while output flows, it is read in larger pieces at this interval
	modelFlow   = 4 << 10              // bytes at once that count as flowing output
	modelBack   = 32 << 20             // bytes of output, at most, from which a screen is rebuilt: older ones have long scrolled away
	storeEvery  = 4 << 20              // bytes of output after which the screen is stored again,
	storeRemote = 16 << 20             // or these while it is so far behind that it will soon change anyway
	quickBuild  = 4 << 20              // bytes a screen may be behind to be updated without waiting for a slot
)

// model is the session's screen on the server. It reads the log like a viewer, at its own pace, without slowing the stream. While
// a session runs, a goroutine updates it; readers update it first. After a period of silence only a snapshot next to the log
// remains, from which it continues, also after a restart of the server.
type model struct {
	r *Recording

	mu       sync.Mutex
	scr      *screen.Screen // nil: asleep
	off      int64          // the next byte to read; while asleep, where it fell asleep
	size     guest.Size     // of scr
	packed   []byte         // the stored screen, where it could not be written to disk
	page     int64          // where the newest page begins, while awake
	stored   int64          // offset of the stored screen; 0: none is known
	usedAt   time.Time
	colors   atomic.Pointer[screen.Colors] // of the viewer who determines the size; nil: unknown
	reported *screen.Colors                // those scr has

	// Queries of the program, see answers.go.
	from   int64  // the first byte whose queries have not been answered
	queue  []byte // answers to be typed
	typing bool   // typing is in progress
}

var pieces = sync.Pool{New: func() any { return new([readSize]byte) }}

// Follow updates the screen in a goroutine until the session has ended or the server stops. The caller has taken a reference to
// the session for it.
func (r *Recording) Follow() {
	if !r.all.cfg.Tasks.Go(func() { r.model.follow(r.all.cfg.Context) }) {
		r.host.Release()
	}
}

func (m *model) follow(ctx context.Context) {
	defer m.r.host.Release()
	silence := m.r.all.cfg.ScreenSleep
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		if m.r.throttle.now() && m.lag() < screenLag {
			if !tasks.Sleep(ctx, throttleLook) {
				m.rest()
				return
			}
			continue
		}
		changed := m.r.log.Changed()
		n, err := m.advance(ctx, -1)
		if err != nil {
			m.rest()
			return
		}
		if n >= modelFlow {
			if !tasks.Sleep(ctx, modelPace) {
				m.rest()
				return
			}
			continue
		}
		if n > 0 {
			quiet.Reset(silence)
		}
		select {
		case <-changed:
		case <-quiet.C:
			if left := m.nap(); left > 0 {
				quiet.Reset(left)
			}
		case <-ctx.Done():
			m.rest()
			return
		}
	}
}

// lag is how many bytes the model is behind.
func (m *model) lag() int64 {
	_, end := m.r.log.Bounds()
	m.mu.Lock()
	defer m.mu.Unlock()
	return end - m.off
}

// behind reports whether the model is awake and has more left to read than is packed at once.
func (m *model) behind() bool {
	_, end := m.r.log.Bounds()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scr != nil && end-m.off > keepEach
}

// advance reads up to offset end of the log, -1 for everything there is now, and returns how many bytes that were. The error is
// io.EOF at the end of a finished log.
func (m *model) advance(ctx context.Context, end int64) (sum int64, err error) {
	buf := pieces.Get().(*[readSize]byte)
	defer pieces.Put(buf)
	for ctx.Err() == nil {
		n, err := m.step(buf[:], end)
		sum += n
		if n == 0 || err != nil {
			return sum, err
		}
	}
	return sum, ctx.Err()
}

// step reads one piece. Others may look at the screen between two pieces.
func (m *model) step(buf []byte, end int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scr == nil {
		if _, now := m.r.log.Bounds(); end < 0 && m.off == now { // nothing new: it may stay asleep
			_, _, err := m.r.log.ReadAt(nil, now)
			return 0, err
		}
		m.wake()
	}
	until := m.fit()
	if end >= 0 {
		until = min(until, end)
	}
	if m.off < m.from {
		until = min(until, m.from)
	}
	n, at, err := m.r.log.ReadAt(buf[:max(0, min(int64(len(buf)), until-m.off))], m.off)
	switch {
	case err != nil:
		return 0, err
	case at > m.off: // the bytes between are dropped: discard what they began
		m.write([]byte{0x18})
		m.off = at
		return 1, nil
	case n == 0:
		return 0, nil
	}
	n = int(min(int64(n), m.fit()-m.off)) // a new size, and bytes after it, may have come since the screen was fitted
	if c := m.colors.Load(); c != m.reported {
		m.reported = c
		m.scr.SetColors(*c)
	}
	m.scr.SetAnswering(m.off >= m.from)
	m.off += int64(n)
	m.write(buf[:n])
	m.fit()
	m.from = max(m.from, m.off)
	m.deliver()
	if m.dueToStore() {
		m.store()
	}
	if m.off-m.page >= pageEvery {
		m.turn()
	}
	return int64(n), nil
}

// dueToStore reports whether enough was read since the screen was stored. The caller holds mu.
func (m *model) dueToStore() bool {
	_, end := m.r.log.Bounds()
	return m.off-m.stored >= storeRemote || m.off-m.stored >= storeEvery && end-m.off < storeEvery
}

func (m *model) write(p []byte) { _, _ = m.scr.Write(p) } // never fails

// fit gives the screen its size at the current offset, and returns the offset up to which that applies. The caller holds mu.
func (m *model) fit() (until int64) {
	size, until := m.r.SizeAt(m.off)
	if size != m.size {
		m.size = size
		m.scr.Resize(int(size.Cols), int(size.Rows))
	}
	return until
}

// nap puts the model to sleep when it has not been used for a while; otherwise it returns how long to wait for that.
func (m *model) nap() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scr == nil {
		return 0
	}
	if left := m.r.all.cfg.ScreenSleep - time.Since(m.usedAt); left > 0 {
		return left
	}
	m.sleep()
	return 0
}

// rest stores the screen when the session or the server ends.
func (m *model) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scr != nil {
		m.sleep()
	}
}

// catchUp updates the model to the end of the log, or as far as it gets before ctx ends.
func (m *model) catchUp(ctx context.Context) error {
	_, end := m.r.log.Bounds()
	m.mu.Lock()
	m.usedAt = time.Now()
	behind := end - m.off
	if m.scr == nil {
		behind = end - m.stored
	}
	m.mu.Unlock()
	if behind > quickBuild {
		select {
		case m.r.all.screens <- struct{}{}:
			defer func() { <-m.r.all.screens }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := m.advance(ctx, end)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// look calls fn with the screen after everything read so far. fn must not retain it.
func (m *model) look(fn func(s *screen.Screen, off int64)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usedAt = time.Now()
	if m.scr == nil {
		m.wake()
	}
	m.fit()
	fn(m.scr, m.off-int64(m.scr.Held()))
}

// lookPatience is how long a look waits for a screen that is far behind.
const lookPatience = time.Second

// View calls fn with the session's updated screen. It returns false, without a call, when the session has printed nothing yet. fn
// must be quick and must neither retain the screen nor write to it. View must not be called under a lock of the session.
func (r *Recording) View(fn func(*screen.Screen)) bool {
	if _, end := r.log.Bounds(); end == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookPatience)
	defer cancel()
	if err := r.model.catchUp(ctx); err != nil {
		r.all.cfg.Log.Debug("screen not up to date", "session_id", r.id, "error", err)
	}
	r.model.look(func(s *screen.Screen, _ int64) { fn(s) })
	return true
}

// Tail returns the last lines of the session's screen and of what is above it, as text, with wrapped lines joined.
func (r *Recording) Tail(n int) (lines []string) {
	r.View(func(s *screen.Screen) { lines = s.LastLines(n) })
	return lines
}

// CatchUp updates the screen to the end of the log, or as far as it gets before ctx ends.
func (r *Recording) CatchUp(ctx context.Context) error { return r.model.catchUp(ctx) }

// Look calls fn with the screen after everything read so far, and the offset of what follows. fn must not retain it.
func (r *Recording) Look(fn func(s *screen.Screen, off int64)) { r.model.look(fn) }

// SetColors sets the colours reported to programs that ask from now on.
func (r *Recording) SetColors(c *screen.Colors) { r.model.colors.Store(c) }

// SetTheme sets them to those of a terminal that is light or dark in the UI.
func (r *Recording) SetTheme(light bool) { r.SetColors(Theme(light)) }

// Poured records that n bytes of output have come. Only the appender calls it.
func (r *Recording) Poured(now time.Time, n int) { r.throttle.add(now, n) }
