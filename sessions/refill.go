package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/tasks"
)

const (
	repairEvery  = time.Second          // how often a disk that takes no output is tried again
	refillTime   = time.Minute          // of one attempt to fetch what is missing
	recheckEvery = 2 * time.Millisecond // how often is looked whether the guest knows that the disk is full
	recheckFor   = 10 * time.Second     // a guest that cannot be told holds up nobody for longer
	lookAhead    = 64 << 10             // bytes read behind what is missing, for secrets that end there
)

// wantRest has what the disk does not take written once it does. It is called under out.mu.
func (l *live) wantRest() {
	if l.out.storing {
		return
	}
	l.svc.hold(l)
	if l.out.storing = l.svc.run(l.storeRest); !l.out.storing {
		l.svc.release(l)
	}
}

// storeRest tries the disk until every byte is there: what is in memory, and from the guest what memory did not hold. Meanwhile it keeps
// the guest told that nobody else has the output. It goes on when the session has ended, for then the guest alone has the rest: that end is
// stored last, so that a server that dies before finds the session open and fetches the rest.
func (l *live) storeRest() {
	defer l.svc.release(l)
	for first := true; first || tasks.Sleep(l.svc.hard, repairEvery); first = false {
		l.notifyFull()
		err := l.log.Retry()
		if errors.Is(err, bytelog.ErrMissing) {
			if err = l.refill(); err == nil {
				err = l.log.Retry()
			}
		}
		if l.restStored(err) {
			return
		}
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.storing = false
}

// restStored ends it where nothing is left to do; err is that of the last attempt.
func (l *live) restStored(err error) bool {
	l.out.mu.Lock()
	over := l.over()
	whole := l.log.Degraded() == nil
	// Of a session that has ended, a disk that is broken and not full is not waited for.
	if !whole && (!over || l.log.DiskFull()) {
		l.out.mu.Unlock()
		return false
	}
	l.out.storing, l.out.reportedFull = false, false
	late := over && l.out.endLate
	if late {
		l.out.endLate = false
	}
	if whole {
		l.watchDisk()
		if !over {
			l.wantAck()
		}
	}
	l.out.mu.Unlock()
	if !over {
		l.rec.Pack()
		return true
	}
	if !whole {
		l.svc.cfg.Log.Error("output of an ended session is not kept on disk", "session_id", l.id, "error", err)
	}
	l.log.ReleaseMemory()
	l.rec.Pack()
	if late {
		l.mu.Lock()
		row := l.row
		l.mu.Unlock()
		if err := l.svc.cfg.Store.UpdateSession(l.svc.hard, row); err != nil && !l.svc.storeLate(row) {
			return true // the next start finds it
		}
		l.masks.Forget()
	}
	ctx, cancel := context.WithTimeout(l.svc.hard, 10*time.Second)
	defer cancel()
	l.forgetThere(ctx)
	return true
}

// isStoring reports whether output of the session is not on disk yet.
func (o *stream) isStoring() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.storing
}

// endsLate reports whether the session's end is to be stored once its output is, and notes that.
func (o *stream) endsLate() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLate = o.storing
	return o.endLate
}

// takeEnd reports whether an end that was to be stored late is left to the caller: nobody stores output any more.
func (o *stream) takeEnd() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := o.endLate && !o.storing
	if take {
		o.endLate = false
	}
	return take
}

// forgetThere lets the guest forget the session. If this is not heard, the guest's own cap does it.
func (l *live) forgetThere(ctx context.Context) {
	l.mu.Lock()
	g := l.guest
	l.mu.Unlock()
	if g == nil {
		return
	}
	if err := g.Remove(ctx, l.id); err != nil {
		l.svc.cfg.Log.Debug("guest did not forget a session", "session_id", l.id, "error", err)
	}
}

// safe is the offset before which the guest may let go: a masker may have to look back on what lies behind it.
func (o *stream) safe(upTo int64) int64 { return max(upTo-int64(max(o.masker.Longest()-1, 0)), 0) }

