package question

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/state"
)

// onScreen begins the keys of questions that are read off the screen and answered by keys.
const onScreen = "screen/"

const (
	dialogEvery = 250 * time.Millisecond  // how often to look at the screen while a question is open
	dialogGone  = 700 * time.Millisecond  // a dialog that was not seen for this long is closed, when the agent works
	dialogShut  = 1500 * time.Millisecond // and when the agent does not report that, but only the dialog showed the question
	dialogLost  = 5 * time.Second         // and otherwise: something may cover it
	pressIn     = 5 * time.Second         // for a dialog to close after its key
	comingFor   = 10 * time.Second        // an announced dialog opens within this time
)

// Watch looks at the screen of an agent that asks something, until it asks nothing any more: for questions that only the screen
// shows, and for dialogs that were answered in the terminal. It may be called at any time.
func (l *Questions) Watch() {
	if !l.board.cfg.Agents.ReadsDialogs(l.about.Agent) {
		return
	}
	l.mu.Lock()
	start := !l.watching && l.asksNow(time.Now())
	l.watching = l.watching || start
	l.mu.Unlock()
	if start && !l.board.cfg.Tasks.Go(func() { l.lookForDialogs(l.board.cfg.Context) }) {
		l.mu.Lock()
		l.watching = false
		l.mu.Unlock()
	}
}

// asksNow reports whether the agent asks something, or is about to. The caller holds the session's lock.
func (l *Questions) asksNow(now time.Time) bool {
	return !l.host.State().Ended() && (l.host.State() == state.Waiting || l.coming != nil && now.Sub(l.comingAt) < comingFor ||
		l.pendingOf(func(as *pending) bool { return as.q.State == Open }) != nil)
}

