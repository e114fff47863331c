package sessions

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

// ending describes how a session ended.
type ending struct {
	state  state.State
	reason string // as text
	code   *int
	signal string
	at     int64 // ms UTC; 0 = now
}

// conclude asks the guest how the process ended and stores it. It returns false when the guest cannot say yet.
func (l *live) conclude(ctx context.Context) bool {
	l.mu.Lock()
	g, stopper := l.guest, l.stopper
	l.mu.Unlock()
	ask, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p, err := g.Process(ask, l.id)
	if err != nil || p.State != guest.Exited {
		return false
	}
	failpoint.Reach(failpoint.SessionEnded)
	e := endingOf(p, stopper)
	if stopper == "" {
		e = l.autopsy(e)
	}
	l.finish(ctx, e)
	failpoint.Reach(failpoint.SessionForgotten)
	if !l.out.isStoring() { // otherwise only the guest has the rest of its output
		l.forgetThere(ask)
	}
	return true
}

// endingOf converts a guest's exit record. stopper is "stopped by Ana" when somebody requested the end.
func endingOf(p guest.Process, stopper string) ending {
	e := ending{state: state.Exited, code: p.ExitCode, signal: safetext.Line(p.Signal), at: p.EndedAt}
	failed, isFailed := strings.CutPrefix(p.Reason, "start_failed")
	switch {
	case isFailed:
		e.state, e.reason = state.Failed, "could not start: "+cmp.Or(safetext.Line(strings.TrimPrefix(failed, ":")), "no reason was given")
	case p.Reason == "lost":
		e.state, e.reason = state.Lost, "the sandbox it ran in was restarted"
	case stopper != "":
		e.reason = stopper
	case p.Reason == "stopped":
		e.reason = "stopped"
	case p.Reason == "timeout":
		e.reason = "stopped because its time limit was reached"
	case e.signal == "SIGXFSZ":
		e.reason = "killed: a file would have exceeded the disk limit"
	case e.signal != "":
		e.reason = "killed by " + e.signal
	case p.ExitCode != nil:
		e.reason = fmt.Sprintf("exited with code %d", *p.ExitCode)
	default:
		e.reason = "ended"
	}
	return e
}

// finish ends the session: it closes the log to new bytes, stores the row, and notifies everybody who waits. It acts once.
func (l *live) finish(ctx context.Context, e ending) {
	l.out.mu.Lock()
	l.put(l.out.masker.Flush())
	if l.out.hold != nil {
		l.out.hold.Stop()
	}
	l.out.mu.Unlock()

	// The end must be stored even while the server is stopping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.svc.cfg.EndPatience)
	defer cancel()
	_, end := l.log.Bounds()
	now := l.svc.now()
	l.mu.Lock()
	if l.row.State.Ended() {
		l.mu.Unlock()
		return
	}
	row := l.row
	row.State, row.StateReason, row.StateAt = e.state, e.reason, now
	row.ExitCode, row.ExitSignal, row.Bytes = e.code, e.signal, end
	row.EndedAt = e.at
	if e.at < row.StartedAt || e.at > now { // the server believes a guest's clock only within reason
		row.EndedAt = now
	}
	l.row = row
	l.rec.Note(journal.State, journal.Change{State: string(row.State), Reason: row.StateReason})
	if l.recheck.timer != nil {
		l.recheck.timer.Stop()
	}
	l.mu.Unlock()

	look, over := context.WithTimeout(ctx, seekWithin/2) // a hanging sandbox must not use up the time for storing
	l.svc.findConversation(look, l)
	over()
	l.transcript.End()
	l.mu.Lock()
	row = l.row
	l.mu.Unlock()
	l.questions.End(ctx)
	late := l.out.endsLate()
	if !late {
		l.storeEnd(ctx, row)
	}
	if err := l.svc.cfg.Store.EndPrompts(ctx, l.id, "the session ended while it was being typed"); err != nil {
		l.svc.cfg.Log.Warn("prompts of an ended session could not be settled", "session_id", l.id, "error", err)
	}
	if !late {
		l.masks.Forget()
	}
	l.svc.gateway.End(ctx, l.id, l.token)
	l.svc.relay.End(l.id)
	l.masks.ClearFiles()
	l.svc.cfg.Log.Info("session ended", "session_id", l.id, "state", row.State, "bytes", row.Bytes)
	l.mu.Lock()
	l.bump()
	l.mu.Unlock()
	l.rec.Flush(true)
	l.log.Finish()
	l.log.ReleaseMemory()
	close(l.done)
	if late && l.out.takeEnd() { // the rest of its output was stored before it could know of the end
		l.storeEnd(ctx, row)
		l.masks.Forget()
	}
	l.rec.Pack()
	l.prompts.Close()
	l.svc.publish(ctx, row)
	l.svc.record(ctx, row)
}

// storeEnd stores how the session ended, now or once the store works again.
func (l *live) storeEnd(ctx context.Context, row Session) {
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		err := l.svc.cfg.Store.UpdateSession(ctx, row)
		if err == nil {
			return
		}
		if wait == 50*time.Millisecond {
			l.svc.cfg.Log.Error("end of session not stored; the server tries again until it is", "session_id", l.id, "error", err)
		}
		if !tasks.Sleep(ctx, wait) {
			l.svc.run(func() { _ = l.svc.storeLate(row) })
			return
		}
	}
}

// storeLate stores an end the store could not take, once it can. If the server stops before that, the next start finds the end
// and stores it.
func (s *Service) storeLate(row Session) (stored bool) {
	for wait := 250 * time.Millisecond; tasks.Sleep(s.hard, wait); wait = min(2*wait, 30*time.Second) {
		if err := s.cfg.Store.UpdateSession(s.hard, row); err == nil {
			s.cfg.Log.Info("end of session stored late", "session_id", row.ID)
			s.publish(s.hard, row)
			return true
		}
	}
	return false
}
