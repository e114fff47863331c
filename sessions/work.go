package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// The processes of a session are looked at only while its state depends on it: when something that should move is silent.
const (
	lookWait = 5 * time.Second // for an answer
)

// watchWork plans the next look at the processes. It is called under mu.
func (l *live) watchWork() {
	at := l.machine.NextLook(time.Now())
	if at.IsZero() || l.looks.blind || l.guest == nil || l.looks.process != nil && !at.Before(l.looks.processAt.Add(-50*time.Millisecond)) {
		return
	}
	if l.looks.process != nil {
		l.looks.process.Stop()
	}
	l.looks.processAt = at
	var mine *time.Timer
	mine = l.svc.after(max(time.Until(at), 0), func() {
		l.lookAtWork(l.svc.hard)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.looks.process == mine { // else an earlier look was planned meanwhile
			l.looks.process = nil
		}
		l.judge()
	})
	l.looks.process = mine
}

// lookAtWork asks the guest what the processes of the session do, if that still matters.
func (l *live) lookAtWork(ctx context.Context) {
	l.mu.Lock()
	g, at := l.guest, l.machine.NextLook(time.Now())
	over := l.row.State.Ended()
	l.mu.Unlock()
	if over || at.IsZero() || time.Until(at) > 0 {
		return // something happened meanwhile: judge plans anew
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	w, err := g.Work(ctx, l.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.machine.Worked(time.Now(), w)
	case fault.Is(err, fault.NotFound), fault.CodeOf(err) == "guest_wrong_answer": // it ended, or its guest is of an older build
		l.looks.blind = true
	default:
		l.machine.LookFailed(time.Now())
	}
}