func (l *Questions) lookForDialogs(ctx context.Context) {
	var d, last *agents.Dialog
	seen := int64(-1)
	for {
		l.mu.Lock()
		busy := l.busy // before the screen: what is reported once it was read is no part of it
		l.mu.Unlock()
		if end := l.cfg.Printed(); end != seen { // otherwise the screen is unchanged
			d, seen = l.dialog(), end
		}
		l.dialogSeen(ctx, d, last, busy)
		last = d
		if !tasks.Sleep(ctx, dialogEvery) {
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
func (l *Questions) dialog() (d *agents.Dialog) {
	l.cfg.Screen(func(s *screen.Screen) { d = l.board.cfg.Agents.Dialog(l.about.Agent, s.Text().Lines) })
	return d
}

// dialogSeen compares the dialog on the screen with the open questions; busy is what was reported before the screen was read.
func (l *Questions) dialogSeen(ctx context.Context, d, last *agents.Dialog, busy busyWords) {
	now := time.Now()
	l.mu.Lock()
	known := false
	for _, as := range l.asked {
		if as.q.State != Open {
			continue
		}
		theirs := strings.HasPrefix(as.q.Key, onScreen)
		if d != nil && (!theirs || as.q.Key == d.Key) {
			as.shown, as.busy, known = now, busy, true
			if theirs && as.by == nil { // of an earlier server
				as.by = l.presser(d.Key)
			}
		} else if theirs && as.shown.IsZero() {
			as.shown = now // of an earlier server: its dialog gets the time to be seen
		}
	}
	waits := l.host.State() == state.Waiting || l.coming != nil && now.Sub(l.comingAt) < comingFor
	coming := l.coming
	l.mu.Unlock()
	l.closeQuestions(ctx, func(as *pending) bool {
		over, answered := l.dialogOver(as, now)
		if over && answered && as.there == "" {
			as.there = inTerminal
		}
		return over
	}, nil)
	// Accept a dialog only once it has stopped changing.
	if d == nil || known || !waits || last == nil || last.Key != d.Key || !answerable(d) {
		return
	}
	source, ask := AskedOnScreen, d.Ask
	if coming != nil && ask.Kind == agents.Permission {
		source = AskedByHook
		ask.Title, ask.Detail = coming.Title, coming.Detail
	}
	l.open(ctx, d.Key, source, ask, l.presser(d.Key))
	l.mu.Lock()
	if l.coming == coming {
		l.coming = nil
	}
	l.mu.Unlock()
}

// inTerminal is the answer of somebody at the terminal when it is unknown.
const inTerminal = "in the terminal"

// dialogOver reports whether the dialog of a question is closed, and whether that was because somebody answered it. The caller
// holds the session's lock.
func (l *Questions) dialogOver(as *pending, now time.Time) (over, answered bool) {
	patience := dialogLost
	theirs := strings.HasPrefix(as.q.Key, onScreen)
	if theirs {
		patience = dialogShut
	}
	if !as.shown.IsZero() {
		gone := now.Sub(as.shown)
		worked := l.busy.began != as.busy.began || l.saysBusy() && (theirs || l.busy.said-as.busy.said >= goesOn)
		return gone >= dialogGone && worked || gone >= patience, worked
	}
	// Nobody has seen the dialog, and it was answered before that: an agent that continues to work, some time after a key, has no
	// dialog open.
	since, busy, patience := l.cfg.Machine.LastInput, l.busyThen, dialogShut
	if since.UnixMilli() < as.q.AskedAt {
		since, busy, patience = as.recall, as.busy, dialogLost
	}
	worked := l.busy.began != busy.began || l.saysBusy() && l.busy.said-busy.said >= goesOn
	return !since.IsZero() && now.Sub(since) >= patience && worked, worked
}

// goesOn is how often an agent whose title showed no dialog must report that it continues to work: one such report may have been
// in flight.
const goesOn = 2

// busyWords counts the terminal's reports of an agent's work. Only the terminal reports in the order of the screen: an agent's
// record lags, and its hooks run in parallel.
type busyWords struct {
	began uint64 // how often it began to report work
	said  uint64 // how often it reported work
}

// observe takes a report of a source whose previous report was before.
func (b *busyWords) observe(h agents.Hint, before agents.Mood) {
	if h.Mood != agents.Busy {
		return
	}
	b.said++
	if before != agents.Busy {
		b.began++
	}
}

// Observe counts the terminal's reports of the agent's work. The caller holds the session's lock, and has not passed the hint to
// the state machine yet.
func (l *Questions) Observe(h agents.Hint) { l.busy.observe(h, l.cfg.Machine.Says(h.Source)) }

// Typed records that somebody pressed a key. The caller holds the session's lock.
func (l *Questions) Typed() { l.busyThen = l.busy }

// saysBusy reports whether the terminal reports that the agent works. The caller holds the session's lock.
func (l *Questions) saysBusy() bool {
	return l.cfg.Machine.Says(agents.FromTitle) == agents.Busy || l.cfg.Machine.Says(agents.FromReport) == agents.Busy
}

// answerable reports whether one key answers the dialog: not where boxes must be ticked.
func answerable(d *agents.Dialog) bool {
	for _, o := range d.Options {
		if strings.HasPrefix(o.Label, "[") || d.Press(o.ID) == "" {
			return false
		}
	}
	return true
}

// presser answers the dialog with this key by pressing keys, when exactly this dialog is on the screen.
func (l *Questions) presser(key string) handOver {
	return func(ctx context.Context, who accounts.Actor, a agents.Answer) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pressIn)
		defer cancel()
		d := l.dialog()
		if d == nil || d.Key != key {
			return fault.New(fault.Gone, "dialog_gone", "The dialog is no longer on the screen.")
		}
		if len(a.Options) != 1 || d.Press(a.Options[0].ID) == "" {
			return fault.New(fault.Invalid, "invalid_answer", "The dialog takes one of its options.")
		}
		if err := l.host.Press(ctx, []byte(d.Press(a.Options[0].ID))); err != nil {
			return err
		}
		for {
			if d := l.dialog(); d == nil || d.Key != key {
				break
			}
			if !tasks.Sleep(ctx, 50*time.Millisecond) {
				return fault.New(fault.Unavailable, "dialog_still_open", "The agent's dialog is still open.")
			}
		}
		if a.Text != "" { // a reason, for which the dialog has no field
			if err := l.host.Prompt(context.WithoutCancel(ctx), who, a.Text); err != nil {
				l.board.cfg.Log.Warn("reason of a denial could not be queued", "session_id", l.about.ID, "error", err)
			}
		}
		return nil
	}
}
