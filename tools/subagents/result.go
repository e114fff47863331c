package subagents

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/result"
)

const tailOfEnd = 200 // lines of a terminal that stand for an answer

// result is what a session's agent has to say now: the last message of its own record since it was last asked, otherwise the end of its
// terminal. said is true when it is such a message; recorded says whether it keeps a record.
func (s *Service) result(ctx context.Context, a Subagent, one sessions.Session) (text string, said, recorded bool) {
	if a.Agent != agents.Command {
		if text, recorded = result.Answer(ctx, s.cfg.Sessions, a.SessionID); text != "" {
			return result.Bounded(s.masked(ctx, a.TeamID, text), MaxResult), true, recorded
		}
	}
	shown, tail, err := s.cfg.Screens.Screen(ctx, a.SessionID, tailOfEnd)
	if err != nil {
		return "", false, recorded
	}
	if len(tail) == 0 {
		tail = shown.Lines
	}
	text = strings.TrimSpace(strings.Join(tail, "\n"))
	if a.Agent == agents.Command && one.ExitCode != nil {
		text = strings.TrimSpace(fmt.Sprintf("Exit code %d.\n%s", *one.ExitCode, text))
	}
	return result.Bounded(s.masked(ctx, a.TeamID, text), MaxResult), false, recorded
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
