package state

import (
	"testing"
	"time"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
)

// The record shows a tool before its permission question opens, but is read after it: it does not close the question.
func TestLateRecordClosesNoQuestion(t *testing.T) {
	t.Parallel()
	p := newPlay(t, true)
	p.from(agents.FromTitle, agents.Busy)
	p.pass(time.Second)
	called := p.now
	p.pass(100 * time.Millisecond)
	p.weak(agents.Ready) // the title looks the same for a question and for the end
	p.from(agents.FromScreen, agents.Asking)
	p.is(Waiting, "the screen shows the question")
	p.pass(time.Second)
	p.m.Observe(p.now, OfRecord(conversation.Moment{Phase: conversation.Using, Words: "Bash", At: called.UnixMilli()}))
	p.is(Waiting, "the record of the call comes late")
	p.pass(time.Minute)
	p.is(Waiting, "nobody answered")
}

func TestWhatARecordTellsTheState(t *testing.T) {
	t.Parallel()
	for phase, want := range map[conversation.Phase]agents.Mood{
		conversation.Unknown: agents.Unsaid, conversation.Compacted: agents.Unsaid, conversation.Began: agents.Busy, conversation.Using: agents.Busy,
		conversation.Asked: agents.Asking, conversation.Done: agents.Ready, conversation.Halted: agents.Ready, conversation.Broken: agents.Trouble,
	} {
		h := OfRecord(conversation.Moment{Phase: phase, Words: "the model said no", At: 5})
		if h.Mood != want || h.Source != agents.FromTranscript || !h.At.Equal(time.UnixMilli(5)) {
			t.Errorf("phase %d: %+v", phase, h)
		}
	}
}
