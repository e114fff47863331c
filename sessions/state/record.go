package state

import (
	"cmp"
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
)

// OfRecord turns the record's newest moment into evidence. It is weak where a question may be open that the record cannot see.
func OfRecord(m conversation.Moment) agents.Hint {
	h := agents.Hint{Source: agents.FromTranscript, At: time.UnixMilli(m.At)}
	switch m.Phase {
	case conversation.Began:
		h.Mood, h.Weak, h.Reason = agents.Busy, true, "is working on a prompt"
	case conversation.Using:
		h.Mood, h.Weak, h.Reason = agents.Busy, true, "uses "+cmp.Or(m.Words, "a tool")
	case conversation.Asked:
		h.Mood, h.Vague, h.Reason = agents.Asking, m.Words == "", cmp.Or(m.Words, "asks a question")
	case conversation.Done:
		h.Mood = agents.Ready
	case conversation.Halted:
		h.Mood, h.Reason = agents.Ready, "was interrupted"
	case conversation.Broken:
		h.Mood, h.Limit, h.Reason = agents.Trouble, m.Limit, cmp.Or(m.Words, "the last turn ended with an error")
	}
	return h
}
