package sessions

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/state"
)

// typed records that a person types p: v, or nil for the API. It fails when somebody else holds the keyboard. It ignores mouse
// and focus reports: looking at a question is not answering it.
func (l *live) typed(ctx context.Context, v *Viewer, user string, p []byte) error {
	if !isMouseReport(p) {
		l.mu.Lock()
		err := l.allows(user)
		l.mu.Unlock()
		if err == nil {
			err = l.awake(ctx)
		}
		if err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.allows(user); err != nil {
		return err
	}
	if isMouseReport(p) {
		return nil
	}
	now := time.Now()
	l.machine.Input(now)
	l.questions.Typed()
	if v != nil {
		// Report the writer at the first key and at intervals while the typing continues, not with every key.
		if l.seats.typist != v || now.Sub(v.typingAt) > typingFor/2 {
			l.seats.typist, v.typingAt = v, now
			l.bump()
		}
	}
	if l.row.State == state.Waiting {
		l.watchScreen() // a key that shows nothing may answer nothing
	}
	l.judge()
	return nil
}

// Input types text into a running session, as a person at its terminal would: "\r" is the Enter key. Errors: not_found,
// session_not_running, input_too_large, keyboard_held, session_unreachable.
func (s *Service) Input(ctx context.Context, actor accounts.Actor, id, text string) error {
	if len(text) > guest.MaxInput {
		return fault.New(fault.TooLarge, "input_too_large", "At most 1 MiB can be typed at once.")
	}
	l, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer s.release(l)
	if row := l.snapshot(); row.State.Ended() {
		return notRunning(row)
	}
	if err := l.typed(ctx, nil, actor.User.ID, []byte(text)); err != nil {
		return err
	}
	l.rec.NoteKeys(actor.User.ID, safetext.Cut(safetext.Line(actor.User.Name), 64), len(text))
	l.prompts.Pressed([]byte(text))
	return l.prompts.Send(ctx, []byte(text))
}

func notRunning(row Session) error {
	if !row.State.Ended() {
		return fault.New(fault.Unavailable, "session_not_ready", "The server is reconnecting to the session. Try again in a moment.")
	}
	return fault.New(fault.Conflict, "session_not_running", "The session has ended: %s. Resume it to continue.", cmp.Or(row.StateReason, string(row.State)))
}

// isMouseReport reports whether p consists only of a terminal's mouse and focus reports: nobody typed it.
func isMouseReport(p []byte) bool {
	if len(p) < 3 {
		return false
	}
	for len(p) > 0 {
		rest, ok := bytes.CutPrefix(p, []byte("\x1b["))
		if !ok || len(rest) == 0 {
			return false
		}
		switch rest[0] {
		case 'I', 'O': // focus gained or lost
			p = rest[1:]
		case 'M': // a button, and two coordinates
			if len(rest) < 4 {
				return false
			}
			p = rest[4:]
		case '<':
			end := bytes.IndexAny(rest, "Mm")
			if end < 0 || len(bytes.Trim(rest[1:end], "0123456789;")) > 0 {
				return false
			}
			p = rest[end+1:]
		default:
			return false
		}
	}
	return true
}
