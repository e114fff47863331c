package sessions

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/journal"
)

// Control is an action on the keyboard of a terminal.
type Control string

// The actions. As long as nobody holds the keyboard, everybody who may type can type.
const (
	Hold    Control = "hold"    // take it exclusively; a viewer with that right takes it from its holder
	Release Control = "release" // return it to everybody
	Ask     Control = "ask"     // ask the holder for it
	Unask   Control = "unask"   // withdraw the request
	Give    Control = "give"    // hand it to another viewer
	Decline Control = "decline" // refuse a request
)

// maxAsking is how many may ask at once.
const maxAsking = 20

// typingFor is how long a person who pressed a key is shown as typing.
const typingFor = 3 * time.Second

// keyboard records who may type into a terminal now: everybody with the right, or the one person who holds it. It belongs to a
// user rather than a screen, so that a reload does not lose it. live.mu guards all of it.
type keyboard struct {
	holder string // user id, "" = nobody holds it
	name   string // the holder's
	since  int64  // ms UTC
	asking []asking
	free   *time.Timer // releases it when the holder has left
}

// asking is a person who asks the holder for the keyboard.
type asking struct {
	User string `json:"user_id"`
	Name string `json:"name"`
	At   int64  `json:"at"`
}

func (k *keyboard) stop() {
	if k.free != nil {
		k.free.Stop()
		k.free = nil
	}
}

// errHeld rejects an action that only the holder may do.
func (k *keyboard) errHeld() error {
	return fault.New(fault.Conflict, "keyboard_held", "%s holds the keyboard of this terminal. Ask for it.", k.name).
		With("user_id", k.holder).With("name", k.name)
}

// allows reports whether a user may type now. The caller holds mu.
func (l *live) allows(user string) error {
	if k := &l.held; k.holder != "" && k.holder != user {
		return k.errHeld()
	}
	return nil
}

// Control performs an action on the keyboard. to names a user, for Give and Decline. Errors: read_only, keyboard_held,
// keyboard_not_held, session_not_running, not_watching, too_many_keyboard_requests, invalid_control.
func (v *Viewer) Control(_ context.Context, do Control, to string) error {
	if !v.writer {
		return fault.New(fault.Forbidden, "read_only", "You watch this session as a viewer and cannot type in it.")
	}
	l := v.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.closed || l.row.State.Ended() {
		return fault.New(fault.Conflict, "session_not_running", "The session has ended: it takes no more input.")
	}
	k := &l.held
	mine := k.holder != "" && k.holder == v.user
	switch do {
	case Hold:
		if k.holder != "" && !mine && !v.takes {
			return k.errHeld()
		}
		if !mine {
			l.handTo(v.user, v.name)
		}
	case Release:
		if !mine {
			return errNotHeld()
		}
		l.handTo("", "")
	case Ask:
		return l.ask(v)
	case Unask:
		l.unask(v.user)
	case Give, Decline:
		if !mine {
			return errNotHeld()
		}
		if do == Decline {
			l.noteControl("decline", to, "")
			l.unask(to)
			break
		}
		name, here := l.seats.writerNamed(to)
		if !here {
			return fault.New(fault.NotFound, "not_watching", "They are not at this terminal any more, or may not type in it.")
		}
		l.handTo(to, name)
	default:
		return fault.New(fault.Invalid, "invalid_control", "%q is not a keyboard action.", safetext.Cut(safetext.Line(string(do)), 40))
	}
	return nil
}

func errNotHeld() error {
	return fault.New(fault.Conflict, "keyboard_not_held", "You do not hold the keyboard of this terminal.")
}

// ask adds v to those who ask; where nobody holds the keyboard there is nothing to ask for. The caller holds mu.
func (l *live) ask(v *Viewer) error {
	k := &l.held
	if k.holder == "" || k.holder == v.user {
		return nil
	}
	if slices.ContainsFunc(k.asking, func(a asking) bool { return a.User == v.user }) {
		return nil
	}
	if len(k.asking) >= maxAsking {
		return fault.New(fault.Conflict, "too_many_keyboard_requests", "%d people already ask for the keyboard. Try again later.", maxAsking)
	}
	k.asking = append(k.asking, asking{User: v.user, Name: v.name, At: l.svc.now()})
	l.noteControl("ask", v.user, v.name)
	l.bump()
	return nil
}

