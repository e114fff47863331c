package sessions

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/state"
)

// typed notes that a person types p: v, or nil for the API. It refuses when somebody else holds the keyboard. What only tells of
// the mouse or the focus passes unnoticed: to look at a question is not to answer it.
func (l *live) typed(ctx context.Context, v *Viewer, user string, p []byte) error {
	if !gesture(p) {
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
	if gesture(p) {
		return nil
	}
	now := time.Now()
	l.machine.Input(now)
	l.questions.Typed()
	if v != nil {
		// Who types is told at the first key and again while it goes on: not with every key.
		if l.typist != v || now.Sub(v.typingAt) > typingFor/2 {
			l.typist, v.typingAt = v, now
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
	l.pressed([]byte(text))
	return l.send(ctx, []byte(text))
}

func notRunning(row Session) error {
	if !row.State.Ended() {
		return fault.New(fault.Unavailable, "session_not_ready", "The session is being taken up again. Try again in a moment.")
	}
	return fault.New(fault.Conflict, "session_not_running", "The session has ended: %s. Resume it to go on.", cmp.Or(row.StateReason, string(row.State)))
}

// pasteQuiet says when the screen is quiet enough to paste a prompt, and how long to wait for that at most.
const (
	pasteQuiet = 500 * time.Millisecond
	pasteWait  = 30 * time.Second
	pasteEnter = 100 * time.Millisecond // agents take an Enter glued to a paste for a part of it
)

// deliver queues the initial prompt once the program has drawn its screen and fallen silent: from there it is typed like any
// other, once.
func (l *live) deliver(ctx context.Context, prompt string) {
	l.delivers(true)
	defer l.svc.steerOn(l)
	defer l.delivers(false)
	began := time.Now()
	for {
		if !tasks.Sleep(ctx, 50*time.Millisecond) {
			return
		}
		l.mu.Lock()
		last, ended := l.machine.LastOut, l.row.State.Ended()
		l.mu.Unlock()
		if ended {
			return
		}
		if !last.IsZero() && time.Since(last) >= pasteQuiet || time.Since(began) >= pasteWait {
			break
		}
	}
	row := l.snapshot()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, err := l.svc.cfg.Store.AddPrompt(ctx, Prompt{ID: id.New("prm"), TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, SessionID: row.ID,
			Text: prompt, State: PromptQueued, Urgent: true, CreatedBy: row.CreatedBy, CreatedAt: l.svc.now()}, math.MaxInt)
		if err == nil {
			return
		}
		if !tasks.Sleep(ctx, wait) {
			return // the next server delivers it
		}
		l.svc.cfg.Log.Warn("first prompt not queued", "session_id", l.id, "error", err)
	}
}

// pasted turns a prompt into what a terminal sends for a paste. Control characters, which could end the paste or press keys,
// are left out.
func pasted(prompt string, bracketed bool) []byte {
	prompt = strings.ReplaceAll(prompt, "\r\n", "\n")
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r':
			return '\r'
		case r == '\t' || r >= 0x20 && r != 0x7f && (r < 0x80 || r > 0x9f):
			return r
		}
		return -1
	}, prompt)
	text = strings.TrimRight(text, "\r")
	if bracketed {
		return []byte("\x1b[200~" + text + "\x1b[201~")
	}
	return []byte(text)
}
