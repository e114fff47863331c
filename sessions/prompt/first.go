package prompt

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// pasteQuiet is how long the screen must be quiet before a prompt is pasted, and pasteWait the longest wait for that.
const (
	pasteQuiet = 500 * time.Millisecond
	pasteWait  = 30 * time.Second
	pasteEnter = 100 * time.Millisecond // agents take an Enter that follows a paste directly for a part of it
)

// Deliver queues the initial prompt once the program has drawn its screen and fallen silent: from there it is typed like any
// other, once.
func (s *Session) Deliver(ctx context.Context, prompt string) {
	s.delivers(true)
	defer s.Look()
	defer s.delivers(false)
	began := time.Now()
	for {
		if !tasks.Sleep(ctx, 50*time.Millisecond) {
			return
		}
		s.mu.Lock()
		last, ended := s.cfg.Machine.LastOut, s.host.Row().State.Ended()
		s.mu.Unlock()
		if ended {
			return
		}
		if !last.IsZero() && time.Since(last) >= pasteQuiet || time.Since(began) >= pasteWait {
			break
		}
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, err := s.queue.cfg.Store.AddPrompt(ctx, Prompt{ID: id.New("prm"), TeamID: s.about.TeamID, WorkspaceID: s.about.WorkspaceID, SessionID: s.about.ID,
			Text: prompt, State: Queued, Urgent: true, CreatedBy: s.about.CreatedBy, CreatedAt: s.queue.now()}, math.MaxInt)
		if err == nil {
			return
		}
		if !tasks.Sleep(ctx, wait) {
			return // the next server delivers it
		}
		s.queue.cfg.Log.Warn("first prompt could not be queued", "session_id", s.about.ID, "error", err)
	}
}

// pasted encodes a prompt as a terminal sends a paste. It omits control characters, which could end the paste or press keys.
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
