package subagents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
)

const (
	lookBack   = 40  // items of a conversation in which the last answer is looked for
	tailOfEnd  = 200 // lines of a terminal that stand for an answer
	resultMark = "[The beginning is left out.]\n"
)

// result is what a session's agent has to say now: the last message of its own record since it was last asked, otherwise the end of its
// terminal. said is true when it is such a message.
func (s *Service) result(ctx context.Context, a Subagent, one sessions.Session) (text string, said bool) {
	if a.Agent != agents.Command {
		if text = s.lastMessage(ctx, a); text != "" {
			return bounded(s.masked(ctx, a.TeamID, text)), true
		}
	}
	shown, tail, err := s.cfg.Screens.Screen(ctx, a.SessionID, tailOfEnd)
	if err != nil {
		return "", false
	}
	if len(tail) == 0 {
		tail = shown.Lines
	}
	text = strings.TrimSpace(strings.Join(tail, "\n"))
	if a.Agent == agents.Command && one.ExitCode != nil {
		text = strings.TrimSpace(fmt.Sprintf("Exit code %d.\n%s", *one.ExitCode, text))
	}
	return bounded(s.masked(ctx, a.TeamID, text)), false
}

// lastMessage is the agent's last message after the last prompt of its record.
func (s *Service) lastMessage(ctx context.Context, a Subagent) string {
	page, err := s.cfg.Sessions.Conversation(ctx, a.SessionID, conversation.Query{Limit: lookBack, Kinds: []conversation.Kind{conversation.Prompt, conversation.Text}})
	if err != nil {
		return ""
	}
	for _, it := range slices.Backward(page.Items) {
		switch {
		case it.Parent != "": // of an agent within the agent
		case it.Kind == conversation.Prompt:
			return ""
		case strings.TrimSpace(it.Text) != "":
			return strings.TrimSpace(it.Text)
		}
	}
	return ""
}

// records reports whether the session's agent writes a record that the server reads.
func (s *Service) records(ctx context.Context, a Subagent) bool {
	page, err := s.cfg.Sessions.Conversation(ctx, a.SessionID, conversation.Query{Limit: 1})
	return err == nil && page.Record != transcript.None
}

// bounded keeps the end of a text that is too long: agents sum up at the end.
func bounded(s string) string {
	if len(s) <= MaxResult {
		return s
	}
	s = s[len(s)-MaxResult+len(resultMark):]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return resultMark + s
}

// duration is a time in words.
func duration(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}

// lower begins a sentence in the middle of another one.
func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
