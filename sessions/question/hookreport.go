package question

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

// hookReport takes a report of a hook of the agent.
func (l *Questions) hookReport(ctx context.Context, h agents.HookReport) {
	if h.Conversation != "" {
		if err := l.host.Claim(ctx, h.Conversation); err != nil {
			l.board.cfg.Log.Warn("conversation not claimed", "session_id", l.about.ID, "error", err)
		}
	}
	if h.OverSoon && l.asksStill() {
		h.OverSoon = false
		l.board.cfg.Tasks.After(overSoon, func() { l.hookReport(l.board.cfg.Context, h) })
		return
	}
	if h.Over != nil {
		wait, cancel := context.WithTimeout(ctx, hookAnswerIn)
		l.hookOver(wait, h.Over)
		cancel()
	}
	l.mu.Lock()
	if h.Coming != nil {
		l.coming, l.comingAt = h.Coming, time.Now()
	}
	// Hooks that run in parallel with the agent report in any order: ignore an older report after a newer one. While a question
	// is open, the question decides.
	late := h.Hint.At.Before(l.hookAt)
	if !late && h.Hint.Mood != agents.Unsaid {
		l.hookAt = h.Hint.At
	}
	open := l.Oldest() != nil
	l.mu.Unlock()
	if h.Coming != nil {
		l.Watch()
	}
	if h.Hint.Mood != agents.Unsaid && !late && !open {
		l.host.Observe(h.Hint)
	}
}

func (l *Questions) asksStill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Oldest() != nil
}

// hookOver closes the questions that a hook shows to be over.
func (l *Questions) hookOver(ctx context.Context, notify func(key string) (bool, string)) {
	l.closeQuestions(ctx, func(as *pending) bool {
		key, _, _ := strings.Cut(as.q.Key, "#")
		if strings.HasPrefix(key, onScreen) {
			return false // the screen reports these
		}
		over, answer := notify(key)
		if over {
			as.there = answer
		}
		return over
	}, nil)
}
