package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of a terminal's size, and how often it may change.
const (
	minCols, minRows = 20, 5
	maxCols, maxRows = 1000, 1000
	defCols, defRows = 120, 32
	sizeEvery        = 150 * time.Millisecond
)

// sizing records who owns the size of a terminal. There is one owner: the first writer, then the last one to take the size, or
// the next writer once the owner has been gone for Config.SizeHold. live.mu guards all of it.
type sizing struct {
	owner    *Viewer     // nil: nobody
	leftUser string      // the user of an owner who left and may regain the size
	free     *time.Timer // releases the size of an owner who left
	want     guest.Size  // the owner's newest wish
	timer    *time.Timer // applies want
	busy     bool        // want is being applied
	lastAt   time.Time   // time of the last change
}

func (z *sizing) stop() {
	for _, t := range []*time.Timer{z.free, z.timer} {
		if t != nil {
			t.Stop()
		}
	}
}

func fits(s guest.Size) bool {
	return s.Cols >= minCols && s.Rows >= minRows && s.Cols <= maxCols && s.Rows <= maxRows
}

// wish takes a viewer's wish. It applies when the viewer owns the size or may become its owner now.
func (l *live) wish(v *Viewer, s guest.Size) {
	if !v.writer || !fits(s) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.closed || l.row.State.Ended() {
		return
	}
	v.wished = s
	if l.allows(v.user) != nil {
		return
	}
	z := &l.size
	switch {
	case z.owner == v:
	case z.owner == nil && (z.free == nil || z.leftUser == v.user):
		l.own(v)
	default:
		return
	}
	l.resize(s)
}

// takeSize makes v the owner and gives the terminal v's last wished size. The holder of the keyboard also holds the size.
func (l *live) takeSize(v *Viewer) error {
	if !v.writer {
		return fault.New(fault.Forbidden, "read_only", "You watch this session as a viewer and cannot change its size.")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.closed || l.row.State.Ended() {
		return nil
	}
	if err := l.allows(v.user); err != nil {
		return err
	}
	if l.size.owner != v {
		l.own(v)
	}
	if v.wished.Cols > 0 {
		l.resize(v.wished)
	}
	return nil
}

// own makes v the owner. The caller holds mu.
func (l *live) own(v *Viewer) {
	z := &l.size
	if z.free != nil {
		z.free.Stop()
		z.free = nil
	}
	z.owner, z.leftUser = v, ""
	if v.colors != nil {
		l.rec.SetColors(v.colors)
	}
	l.bump()
}

// left releases the size, after a while, when its owner has gone. The caller holds mu.
func (l *live) left(v *Viewer) {
	z := &l.size
	if z.owner != v {
		return
	}
	z.owner, z.leftUser = nil, v.user
	z.free = l.svc.after(l.svc.cfg.SizeHold, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if z.owner != nil {
			return
		}
		z.free, z.leftUser = nil, ""
		var next *Viewer // the writer who has been here longest
		for v := range l.seats.viewers {
			if v.writer && v.wished.Cols > 0 && (next == nil || v.num < next.num) {
				next = v
			}
		}
		if next != nil {
			l.own(next)
			l.resize(next.wished)
		}
	})
}

// resize applies the size to the terminal: at once when it has not changed lately, otherwise after sizeEvery. The caller holds
// mu.
func (l *live) resize(s guest.Size) {
	z := &l.size
	z.want = s
	if z.timer != nil || z.busy { // then want is applied anyway
		return
	}
	wait := max(0, sizeEvery-time.Since(z.lastAt))
	z.timer = l.svc.after(wait, l.applySize)
}

func (l *live) applySize() {
	l.mu.Lock()
	z := &l.size
	z.timer, z.lastAt = nil, time.Now()
	s, g := z.want, l.guest
	same := l.row.Cols == s.Cols && l.row.Rows == s.Rows
	_, still := l.paused() // then it is resized when it resumes
	if same || still || l.row.State.Ended() || g == nil {
		l.mu.Unlock()
		return
	}
	z.busy = true
	// The mark precedes the program's output for its new size, which may arrive before the guest's answer.
	was := guest.Size{Cols: l.row.Cols, Rows: l.row.Rows}
	l.sized(s)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.svc.hard, 10*time.Second)
	defer cancel()
	err := g.Resize(ctx, l.id, s)
	l.mu.Lock()
	z.busy = false
	if err != nil {
		l.sized(was)
		l.mu.Unlock()
		l.svc.cfg.Log.Debug("terminal not resized", "session_id", l.id, "error", err)
		return
	}
	if z.want != s {
		l.resize(z.want)
	}
	l.mu.Unlock()
	l.rec.Flush(false) // later output is shown in this size, also after a crash
	l.svc.touch(l)
}

// sized records that the terminal has a size from now on. The caller holds mu.
func (l *live) sized(s guest.Size) {
	l.row.Cols, l.row.Rows = s.Cols, s.Rows
	l.rec.NoteSize(guest.Size{Cols: l.row.Cols, Rows: l.row.Rows})
	l.wake()
}
