package sessions

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/screen"
)

// onScreen begins the keys of questions that are read off the screen and answered by keys.
const onScreen = "screen/"

const (
	dialogEvery = 250 * time.Millisecond  // how often the screen is looked at while a question is open
	dialogGone  = 700 * time.Millisecond  // a dialog that was not seen for so long is closed, when the agent works
	dialogShut  = 1500 * time.Millisecond // and when it does not say so, but nothing else than the dialog told of the question
	dialogLost  = 5 * time.Second         // and else: something may lie over it
	pressIn     = 5 * time.Second         // for a dialog to close after its key
	comingFor   = 10 * time.Second        // a dialog that was announced opens within this
)

// watchDialog looks at the screen of an agent that asks something, until it asks nothing any more: for questions that only the
// screen shows, and for dialogs that were answered in the terminal. It may be called any time.
func (l *live) watchDialog() {
	if !l.svc.cfg.Agents.ReadsDialogs(l.agent()) {
		return
	}
	l.mu.Lock()
	start := !l.watching && l.asksNow(time.Now())
	l.watching = l.watching || start
	l.mu.Unlock()
	if start && !l.svc.run(func() { l.lookForDialogs(l.svc.hard) }) {
		l.mu.Lock()
		l.watching = false
		l.mu.Unlock()
	}
}

// asksNow reports whether the agent asks something, or is about to. It is called under mu.
func (l *live) asksNow(now time.Time) bool {
	return !l.row.State.Ended() && (l.row.State == Waiting || l.coming != nil && now.Sub(l.comingAt) < comingFor ||
		l.posedOf(func(as *posed) bool { return as.q.State == QuestionOpen }) != nil)
}

func (l *live) lookForDialogs(ctx context.Context) {
	var d, last *agents.Dialog
	seen := int64(-1)
	for {
		if _, end := l.log.Bounds(); end != seen { // else the screen is the same
			d, seen = l.dialog(), end
		}
		l.dialogSeen(ctx, d, last)
		last = d
		if !sleep(ctx, dialogEvery) {
			return
		}
		l.mu.Lock()
		if !l.asksNow(time.Now()) {
			l.watching = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// dialog reads the dialog on the screen, nil when there is none.
func (l *live) dialog() (d *agents.Dialog) {
	l.view(func(s *screen.Screen) { d = l.svc.cfg.Agents.Dialog(l.agent(), s.Text().Lines) })
	return d
}

// dialogSeen compares the dialog on the screen with the open questions.
func (l *live) dialogSeen(ctx context.Context, d, last *agents.Dialog) {
	now := time.Now()
	l.mu.Lock()
	known := false
	for _, as := range l.asked {
		if as.q.State != QuestionOpen {
			continue
		}
		theirs := strings.HasPrefix(as.q.Key, onScreen)
		if d != nil && (!theirs || as.q.Key == d.Key) {
			as.shown, as.busy, known = now, l.steering.busy, true
			if theirs && as.by == nil { // of an earlier server
				as.by = l.presser(d.Key)
			}
		} else if theirs && as.shown.IsZero() {
			as.shown = now // of an earlier server: its dialog gets the time to be seen
		}
	}
	waits := l.row.State == Waiting || l.coming != nil && now.Sub(l.comingAt) < comingFor
	coming := l.coming
	l.mu.Unlock()
	l.closeQuestions(ctx, func(as *posed) bool {
		patience := dialogLost
		if strings.HasPrefix(as.q.Key, onScreen) {
			patience = dialogShut
		}
		works := l.worked(as.busy)
		if typed := l.machine.lastInput; as.shown.IsZero() && works && typed.UnixMilli() >= as.q.AskedAt && now.Sub(typed) >= dialogShut {
			as.shown = typed // answered before anybody looked at the screen
		}
		switch gone := now.Sub(as.shown); {
		case as.shown.IsZero(), gone < dialogGone, !works && gone < patience:
			return false
		case works && as.there == "":
			as.there = inTerminal
		}
		return true
	}, nil)
	// A dialog is taken up once it stands still.
	if d == nil || known || !waits || last == nil || last.Key != d.Key || !answerable(d) {
		return
	}
	source, ask := AskedOnScreen, d.Ask
	if coming != nil && ask.Kind == agents.Permission {
		source = AskedByHook
		ask.Title, ask.Detail = coming.Title, coming.Detail
	}
	l.pose(ctx, d.Key, source, ask, l.presser(d.Key))
	l.mu.Lock()
	if l.coming == coming {
		l.coming = nil
	}
	l.mu.Unlock()
}

// inTerminal is the answer of somebody at the terminal when nothing tells what it was.
const inTerminal = "in the terminal"

// worked reports whether the terminal says that the agent works, or has worked since the count of that was busy. It is called
// under mu.
func (l *live) worked(busy uint64) bool {
	return l.steering.busy != busy || l.machine.words[agents.FromTitle].mood == agents.Busy || l.machine.words[agents.FromReport].mood == agents.Busy
}

// answerable reports whether one key answers the dialog: not where boxes are ticked.
func answerable(d *agents.Dialog) bool {
	for _, o := range d.Options {
		if strings.HasPrefix(o.Label, "[") || d.Press(o.ID) == "" {
			return false
		}
	}
	return true
}

// presser answers the dialog with this key by pressing keys, when exactly it is on the screen.
func (l *live) presser(key string) handOver {
	return func(ctx context.Context, who accounts.Actor, a agents.Answer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pressIn)
		defer cancel()
		d := l.dialog()
		if d == nil || d.Key != key {
			return fault.New(fault.Gone, "dialog_gone", "The dialog is not on the screen any more.")
		}
		if len(a.Options) != 1 || d.Press(a.Options[0].ID) == "" {
			return fault.New(fault.Invalid, "invalid_answer", "The dialog takes one of its options.")
		}
		if err := l.send(ctx, []byte(d.Press(a.Options[0].ID))); err != nil {
			return err
		}
		for {
			if d := l.dialog(); d == nil || d.Key != key {
				break
			}
			if !sleep(ctx, 50*time.Millisecond) {
				return fault.New(fault.Unavailable, "dialog_stays", "The agent's dialog is still open.")
			}
		}
		if a.Text != "" { // a reason, which the dialog has no room for
			if _, err := l.svc.AddPrompt(context.WithoutCancel(ctx), who, l.id, NewPrompt{Text: a.Text, Now: true}); err != nil {
				l.svc.cfg.Log.Warn("reason of a denial not queued", "session_id", l.id, "error", err)
			}
		}
		return nil
	}
}
