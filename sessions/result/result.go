// Package result says what came of what an agent was asked: whether it has done it, how its session ended, and what it answered. Jobs and
// subagents decide by it.
//
// It starts no goroutine and holds nothing.
package result

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/transcript"
)

const (
	lookBack = 40 // items of a conversation in which the last answer is looked for
	cutMark  = "[The beginning is left out.]\n"
)

// Conversations reads what sessions' agents recorded.
type Conversations interface {
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Answer returns the agent's last message after the last prompt of its record; recorded says whether it keeps a record.
func Answer(ctx context.Context, c Conversations, sessionID string) (text string, recorded bool) {
	page, err := c.Conversation(ctx, sessionID, conversation.Query{Limit: lookBack, Kinds: []conversation.Kind{conversation.Prompt, conversation.Text}})
	if err != nil {
		return "", false
	}
	for _, it := range slices.Backward(page.Items) {
		switch {
		case it.Parent != "": // of an agent within the agent
		case it.Kind == conversation.Prompt:
			return "", true
		case strings.TrimSpace(it.Text) != "":
			return strings.TrimSpace(it.Text), true
		}
	}
	return "", page.Record != transcript.None
}

// Bounded keeps the end of a text that has more than most bytes: agents sum up at the end.
func Bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most+len(cutMark):]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return cutMark + s
}

// Idle is an agent that waits for a prompt. Times are ms UTC.
type Idle struct {
	Now      int64
	Since    int64         // it is idle
	AskedAt  int64         // it was sent what it was last asked; 0 = not yet
	Begun    bool          // it was seen working on that
	Answered bool          // it has said something since
	Recorded bool          // it keeps a record
	Settle   time.Duration // an agent that was never seen working is idle for so long before its work counts as done
}

// Done reports whether it has done what it was asked, which an idle agent may not have begun yet.
func (i Idle) Done() bool {
	quiet, settle := i.Now-max(i.Since, i.AskedAt), i.Settle.Milliseconds()
	switch {
	case i.AskedAt == 0:
		return false
	case i.Since < i.AskedAt && quiet < settle: // it was asked just now
		return false
	case !i.Begun && !i.Answered && quiet < settle: // it has started, and not begun
		return false
	case !i.Answered && i.Recorded && quiet < settle/2: // its record is being read
		return false
	}
	return true
}

// End is how a session ended.
type End string

// The ends of sessions.
const (
	Completed End = "completed"
	Stopped   End = "stopped" // somebody stopped it
	Exited    End = "exited"  // its agent exited with another code than 0
	Gone      End = "gone"    // it failed, or was lost
)

// EndOf returns how a session ended, and in a sentence why that is no success.
func EndOf(one sessions.Session) (End, string) {
	switch {
	case one.State == state.Exited && one.ExitCode != nil && *one.ExitCode == 0:
		return Completed, ""
	case one.State == state.Exited && strings.HasPrefix(one.StateReason, "stopped"):
		return Stopped, "Its session was " + one.StateReason + "."
	case one.ExitCode != nil:
		return Exited, fmt.Sprintf("Its agent exited with code %d.", *one.ExitCode)
	}
	return Gone, "Its session ended: " + one.StateReason + "."
}
