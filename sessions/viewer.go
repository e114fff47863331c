package sessions

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/screen"
)

// Flow control of output to a viewer.
const (
	window     = 256 << 10            // bytes a viewer may be behind with its acknowledgements
	maxFrame   = 64 << 10             // bytes of output in one frame
	goodFrame  = 32 << 10             // while output flows, a frame waits until it is this full
	frameWait  = 8 * time.Millisecond // but no longer than this,
	frameLook  = time.Millisecond     // and checks this often
	flowAbove  = 4 << 10              // bytes within frameWait that mean output flows
	frameHead  = 9
	minBuf     = 32 << 10
	aheadFor   = 5 * time.Second // how long a viewer may be ahead of a log that is still catching up after a restart
	maxListed  = 50              // viewers named in a state frame
	maxViewers = 1000
	maxGuests  = 25 // of one link
)

// Errors of Viewer.Next, and the code with which to close the socket.
var (
	ErrSlow       = errors.New("viewer did not acknowledge in time")       // 4008: it may attach again with its offset
	ErrGone       = errors.New("viewer is closed")                         // 4001
	ErrOffset     = errors.New("viewer requested bytes that do not exist") // 4001, an error frame went before
	ErrRestarting = errors.New("the server is stopping")                   // 4012: it may attach again with its offset
)

// Attach requests a view of a session's terminal.
type Attach struct {
	UserID, Name string
	Writer       bool   // may type and size; the caller has checked the right
	Takes        bool   // may take the keyboard from its holder; the caller has checked the right
	Guest        bool   // watches by a link, without a login: UserID is the link's. Gets the output and the session's state, but nothing about people
	From         *int64 // offset of the first byte the viewer lacks; nil: the current screen, then what follows
}

// Viewer is one view of a session's terminal. It pulls at its own pace: nothing it does slows the terminal or another viewer.
// Only one goroutine may call Next; the other methods are safe to call concurrently.
type Viewer struct {
	l      *live
	num    uint64 // order of arrival
	id     string
	user   string
	name   string
	writer bool
	takes  bool
	guest  bool

	// Guarded by l.mu.
	typingAt time.Time // of the last key
	wished   guest.Size
	colors   *screen.Colors // nil: unknown
	closed   bool
	quit     chan struct{} // closed by Close

	acks chan struct{} // one token: the acknowledged offset grew

	// Used only by Next, except acked, which l.mu guards.
	off     int64 // next byte to send
	acked   int64
	gen     uint64
	size    guest.Size // sent last
	fresh   bool       // must get the screen first
	snap    []byte     // the frame with the screen, until it is sent
	exited  bool
	aheadAt time.Time // since when it is ahead of the log
	overAt  time.Time // since when it exceeds its window
	restAt  time.Time // since when it waits for output that the disk did not accept
	restTo  int64     // the offset of that output at that time
	flow    int       // bytes sent since flowAt
	flowAt  time.Time
	bad     *fault.Error // sent in an error frame first
	timer   *time.Timer
}

// Attach returns a viewer of a session, running or ended. Without From it gets the current screen, and what follows. With From it
// gets every byte from there on and never the screen; dropped bytes are left out (the next frame's offset shows that); beyond the
// end, as after a machine lost power, it gets the screen all the same. Errors: not_found, too_many_viewers.
func (s *Service) Attach(ctx context.Context, id string, a Attach) (*Viewer, error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	first, end := l.log.Bounds()
	v := &Viewer{l: l, user: a.UserID, name: safetext.Cut(safetext.Line(a.Name), 64), writer: a.Writer && !a.Guest, takes: a.Writer && a.Takes && !a.Guest, guest: a.Guest, quit: make(chan struct{}), acks: make(chan struct{}, 1), off: first, fresh: a.From == nil}
	v.timer = time.NewTimer(time.Hour)
	v.timer.Stop()
	if a.From != nil {
		v.off = *a.From
		v.off = max(v.off, first)
		switch {
		case *a.From < 0:
			v.bad = fault.New(fault.Invalid, "offset_beyond_end", "There is nothing at offset %d. Attach again without an offset.", *a.From).With("end", end)
		case *a.From > end && v.over():
			v.fresh = true
		}
	}
	v.acked = v.off
	l.mu.Lock()
	if len(l.seats.viewers) >= maxViewers {
		l.mu.Unlock()
		s.release(l)
		return nil, fault.New(fault.Unavailable, "too_many_viewers", "%d people already watch this session.", maxViewers)
	}
	if a.Guest && l.seats.guests(a.UserID) >= maxGuests {
		l.mu.Unlock()
		s.release(l)
		return nil, fault.New(fault.Unavailable, "too_many_viewers", "%d people already watch this session by the same link.", maxGuests)
	}
	l.seats.arrivals++
	v.num = l.seats.arrivals
	v.id = viewerID(v.num)
	l.seats.viewers[v] = struct{}{}
	l.noteSeat(v, false)
	l.backAtKeyboard(v)
	l.bump()
	l.mu.Unlock()
	s.stirred(l)
	return v, nil
}