// notifyFull tells the guest that this disk is full, and up to where it is not needed any more.
func (l *live) notifyFull() {
	if !l.log.DiskFull() {
		return
	}
	l.mu.Lock()
	g := l.guest
	l.mu.Unlock()
	if g == nil {
		return
	}
	stored := l.log.OnDisk()
	l.out.mu.Lock()
	upTo := l.out.safe(stored)
	l.out.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.svc.hard, 10*time.Second)
	defer cancel()
	if err := g.AckFull(ctx, l.id, guest.Terminal, upTo); err != nil {
		l.svc.cfg.Log.Debug("guest was not told that the disk is full", "session_id", l.id, "error", err)
		return
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.reportedFull = true
}

// recheckDisk waits, once as much output is held in memory as may be, until the guest knows that this disk is full: from then on the
// guest drops nothing of it.
func (l *live) recheckDisk(ctx context.Context) {
	for began := time.Now(); l.log.Full() && l.log.DiskFull() && time.Since(began) < recheckFor; {
		l.out.mu.Lock()
		reported := l.out.reportedFull || !l.out.storing
		l.out.mu.Unlock()
		if reported || !tasks.Sleep(ctx, recheckEvery) {
			return
		}
	}
}

// refill fetches from the guest what is neither on disk nor in memory, masks it as the first time, and writes it.
func (l *live) refill() error {
	from, to := l.log.Missing()
	if from == to {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.svc.hard, refillTime)
	defer cancel()
	l.out.mu.Lock()
	masker, begin := l.out.masker.Again(), l.out.safe(from)
	l.out.mu.Unlock()
	l.mu.Lock()
	g := l.guest
	l.mu.Unlock()
	out, err := g.Output(ctx, l.id, guest.Terminal, begin)
	if err != nil {
		if l.over() && l.gone(err) != "" {
			l.svc.cfg.Log.Error("output of a session is lost", "session_id", l.id, "offset", from, "bytes", to-from, "error", err)
			l.log.Forgo()
			return nil
		}
		return fmt.Errorf("fetching output again: %w", err)
	}
	defer out.Close()
	at := out.From // of the next masked byte
	if lost := min(at, to) - from; lost > 0 {
		if err := l.fillGap(from, lost); err != nil {
			return err
		}
	}
	_, last := l.log.Bounds() // the guest has everything before it
	last = min(last, to+lookAhead)
	buf := make([]byte, readSize)
	for read := at; at < to; {
		var p []byte
		if read >= last {
			p = masker.Flush()
		} else {
			n, err := out.Read(buf)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("fetching output again: %w", err)
			}
			read += int64(n)
			if p = masker.Write(buf[:n]); err != nil {
				last = read
			}
		}
		if err := l.log.Fill(p, at); err != nil {
			return fmt.Errorf("writing output again: %w", err)
		}
		if at += int64(len(p)); len(p) == 0 && read >= last && masker.Held() == 0 {
			break
		}
	}
	return nil
}

// fillGap writes, for bytes that the guest has dropped, a line that says so.
func (l *live) fillGap(off, lost int64) error {
	l.svc.cfg.Log.Warn("session output was dropped by its guest", "session_id", l.id, "offset", off, "bytes", lost)
	for note := gapNote(lost); lost > 0; note = nil {
		p := make([]byte, min(lost, readSize))
		if int64(len(note)) <= lost {
			copy(p, note)
		}
		if err := l.log.Fill(p, off); err != nil {
			return fmt.Errorf("writing output again: %w", err)
		}
		off, lost = off+int64(len(p)), lost-int64(len(p))
	}
	return nil
}

// gapNote is the line that stands where output was lost.
func gapNote(lost int64) []byte {
	return fmt.Appendf(nil, "\x18\r\n\x1b[0m[%d bytes of output were lost here]\r\n", lost)
}
