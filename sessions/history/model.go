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
	modelLines  = 3000                 // of scrollback the model keeps
	modelPace   = 4 * time.Millisecond // while output flows, it is read in larger pieces, so often
	modelFlow   = 4 << 10              // bytes at once that mean output flows
	modelBack   = 32 << 20             // bytes of output, at most, a screen is made of anew: older ones have long scrolled away
	storeEvery  = 4 << 20              // bytes of output after which the screen is stored again,
	storeRemote = 16 << 20             // or these while it is so far behind that it will soon be another
	quickBuild  = 4 << 20              // bytes a screen may be behind without waiting for a place to be brought up to date
)

// model is the session's screen on the server. It reads the log like a viewer, at its own pace and never in the stream's way.
// While a session runs, a goroutine keeps it up to date; whoever looks at it brings it there first. After a while
// of silence only a snapshot beside the log is left of it, from which it goes on: also after a restart of the server.
type model struct {
	r *Recording

	mu       sync.Mutex
	scr      *screen.Screen // nil: asleep
	off      int64          // the next byte to read; while asleep, where it fell asleep
	size     guest.Size     // of scr
	packed   []byte         // the stored screen, where it could not be written to disk
	page     int64          // where the newest page begins, while awake
	stored   int64          // offset of the stored screen; 0: none that is known of
	usedAt   time.Time
	colors   atomic.Pointer[screen.Colors] // of whoever sizes the terminal; nil: nobody has said
	reported *screen.Colors                // those scr has

	// Questions of the program, see answers.go.
	from   int64  // the first byte whose questions nobody has answered
	queue  []byte // answers to be typed
	typing bool   // somebody is typing them
}

var pieces = sync.Pool{New: func() any { return new([readSize]byte) }}

// Follow keeps the screen up to date in a goroutine until the session has ended or the server stops. The caller has taken a reference to the
// session for it.
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

// behind reports whether the model is awake and has yet to read more than what is packed at once.
func (m *model) behind() bool {
	_, end := m.r.log.Bounds()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scr != nil && end-m.off > keepEach
}

// advance reads up to offset end of the log, -1 being all there is now, and returns how many bytes that were. The error is
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

// step reads one piece. Between two of them others may look at the screen.
func (m *model) step(buf []byte, end int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scr == nil {
		if _, now := m.r.log.Bounds(); end < 0 && m.off == now { // nothing new: it may sleep on
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
	case at > m.off: // bytes between are kept no longer: what they began is broken off
		m.write([]byte{0x18})
		m.off = at
		return 1, nil
	case n == 0:
		return 0, nil
	}
	n = int(min(int64(n), m.fit()-m.off)) // a size may have been told, and bytes after it have come, since the screen was fitted
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

// dueToStore reports whether enough was read since the screen was stored. It is called under mu.
func (m *model) dueToStore() bool {
	_, end := m.r.log.Bounds()
	return m.off-m.stored >= storeRemote || m.off-m.stored >= storeEvery && end-m.off < storeEvery
}

func (m *model) write(p []byte) { _, _ = m.scr.Write(p) } // never fails

// fit gives the screen the size it has at the offset reached, and returns the offset up to which it has that. It is called
// under mu.
func (m *model) fit() (until int64) {
	size, until := m.r.SizeAt(m.off)
	if size != m.size {
		m.size = size
		m.scr.Resize(int(size.Cols), int(size.Rows))
	}
	return until
}

// nap puts the model to sleep when nobody has used it for a while; else it returns how long to wait for that.
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

// catchUp brings the model to where the log ends now, or as near as it gets before ctx ends.
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

// look calls fn with the screen as it is after everything that was read so far. fn must not keep it.
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

// View calls fn with the session's screen, brought up to date. False, without a call, when the session has printed nothing
// yet. fn must be quick, must not keep the screen nor write to it; View must not be called under a lock of the session.
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

// Tail returns the last n lines of the session's screen and what is above it, as text: lines that were wrapped are whole.
func (r *Recording) Tail(n int) (lines []string) {
	r.View(func(s *screen.Screen) { lines = s.LastLines(n) })
	return lines
}

// CatchUp brings the screen to where the log ends now, or as near as it gets before ctx ends.
func (r *Recording) CatchUp(ctx context.Context) error { return r.model.catchUp(ctx) }

// Look calls fn with the screen as it is after everything that was read so far, and the offset of what follows. fn must not keep it.
func (r *Recording) Look(fn func(s *screen.Screen, off int64)) { r.model.look(fn) }

// SetColors says which colours programs that ask are told from now on.
func (r *Recording) SetColors(c *screen.Colors) { r.model.colors.Store(c) }

// Poured notes that n bytes of output have come. It is for the one who appends.
func (r *Recording) Poured(now time.Time, n int) { r.throttle.add(now, n) }