// guests counts the viewers of one link. The caller holds mu.
func (s *seats) guests(link string) (n int) {
	for v := range s.viewers {
		if v.guest && v.user == link {
			n++
		}
	}
	return n
}

// Next waits for something to send and returns exactly one frame of the terminal socket: in buf, which must hold 32 KiB at least
// (64 KiB and 9 bytes are best), or, for a screen, in separate memory. Errors: io.EOF after the exit frame; ErrSlow, ErrGone,
// ErrOffset, ErrRestarting; ctx's.
func (v *Viewer) Next(ctx context.Context, buf []byte) ([]byte, error) {
	if len(buf) < minBuf {
		return nil, io.ErrShortBuffer
	}
	if v.fresh {
		if err := v.begin(ctx); err != nil {
			return nil, err
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f, err := v.news(buf); f != nil || err != nil {
			return f, err
		}
		l := v.l
		l.mu.Lock()
		changed, acked := l.changed, v.acked
		stale := v.stale()
		l.mu.Unlock()
		more := l.log.Changed()
		if stale {
			continue
		}
		room := window - (v.off - acked)
		_, end := l.log.Bounds()
		ready := end - v.off
		var wait time.Duration
		switch {
		case ready < 0: // the server was killed between showing bytes and storing them: the guest still has them
			if v.aheadAt.IsZero() {
				v.aheadAt = time.Now()
			}
			if wait = aheadFor - time.Since(v.aheadAt); wait <= 0 || v.over() { // a machine that lost power lost the end
				if err := v.begin(ctx); err != nil {
					return nil, err
				}
				continue
			}
		case ready == 0:
			v.overAt = time.Time{}
			if v.over() {
				if f, err := v.output(buf, 0); f != nil || err != nil {
					return f, err
				}
			}
		case room <= 0:
			if v.overAt.IsZero() {
				v.overAt = time.Now()
			}
			if wait = l.svc.cfg.SlowAfter - time.Since(v.overAt); wait <= 0 {
				return nil, ErrSlow
			}
			more = nil // there is enough output: wait for an acknowledgement
		default:
			v.overAt = time.Time{}
			if wait = v.pause(min(ready, room)); wait > 0 {
				more = nil // not for each further piece
				break
			}
			off := v.off
			f, err := v.output(buf, min(room, maxFrame))
			if f != nil || err != nil {
				return f, err
			}
			if v.off != off { // bytes were dropped: what follows may have another size
				continue
			}
			if !v.restAt.IsZero() {
				more, wait = nil, restLook
			}
		}
		if err := v.await(ctx, more, changed, wait); err != nil {
			return nil, err
		}
	}
}

// Bounds of what a fresh viewer gets.
const (
	screenWait  = 2 * time.Second // for a screen that is far behind; after that the viewer gets the rest as output
	screenFrame = 512 << 10       // bytes of a screen with its scrollback
)

// begin makes the frame with the screen. Output printed since follows it.
func (v *Viewer) begin(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, screenWait)
	stop := context.AfterFunc(v.l.svc.hard, cancel)
	err := v.l.rec.CatchUp(within)
	stop()
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && within.Err() == nil {
		return err
	}
	v.fresh = false
	v.l.rec.Look(func(s *screen.Screen, off int64) {
		for lines := screen.AllLines; ; {
			v.snap = s.AppendSnapshot(append(make([]byte, 0, 64<<10), make([]byte, frameHead)...), lines)
			if len(v.snap) <= screenFrame || lines == 0 {
				break
			}
			if lines < 0 {
				lines = s.Scrollback()
			}
			lines /= 2
		}
		putHead(v.snap, opScreen, off)
		v.off = off
	})
	v.l.mu.Lock()
	v.acked = v.off
	v.l.mu.Unlock()
	return nil
}

// over reports whether the session has ended: then ask the log for its end.
func (v *Viewer) over() bool {
	select {
	case <-v.l.done:
		return true
	default:
		return false
	}
}

// pause returns how long to wait before a frame of n bytes: not at all after silence or for a few bytes now and then, a moment
// while output flows and the frame is small.
func (v *Viewer) pause(n int64) time.Duration {
	since := time.Since(v.flowAt)
	if since >= frameWait {
		v.flow, v.flowAt = 0, time.Now()
	}
	if n >= goodFrame || v.flow < flowAbove {
		return 0
	}
	return min(frameLook, frameWait-since)
}

