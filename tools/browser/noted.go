package browser

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// noted is a tool whose calls are part of the workspace's recording.
type noted struct {
	tools.Tool
	s *Service
}

// Call implements tools.Tool.
func (n noted) Call(ctx context.Context, c tools.Caller, raw json.RawMessage) (tools.Result, error) {
	r, err := n.Tool.Call(ctx, c, raw)
	var a struct{ Ref, URL, Key, Name string }
	_ = json.Unmarshal(raw, &a) // the text that is typed is not among them: it may be a password
	if utf8.RuneCountInString(strings.TrimPrefix(strings.ToLower(a.Key), "shift+")) == 1 {
		a.Key = "" // nor when it is typed key by key
	}
	did := action{Tool: strings.TrimPrefix(n.Spec().Name, "browser_"), Target: strings.TrimSpace(a.Ref + " " + a.URL + a.Key + a.Name)}
	if err != nil {
		did.Error = fault.CodeOf(err)
	}
	n.s.mu.Lock()
	screen := n.s.screens[c.WorkspaceID]
	n.s.mu.Unlock()
	if screen != nil && n.s.check(ctx, c.TeamID, c.WorkspaceID) == nil {
		screen.note(did)
	}
	return r, err
}

// awaitControl waits until agents may use the browser again, and reports whether somebody had taken over.
func (s *Service) awaitControl(ctx context.Context, c tools.Caller, deadline time.Time) (waited bool, err error) {
	if err := s.check(ctx, c.TeamID, c.WorkspaceID); err != nil {
		return false, err
	}
	s.mu.Lock()
	screen := s.screens[c.WorkspaceID]
	s.mu.Unlock()
	if screen == nil || c.SessionID == "" {
		return false, nil
	}
	taken := screen.lock.Agent()
	if taken == nil {
		return false, nil
	}
	until, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if screen.lock.Await(until) != nil {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		return true, taken
	}
	return true, nil
}

func (s *Service) recordTool(ctx context.Context, c tools.Caller, a struct {
	Do string `json:"do"`
}) (tools.Result, error) {
	if err := s.check(ctx, c.TeamID, c.WorkspaceID); err != nil {
		return tools.Result{}, err
	}
	b, err := s.browserOf(ctx, c.WorkspaceID, false)
	if err != nil {
		return tools.Result{}, err
	}
	if err := b.screen.record(ctx, c.TeamID, c.SessionID, c.UserID, a.Do == "start"); err != nil {
		return tools.Result{}, err
	}
	text := "The browser is being recorded."
	if a.Do != "start" {
		text = "The recording has ended, and is saved as an artifact in a moment."
	}
	return tools.Answer(text, map[string]bool{"recording": a.Do == "start"})
}
