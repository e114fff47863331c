package sessions

import (
	"cmp"
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// typed records that a person types p: v, or nil for the API. It fails when somebody else holds the keyboard. It ignores mouse
// and focus reports: looking at a question is not answering it.
func (l *live) typed(ctx context.Context, v *Viewer, user string, p []byte) error {
	if !prompt.IsMouseReport(p) {
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
	if prompt.IsMouseReport(p) {
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
