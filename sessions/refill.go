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
	repairEvery  = time.Second          // how often to retry a disk that accepts no output
	refillTime   = time.Minute          // for one attempt to fetch what is missing
	recheckEvery = 2 * time.Millisecond // how often to check whether the guest knows that the disk is full
	recheckFor   = 10 * time.Second     // how long to wait for a guest that cannot be notified
	lookAhead    = 64 << 10             // bytes read after what is missing, for secrets that end there
)

// wantRest has the output that the disk did not accept written once it does. The caller holds out.mu.
func (l *live) wantRest() {
	if l.out.storing {
		return
	}
	l.svc.hold(l)
	if l.out.storing = l.svc.run(l.storeRest); !l.out.storing {
		l.svc.release(l)
	}
}

// storeRest retries the disk until every byte is stored: what is in memory, and what memory could not hold, from the guest.
// Meanwhile it keeps the guest informed that nobody else has the output. It continues when the session has ended, for then only
// the guest has the rest: that end is stored last, so that if the server dies before, the next one finds the session open and
// fetches the rest.
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

// restStored ends storeRest where nothing is left to do; err is that of the last attempt.
func (l *live) restStored(err error) bool {
	l.out.mu.Lock()
	over := l.over()
	whole := l.log.Degraded() == nil
	// For an ended session, do not wait for a disk that is broken rather than full.
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
		l.svc.cfg.Log.Error("output of an ended session could not be stored on disk", "session_id", l.id, "error", err)
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

// endsLate reports whether the session's end is to be stored after its output, and records that.
func (o *stream) endsLate() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLate = o.storing
	return o.endLate
}

// takeEnd reports whether the caller must store an end that was to be stored late: nothing stores output any more.
func (o *stream) takeEnd() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	take := o.endLate && !o.storing
	if take {
		o.endLate = false
	}
	return take
}

// forgetThere lets the guest drop the session. If the guest does not get this, its own cap does it.
func (l *live) forgetThere(ctx context.Context) {
	l.mu.Lock()
	g := l.guest
	l.mu.Unlock()
	if g == nil {
		return
	}
	if err := g.Remove(ctx, l.id); err != nil {
		l.svc.cfg.Log.Debug("guest could not drop a session", "session_id", l.id, "error", err)
	}
}

// safe is the offset before which the guest may drop output: a masker may have to look back a little.
func (o *stream) safe(upTo int64) int64 { return max(upTo-int64(max(o.masker.Longest()-1, 0)), 0) }

// notifyFull informs the guest that the server's disk is full, and up to which offset output is stored.
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
		l.svc.cfg.Log.Debug("guest could not be informed that the disk is full", "session_id", l.id, "error", err)
		return
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.reportedFull = true
}

// recheckDisk waits, once memory holds as much output as it may, until the guest knows that the server's disk is full: from then
// on the guest drops none of it.
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

// fillGap writes a line that reports bytes dropped by the guest.
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

// gapNote is the line that is shown where output was lost.
func gapNote(lost int64) []byte {
	return fmt.Appendf(nil, "\x18\r\n\x1b[0m[%d bytes of output were lost here]\r\n", lost)
}
