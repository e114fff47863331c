package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions/toolrelay"
)

// Whoever follows late is sent what there is and then each piece once, in order; a prompt that joins is seen while the model answers.
func TestFollowers(t *testing.T) {
	h := newHarness(t)
	pieces := make(chan string)
	h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		var all string
		for p := range pieces {
			all += p
			say(providers.Event{Kind: providers.TextDelta, Text: p})
		}
		say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.Text, Text: all}})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn})
		return nil
	}, says("And two."))
	th := h.open(agent.Options{})
	h.send(th.ID, "One.")
	pieces <- "It is"
	pieces <- " gr"
	h.until(th.ID, func(v *view) bool { return v.text == "It is gr" })

	ctx, cancel := context.WithTimeout(h.ctx, patient)
	defer cancel()
	var v view
	texts := map[string]string{}
	joined := false
	err := h.svc.Follow(ctx, th.ID, 0, func(u agent.Update) error {
		v.add(u)
		if d := u.Delta; d != nil {
			if len(texts[d.MessageID]) != d.Offset {
				t.Errorf("a piece at %d follows %q", d.Offset, texts[d.MessageID])
			}
			known := false
			for _, m := range v.messages {
				known = known || m.ID == d.MessageID
			}
			if !known {
				t.Error("a piece of a message that the follower does not have")
			}
			switch texts[d.MessageID] += d.Text; texts[d.MessageID] {
			case "It is gr":
				h.send(th.ID, "Two?")
			case "It is great":
				close(pieces)
			}
		}
		if len(v.messages) > 2 && !joined { // while the first answer is being written
			joined = true
			pieces <- "eat"
		}
		if v.turn.State == agent.TurnCompleted {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) || !joined {
		t.Fatalf("%v: %q, %q", err, v.said(), texts)
	}
	equal(t, "messages", v.said(), []string{"user:One.", "assistant:It is great", "user:Two?", "assistant:And two."})

	since := v.Version // who has everything is sent the thread alone
	err = h.svc.Follow(ctx, th.ID, since, func(u agent.Update) error {
		if len(u.Messages)+len(u.Calls) > 0 || u.Thread.Version != since {
			t.Errorf("%+v", u)
		}
		return errSeen
	})
	if !errors.Is(err, errSeen) {
		t.Error(err)
	}
}

// terminal is a session's terminal in the sandbox.
type terminal struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
	text string
	last guest.AgentOutput
	over chan error
}

func (h *harness) terminal(version int64) *terminal {
	h.t.Helper()
	ours, theirs := net.Pipe()
	x := &terminal{t: h.t, conn: ours, in: bufio.NewScanner(ours), over: make(chan error, 1)}
	x.in.Buffer(nil, guest.MaxAgentLine)
	svc := h.svc
	go func() {
		defer theirs.Close()
		x.over <- svc.Serve(h.ctx, toolrelay.Session{ID: "ses_1"}, theirs)
	}()
	x.says(guest.AgentInput{Type: guest.AgentOpen, Version: version})
	return x
}

func (x *terminal) says(in guest.AgentInput) {
	x.t.Helper()
	b, err := json.Marshal(in)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.conn.Write(append(b, '\n')); err != nil {
		x.t.Fatal(err)
	}
}

// shows reads until the text and the state are there.
func (x *terminal) shows(text, state string) {
	x.t.Helper()
	for !strings.Contains(x.text, text) || !strings.HasPrefix(x.last.State, state) {
		if !x.in.Scan() {
			x.t.Fatalf("the terminal ended: %v; it showed %q and %q", x.in.Err(), x.text, x.last.State)
		}
		var out guest.AgentOutput
		if err := json.Unmarshal(x.in.Bytes(), &out); err != nil {
			x.t.Fatal(err)
		}
		x.text += out.Text
		if out.State != "" {
			x.last = out
		}
	}
}

func (x *terminal) close() {
	x.t.Helper()
	_ = x.conn.Close()
	<-x.over
}

// The terminal shows lines as they are complete, each once, and sends what is entered.
func TestTerminal(t *testing.T) {
	h := newHarness(t)
	on := make(chan struct{})
	h.model.then(func(ctx context.Context, _ providers.Request, say func(providers.Event)) error {
		parts := []string{"A first line.\nA second \x1b[31mline", "Another part"}
		for i, p := range parts {
			for _, c := range p {
				say(providers.Event{Kind: providers.TextDelta, Index: i, Text: string(c)})
			}
			if i == 0 {
				<-on
			}
			say(providers.Event{Kind: providers.PartDone, Index: i, Part: providers.Part{Kind: providers.Text, Text: p}})
		}
		say(providers.Event{Kind: providers.PartDone, Index: 2, Part: providers.Part{Kind: providers.ToolCall, CallID: "c", Name: "file_read", Args: json.RawMessage(`{"path":"a.go"}`)}})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopToolCalls})
		return nil
	}, says("Done."))
	h.boot()
	x := h.terminal(0)
	x.shows("", "write a prompt")
	x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: "Go."})
	x.shows("A first line.\n", "working")
	close(on)
	x.shows("Done.\n", "write a prompt")
	plain := strings.NewReplacer("\x1b[1;36m", "", "\x1b[0m", "", "\x1b[2m", "", "\x1b[32m", "").Replace(x.text)
	if want := "\n› Go.\nA first line.\nA second [31mline\nAnother part\n● file_read a.go\n  file_read did {\"path\":\"a.go\"}\nDone.\n"; plain != want {
		t.Errorf("%q, not\n%q", plain, want)
	}
	x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: "/nothing"})
	x.shows("There is no command /nothing", "")
	version := x.last.Version
	x.close()

	x = h.terminal(version) // what was printed is not printed again
	x.shows("", "write a prompt")
	begun := make(chan struct{})
	h.model.then(blocks("", begun, nil, nil))
	x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: "Again."})
	wait(t, "the answer", begun)
	x.says(guest.AgentInput{Type: guest.AgentInterrupt})
	x.shows("Again.", "write a prompt")
	if strings.Contains(x.text, "A first line") {
		t.Errorf("printed again: %q", x.text)
	}
	x.close()
}
