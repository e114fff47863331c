package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/state"
)

const (
	readSize = 64 << 10
	holdFor  = 50 * time.Millisecond // how long the beginning of a secret waits for its rest
	ackAfter = 250 * time.Millisecond
	maxGap   = 1 << 30 // the most bytes a guest may report as dropped; a larger number is not believed
)

// errNonsense reports that a guest sent impossible data.
var errNonsense = errors.New("the guest's offsets are inconsistent")

// pump copies the session's output from the guest into the log until the process has ended, and reconnects after each cut. It
// holds one reference to l.
func (l *live) pump(ctx context.Context) {
	defer l.svc.release(l)
	defer l.questions.Subscribe()()
	l.mu.Lock()
	sandboxID := l.row.SandboxID
	l.mu.Unlock()
	defer l.svc.gateway.Open(l.workspaceID, sandboxID, l.token).Release()
	defer l.svc.relay.Open(l.workspaceID, sandboxID).Release()
	l.questions.Watch()
	l.svc.hold(l)
	l.rec.Follow()
	wait := 20 * time.Millisecond
	for again := false; ; again = true {
		began := time.Now()
		err := l.follow(ctx, again)
		if err == nil {
			if l.conclude(ctx) {
				return
			}
			err = errors.New("the process has no exit record yet")
		}
		if ctx.Err() != nil {
			return
		}
		if reason := l.gone(err); reason != "" {
			l.finish(ctx, l.lost(reason))
			return
		}
		if l.sleepsOn(ctx) {
			wait = 20 * time.Millisecond
		}
		if time.Since(began) > 5*time.Second {
			wait = 20 * time.Millisecond
		}
		l.svc.cfg.Log.Debug("session output was cut", "session_id", l.id, "error", err)
		if !tasks.Sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// gone returns, from an error and what the executors know, why the session cannot continue; "" when it is worth another try.
func (l *live) gone(err error) string {
	l.mu.Lock()
	workspaceID, sandboxID := l.row.WorkspaceID, l.row.SandboxID
	l.mu.Unlock()
	switch {
	case errors.Is(err, errNonsense):
		return "the sandbox it ran in sent invalid data"
	case fault.Is(err, fault.NotFound):
		return "the sandbox it ran in does not know it any more"
	case errors.Is(err, executors.ErrGone):
		return "the sandbox it ran in is gone"
	}
	p, ok := l.svc.cfg.Places.Live(workspaceID)
	if !ok || p.SandboxID != sandboxID {
		return "the sandbox it ran in is gone"
	}
	l.mu.Lock()
	l.guest = p.Guest
	l.mu.Unlock()
	return ""
}

// lost returns the end of a session whose sandbox is gone, with the actual cause where the host itself ended the sandbox.
func (l *live) lost(reason string) ending {
	l.mu.Lock()
	sandboxID := l.row.SandboxID
	l.mu.Unlock()
	if words := l.svc.cfg.Places.EndOf(sandboxID); words != "" {
		return ending{state: state.Exited, reason: words}
	}
	return ending{state: state.Lost, reason: reason}
}

// follow reads output until its end (nil) or a cut; again: there was a cut before.
func (l *live) follow(ctx context.Context, again bool) error {
	l.mu.Lock()
	g := l.guest
	l.mu.Unlock()
	next := l.position()
	out, err := g.Output(ctx, l.id, guest.Terminal, next)
	if fault.CodeOf(err) == "offset_beyond_end" {
		// A machine that lost power has less output than this server. Its processes ended with it: the exit record says how.
		return nil
	}
	if err != nil {
		return err
	}
	defer out.Close()
	if err := l.gap(next, out.From); err != nil {
		return err
	}
	if again {
		l.svc.run(func() { l.prompts.Repair(ctx) })
	}
	buf := make([]byte, readSize)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			l.take(buf[:n])
			l.recheckDisk(ctx)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// position returns the offset in the guest's stream from which to read: after what is in the log or held back, minus what rewind
// wants to see again.
func (l *live) position() int64 {
	_, end := l.log.Bounds()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	return end - l.out.skip + int64(l.out.masker.Held())
}

// rewind prepares the first read after a restart: it begins a little before the log's end, so that a secret whose beginning is
// already in the log is masked to its end.
func (l *live) rewind() {
	_, end := l.log.Bounds()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.out.skip = min(end, int64(max(l.out.masker.Longest()-1, 0)))
}

// gap records in the log that the guest dropped bytes: a line that says so, padded with NUL, which terminals ignore, so that
// later offsets stay valid.
func (l *live) gap(want, from int64) error {
	lost := from - want
	switch {
	case lost == 0:
		return nil
	case lost < 0 || lost > maxGap:
		return fmt.Errorf("%w: requested offset %d, got %d", errNonsense, want, from)
	}
	l.svc.cfg.Log.Warn("session output was dropped by its guest", "session_id", l.id, "offset", want, "bytes", lost)
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	cutBy := min(l.out.skip, lost)
	l.out.skip -= cutBy
	lost -= cutBy
	l.put(l.out.masker.Flush())
	if lost == 0 {
		return nil
	}
	note := gapNote(lost)
	first := make([]byte, min(lost, readSize))
	if int64(len(note)) <= lost {
		copy(first, note)
	}
	l.put(first)
	for lost -= int64(len(first)); lost > 0; {
		pad := make([]byte, min(lost, readSize))
		l.put(pad)
		lost -= int64(len(pad))
	}
	return nil
}

// take masks incoming output and appends it to the log.
func (l *live) take(p []byte) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.blind {
		clear(p) // terminals ignore zeros, and offsets stay valid
	}
	l.put(l.out.masker.Write(p))
	switch {
	case l.out.masker.Held() == 0:
	case l.out.hold == nil:
		l.out.hold = l.svc.after(holdFor, l.letGo)
	default:
		l.out.hold.Reset(holdFor)
	}
}

func (l *live) letGo() {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	l.put(l.out.masker.Flush())
}

// put appends masked bytes. The caller holds out.mu.
func (l *live) put(p []byte) {
	if n := min(l.out.skip, int64(len(p))); n > 0 {
		l.out.skip -= n
		p = p[n:]
	}
	if len(p) == 0 {
		return
	}
	end, err := l.log.Append(p)
	if err != nil {
		l.svc.cfg.Log.Warn("session output could not be stored", "session_id", l.id, "error", err)
	}
	l.rec.Mark(end)
	l.watchDisk()
	l.out.scan.Scan(p)
	now := time.Now()
	l.rec.Poured(now, len(p))
	l.mu.Lock()
	l.machine.Output(now, len(p))
	l.machine.UpTo = end
	l.watchScreen()
	l.judge()
	l.mu.Unlock()
	l.wantAck()
}

// watchDisk reports, in the log and to viewers, when the server cannot store output on disk, and when it can again. The caller
// holds out.mu.
func (l *live) watchDisk() {
	err := l.log.Degraded()
	if (err != nil) == l.out.degraded {
		return
	}
	l.out.degraded = err != nil
	notice := ""
	if l.out.degraded {
		notice = "The server cannot write to its disk: it retains only the newest output of this session."
		if l.log.DiskFull() {
			notice = "The server's disk is full. The output of this session stays in its sandbox until there is space."
		}
		l.svc.cfg.Log.Error("session output is stored in memory only", "session_id", l.id, "error", err)
	} else {
		l.svc.cfg.Log.Info("session output is stored on disk again", "session_id", l.id)
	}
	l.mu.Lock()
	l.notice = notice
	l.bump()
	l.mu.Unlock()
	if l.out.degraded {
		l.wantRest()
	}
}

// wantAck lets the guest drop, a moment later, what is safely stored on this server. The caller holds out.mu.
func (l *live) wantAck() {
	if !l.out.acking {
		l.out.acking = l.svc.run(l.acknowledge)
	}
}

func (l *live) acknowledge() {
	for tasks.Sleep(l.svc.hard, ackAfter) {
		_, end := l.log.Bounds()
		l.out.mu.Lock()
		if l.out.degraded { // the guest's copy is the only one that would survive
			l.out.acking = false
			l.out.mu.Unlock()
			return
		}
		upTo := l.out.safe(end)
		l.out.mu.Unlock()
		l.mu.Lock()
		g := l.guest
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(l.svc.hard, 10*time.Second)
		err := g.Ack(ctx, l.id, guest.Terminal, upTo)
		cancel()
		l.out.mu.Lock()
		if _, now := l.log.Bounds(); err != nil || now == end {
			l.out.acking = false
			l.out.mu.Unlock()
			return
		}
		l.out.mu.Unlock()
	}
	l.out.mu.Lock()
	l.out.acking = false
	l.out.mu.Unlock()
}
