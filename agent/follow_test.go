package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
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
	t    testing.TB
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

// Any program of the sandbox can be at the other end of a terminal: it speaks in nobody's name, floods nobody, and approves nothing.
func TestHostileTerminals(t *testing.T) {
	h := newHarness(t)
	h.model.then(wants("run_command", `{"command":"ls"}`), says("Done."))
	h.boot()
	x := h.terminal(0)
	x.shows("", "write a prompt")
	x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: strings.Repeat("x", guest.MaxAgentPrompt+1)})
	x.shows("at most 256 KiB", "")
	x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: "Go."})
	q := h.question()
	for _, kind := range []string{"answer", "allow", "approve", ""} { // there is no such thing
		x.says(guest.AgentInput{Type: kind, Text: q.key})
	}
	for _, line := range []string{"allow", "1", "y", "For this session", "/allow", "/approve", "/build", "/model m"} {
		said := "› " + line
		switch line {
		case "/allow", "/approve":
			said = "There is no command " + line
		case "/build", "/model m":
			said = "The agent is working"
		}
		x.text = ""
		x.says(guest.AgentInput{Type: guest.AgentPrompt, Text: line})
		x.shows(said, "waits for an answer")
	}
	select {
	case err := <-q.ended:
		t.Errorf("the question ended: %v", err)
	default:
	}
	if made := h.tools.calls(); len(made) > 0 {
		t.Errorf("made %q", made)
	}
	q.choose("deny", "")
	x.shows("Done.", "write a prompt")
	v := h.until(h.thread(), func(v *view) bool { return v.State == agent.Idle && v.turn.State == agent.TurnCompleted })
	for _, m := range v.messages {
		if m.Role == agent.User && m.UserID != "" {
			t.Errorf("%q was said in the name of %s", m.Parts[0].Text, m.UserID)
		}
	}

	var more []*terminal
	for range 3 {
		more = append(more, h.terminal(0))
		more[len(more)-1].shows("Go.", "")
	}
	ours, theirs := net.Pipe()
	if err := h.svc.Serve(h.ctx, toolrelay.Session{ID: "ses_1"}, theirs); fault.CodeOf(err) != "agent_terminals" {
		t.Errorf("a fifth terminal: %v", err)
	}
	_ = ours.Close()
	for _, m := range append(more, x) {
		m.close()
	}

	x = h.terminal(0)
	x.shows("Go.", "")
	go func() { _, _ = io.WriteString(x.conn, strings.Repeat("x", guest.MaxAgentInput+1)) }() // a line without end
	if err := <-x.over; !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("a long line: %v", err)
	}
	_ = x.conn.Close()

	h.host.row.Agent = agents.ClaudeCode
	_, theirs = net.Pipe()
	if err := h.svc.Serve(h.ctx, toolrelay.Session{ID: "ses_1"}, theirs); fault.CodeOf(err) != "agent_other" {
		t.Errorf("the terminal of another agent: %v", err)
	}
}

// Prompts that nobody has read yet are bounded, whoever sends them.
func TestPromptsThatWait(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(blocks("", begun, on, says("One.")), says("Two."))
	th := h.open(agent.Options{})
	h.send(th.ID, "First.")
	wait(t, "the answer", begun)
	for i := range 60 {
		_, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "More."})
		if (err != nil) != (i >= 49) || err != nil && fault.CodeOf(err) != "too_many_prompts" {
			t.Fatalf("prompt %d: %v", i, err)
		}
	}
	close(on)
	if v := h.rest(th.ID); v.turn.State != agent.TurnCompleted || len(v.messages) != 52 {
		t.Errorf("%s, %d messages", v.turn.State, len(v.messages))
	}
}

// thread is the session's.
func (h *harness) thread() string {
	h.t.Helper()
	t, err := h.svc.ThreadOf(h.ctx, h.host.Row())
	if err != nil {
		h.t.Fatal(err)
	}
	return t.ID
}

// What a model writes as a title is no command to the terminal.
func TestTitlesInTheTerminal(t *testing.T) {
	h := newHarness(t)
	h.model.then(wants(plan.Tool, `{"title":"Wipe \u001b[2J\u009b2J\u202enow","steps":"1. Look"}`), says("As you like."))
	th := h.open(agent.Options{Mode: agent.Plan})
	x := h.terminal(0)
	x.shows("", "write a prompt")
	h.send(th.ID, "Plan.")
	x.shows("", "waits for an answer in Parawork: Plan: Wipe [2J2Jnow")
	h.question().choose("reject", "")
	h.rest(th.ID)
	x.close()
}