// unask withdraws a user's request. The caller holds mu.
func (l *live) unask(user string) {
	k := &l.held
	before := len(k.asking)
	k.asking = slices.DeleteFunc(k.asking, func(a asking) bool { return a.User == user })
	if len(k.asking) != before {
		l.bump()
	}
}

// handTo makes a user the holder, or nobody. The caller holds mu.
func (l *live) handTo(user, name string) {
	k := &l.held
	k.stop()
	k.holder, k.name, k.since = user, name, l.svc.now()
	k.asking = slices.DeleteFunc(k.asking, func(a asking) bool { return a.User == user || user == "" })
	if user == "" {
		l.noteControl("release", user, name)
	} else {
		l.noteControl("hold", user, name)
	}
	l.bump()
	l.svc.stirred(l)
}

// writerNamed finds a viewer of a user who may type. The caller holds mu.
func (s *seats) writerNamed(user string) (name string, ok bool) {
	for v := range s.viewers {
		if v.writer && v.user == user && user != "" {
			return v.name, true
		}
	}
	return "", false
}

// leftKeyboard releases the keyboard, after a while, when the last screen of its holder has gone, and withdraws the request of a
// person who left. The caller holds mu and has removed the viewer.
func (l *live) leftKeyboard(v *Viewer) {
	k := &l.held
	if _, here := l.seats.writerNamed(v.user); here {
		return
	}
	l.unask(v.user)
	if k.holder != v.user || k.holder == "" {
		return
	}
	k.stop()
	k.free = l.svc.after(l.svc.cfg.SizeHold, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, back := l.seats.writerNamed(k.holder); back || k.holder == "" {
			return
		}
		l.handTo("", "")
	})
}

// backAtKeyboard keeps the keyboard for a holder who came back. The caller holds mu.
func (l *live) backAtKeyboard(v *Viewer) {
	if l.held.holder != "" && l.held.holder == v.user && v.writer {
		l.held.stop()
	}
}

// noteControl adds the action to the record of the session.
func (l *live) noteControl(do, user, name string) {
	l.rec.Note(journal.Control, controlNote{Do: do, UserID: user, Name: name})
}

// controlNote is the journal entry of a keyboard action.
type controlNote struct {
	Do     string `json:"do"` // hold, release, ask, decline
	UserID string `json:"user_id,omitempty"`
	Name   string `json:"name,omitempty"`
}

// watchers are the people at the terminal, in the order they came. The caller holds mu.
func (l *live) watchers() []Watcher {
	if len(l.seats.viewers) == 0 {
		return nil
	}
	all := make([]*Viewer, 0, len(l.seats.viewers))
	for v := range l.seats.viewers {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b *Viewer) int { return cmp.Compare(a.num, b.num) })
	var out []Watcher
	at := make(map[string]int, len(all))
	for _, v := range all {
		i, known := at[v.user]
		if !known {
			if len(out) == maxListed {
				continue
			}
			i = len(out)
			at[v.user] = i
			out = append(out, Watcher{UserID: v.user, Name: v.name, Guest: v.guest, Holds: l.held.holder != "" && l.held.holder == v.user})
		}
		out[i].Screens++
		out[i].Writer = out[i].Writer || v.writer
	}
	return out
}

// together adds the people who watch another session of the workspace: each person once.
func together(all, more []Watcher) []Watcher {
	for _, w := range more {
		i := slices.IndexFunc(all, func(o Watcher) bool { return o.UserID == w.UserID })
		switch {
		case i >= 0:
			all[i].Screens += w.Screens
			all[i].Writer, all[i].Holds = all[i].Writer || w.Writer, all[i].Holds || w.Holds
		case len(all) < maxListed:
			all = append(all, w)
		}
	}
	return all
}
