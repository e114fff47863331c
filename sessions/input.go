package sessions

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

const (
	inputPiece = 64 << 10 // bytes of one numbered frame
	inputTries = 4
)

// typer carries input to the process: one numbered stream a session, opened at the first key and again after a cut. The guest
// ignores a number it has seen, so a frame that is sent again is never typed twice.
type typer struct {
	turn chan struct{} // holds one token: who has it may write
	seq  uint64
	in   *client.Input
}

// newTyper begins to number at first, which must grow with every restart of the server: the time in nanoseconds does.
func newTyper(first uint64) typer {
	t := typer{turn: make(chan struct{}, 1), seq: first}
	t.turn <- struct{}{}
	return t
}

func (t *typer) close() {
	select {
	case <-t.turn:
		t.drop()
		t.turn <- struct{}{}
	default: // somebody writes: the stream ends with the room's context
	}
}

func (t *typer) drop() {
	if t.in != nil {
		_ = t.in.Close()
		t.in = nil
	}
}

// send types p. Several callers take turns; each p arrives in one piece.
func (l *live) send(ctx context.Context, p []byte) error {
	select {
	case <-l.typer.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.typer.turn <- struct{}{} }()
	for len(p) > 0 {
		n := min(len(p), inputPiece)
		if err := l.sendPiece(ctx, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (l *live) sendPiece(ctx context.Context, p []byte) error {
	l.typer.seq++
	var last error
	for try := range inputTries {
		if try > 0 && !sleep(ctx, 50*time.Millisecond<<try) {
			return ctx.Err()
		}
		l.mu.Lock()
		g, ended := l.guest, l.row.State.Ended()
		row := l.row
		l.mu.Unlock()
		if ended || g == nil {
			return notRunning(row)
		}
		if l.typer.in == nil {
			in, err := g.Input(l.svc.hard, l.id)
			if err != nil {
				if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Gone) {
					return err
				}
				last = err
				continue
			}
			l.typer.in = in
		}
		err := l.typer.in.Write(l.typer.seq, p)
		if err == nil {
			return nil
		}
		l.typer.drop()
		last = err
	}
	return fault.Wrap(last, fault.Unavailable, "session_unreachable", "What you typed did not reach the session: the place it runs in cannot be reached now.")
}

// typed notes that a person typed: v, or nil for the API.
func (l *live) typed(v *Viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machine.input(time.Now())
	if v != nil && l.typist != v {
		l.typist = v
		l.bump()
	}
	l.judge()
}

// Input types text into a running session, as a person at its terminal would: "\r" is the Enter key. Errors: not_found,
// session_not_running, input_too_large, session_unreachable.
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
	l.typed(nil)
	return l.send(ctx, []byte(text))
}

func notRunning(row Session) error {
	if !row.State.Ended() {
		return fault.New(fault.Unavailable, "session_not_ready", "The session is being taken up again. Try again in a moment.")
	}
	return fault.New(fault.Conflict, "session_not_running", "The session has ended: %s. Resume it to go on.", or(row.StateReason, string(row.State)))
}

// pasteQuiet says when the screen is quiet enough to paste a prompt, and how long to wait for that at most.
const (
	pasteQuiet = 500 * time.Millisecond
	pasteWait  = 30 * time.Second
	pasteEnter = 100 * time.Millisecond // agents take an Enter glued to a paste for a part of it
)

// deliver pastes the initial prompt once the program has drawn its screen and fallen silent, and notes when.
func (l *live) deliver(ctx context.Context, prompt string) {
	began := time.Now()
	for {
		if !sleep(ctx, 50*time.Millisecond) {
			return
		}
		l.mu.Lock()
		last, ended := l.machine.lastOut, l.row.State.Ended()
		l.mu.Unlock()
		if ended {
			return
		}
		if !last.IsZero() && time.Since(last) >= pasteQuiet || time.Since(began) >= pasteWait {
			break
		}
	}
	l.outMu.Lock()
	bracketed := l.scan.paste
	l.outMu.Unlock()
	if err := l.send(ctx, pasted(prompt, bracketed)); err != nil {
		l.svc.cfg.Log.Warn("prompt not delivered", "session_id", l.id, "error", err)
		return
	}
	if !sleep(ctx, pasteEnter) {
		return
	}
	if err := l.send(ctx, []byte("\r")); err != nil {
		l.svc.cfg.Log.Warn("prompt not submitted", "session_id", l.id, "error", err)
		return
	}
	l.mu.Lock()
	l.row.PromptSentAt = l.svc.now()
	l.mu.Unlock()
	l.svc.touch(l)
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