// output returns a frame of output in buf, or the exit when everything was sent; nil when there is nothing, or when bytes were
// left out, as v.off then shows.
func (v *Viewer) output(buf []byte, most int64) ([]byte, error) {
	_, until := v.l.rec.SizeAt(v.off)
	most = min(most, int64(len(buf)-frameHead), until-v.off)
	into := buf[frameHead : frameHead+int(most)]
	n, from, err := v.l.log.ReadAt(into, v.off)
	if n > 0 && from > v.off {
		if v.awaitsRest() {
			return nil, nil
		}
		n, from, err = v.l.log.ReadAt(into, v.off) // what was missing may have been stored since
	}
	switch {
	case n > 0 && from > until:
		v.off = from
	case n > 0:
		v.restAt = time.Time{}
		putHead(buf, opOutput, from)
		v.off = from + int64(n)
		v.flow += n
		return buf[:frameHead+n], nil
	case errors.Is(err, io.EOF):
		if !v.over() { // the service is closing: the session continues
			return nil, ErrRestarting
		}
		v.exited = true
		row := v.l.snapshot()
		if v.guest {
			row.StateReason = "" // may name people
		}
		return exitFrame(buf, row)
	case err != nil:
		return nil, err
	}
	return nil, nil
}

// Bounds of a wait for output that the full disk did not accept and that is on its way from the sandbox.
const (
	restFor  = 5 * time.Second // without progress for this long, the viewer skips it
	restLook = 50 * time.Millisecond
)

// awaitsRest reports whether the viewer waits for output that is not on this server yet, but will be once the disk has space.
func (v *Viewer) awaitsRest() bool {
	from, to := v.l.log.Missing()
	if v.off < from || v.off >= to {
		return false
	}
	if v.restAt.IsZero() || from > v.restTo {
		v.restAt, v.restTo = time.Now(), from
	}
	return time.Since(v.restAt) < restFor
}

// await waits for a change; wait 0 means without a limit.
func (v *Viewer) await(ctx context.Context, more, changed <-chan struct{}, wait time.Duration) error {
	var ring <-chan time.Time
	if wait > 0 {
		v.timer.Reset(wait)
		defer v.timer.Stop()
		ring = v.timer.C
	}
	done := v.l.done
	if v.over() {
		done = nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-v.quit:
		return ErrGone
	case <-v.l.svc.hard.Done():
		return ErrRestarting
	case <-more:
	case <-changed:
	case <-v.acks:
	case <-ring:
	case <-done:
	}
	return nil
}

// Ack records that the viewer has received every byte before off.
func (v *Viewer) Ack(off int64) {
	v.l.mu.Lock()
	if off > v.acked {
		// What was never sent cannot be acknowledged: at most the log's end counts.
		if _, end := v.l.log.Bounds(); off <= end {
			v.acked = off
		}
	}
	v.l.mu.Unlock()
	tasks.Wake(v.acks)
}

// Input types p. Errors: read_only for a viewer who may only watch, keyboard_held, and those of Service.Input.
func (v *Viewer) Input(ctx context.Context, p []byte) error {
	if !v.writer {
		return fault.New(fault.Forbidden, "read_only", "You watch this session as a viewer and cannot type in it.")
	}
	if len(p) == 0 {
		return nil
	}
	if _, paused := v.l.paused(); paused && prompt.IsMouseReport(p) {
		return nil // looking at it is no reason to wake it
	}
	if err := v.l.typed(ctx, v, v.user, p); err != nil {
		return err
	}
	v.l.rec.NoteKeys(v.user, v.name, len(p))
	v.l.prompts.Pressed(p)
	return v.l.prompts.Send(ctx, p)
}

// Wish sets the size the viewer would like. It applies while the viewer owns the size or nobody does.
func (v *Viewer) Wish(size guest.Size) { v.l.wish(v, size) }

// Colors sets the colours of text, background and cursor, each red, green and blue, of the viewer's terminal. Programs that ask
// get those of the size's owner.
func (v *Viewer) Colors(rgb [9]byte) {
	if !v.writer {
		return
	}
	c := *history.Theme(int(rgb[3])+int(rgb[4])+int(rgb[5]) > 3*127)
	for i, to := range []*screen.RGB{&c.Foreground, &c.Background, &c.Cursor} {
		*to = screen.RGB(rgb[3*i])<<16 | screen.RGB(rgb[3*i+1])<<8 | screen.RGB(rgb[3*i+2])
	}
	v.l.mu.Lock()
	defer v.l.mu.Unlock()
	v.colors = &c
	if v.l.size.owner == v {
		v.l.rec.SetColors(&c)
	}
}

// TakeSize makes the viewer the owner of the size. Errors: read_only, keyboard_held.
func (v *Viewer) TakeSize() error { return v.l.takeSize(v) }

// Close ends the view. A Next under way returns ErrGone. Idempotent.
func (v *Viewer) Close() {
	l := v.l
	l.mu.Lock()
	if v.closed {
		l.mu.Unlock()
		return
	}
	v.closed = true
	close(v.quit)
	delete(l.seats.viewers, v)
	if l.seats.typist == v {
		l.seats.typist = nil
	}
	l.left(v)
	l.noteSeat(v, true)
	l.leftKeyboard(v)
	l.bump()
	l.mu.Unlock()
	l.svc.stirred(l)
	l.svc.release(l)
}

// noteSeat records that v came or left. The caller holds mu.
func (l *live) noteSeat(v *Viewer, left bool) {
	s := v.seat()
	l.rec.Note(journal.Seat, journal.Visit{UserID: s.UserID, Name: s.Name, Role: s.Role, Left: left})
}
