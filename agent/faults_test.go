package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

// sends answers with parts as they are.
func sends(why providers.Stop, parts ...providers.Part) answer {
	return func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		for i, p := range parts {
			say(providers.Event{Kind: providers.PartDone, Index: i, Part: p})
		}
		say(providers.Event{Kind: providers.Done, Stop: why, Usage: providers.Usage{Input: 10, Output: 5}})
		return nil
	}
}

func callOf(name, args, raw string) providers.Part {
	p := providers.Part{Kind: providers.ToolCall, CallID: "c_" + name, Name: name, RawArgs: raw}
	if args != "" {
		p.Args = json.RawMessage(args)
	}
	return p
}

func times(n int, a answer) (all []answer) {
	for range n {
		all = append(all, a)
	}
	return all
}

func list(scripts ...any) (all []answer) {
	for _, s := range scripts {
		switch s := s.(type) {
		case answer:
			all = append(all, s)
		case []answer:
			all = append(all, s...)
		}
	}
	return all
}

// Whatever a model and its provider do, the turn ends in a state that people can act on: what was done is kept and not done again, nothing
// is called that was not written to its end, and the next prompt goes on.
func TestFaults(t *testing.T) {
	wrote := wants("file_write", `{"path":"a"}`)
	thinks := providers.Part{Kind: providers.Reasoning, Text: "Hm.", Raw: json.RawMessage(`{}`)}
	for name, test := range map[string]struct {
		script []answer
		code   string // "": the turn completes
		asked  int    // requests to the model
		made   int    // calls
		calls  string // how they ended
	}{
		"an empty answer":                {list(stopped(providers.StopEndTurn), says("Hi.")), "", 2, 0, ""},
		"empty answers":                  {times(5, sends(providers.StopEndTurn, thinks)), "model_empty", 2, 0, ""},
		"a pause with nothing":           {times(5, sends(providers.StopPause)), "model_empty", 2, 0, ""},
		"pauses for ever":                {times(50, sends(providers.StopPause, providers.Part{Kind: providers.Text, Text: "Wait."})), "turn_repeats", 6, 0, ""},
		"a pause":                        {list(sends(providers.StopPause, providers.Part{Kind: providers.Text, Text: "Wait."}), says("Done.")), "", 2, 0, ""},
		"cut before the arguments":       {list(sends(providers.StopMaxOutput, callOf("file_write", "{}", "")), says("Done.")), "", 2, 0, "failed"},
		"cut in the arguments":           {list(sends(providers.StopMaxOutput, callOf("file_read", `{}`, ""), callOf("file_write", "", `{"path":"a","text":"x`)), says("Done.")), "", 2, 1, "done failed"},
		"cut in its calls for ever":      {times(50, sends(providers.StopMaxOutput, callOf("file_write", "", `{"path":"a`))), "model_output_cut", 5, 0, "failed failed failed failed failed"},
		"cut after a call":               {list(sends(providers.StopMaxOutput, callOf("file_write", `{}`, ""), providers.Part{Kind: providers.Text, Text: "And n"}), says("Done.")), "", 2, 1, "done"},
		"the key is revoked":             {list(wrote, fails(providers.ErrUnauthorized, "revoked")), "model_unauthorized", 2, 1, "done"},
		"the budget is reached":          {list(wrote, fails(providers.ErrBudget, "spent")), "model_budget", 2, 1, "done"},
		"the budget is reached in words": {list(wrote, broken("I wi", providers.ErrBudget)), "model_budget", 2, 1, "done"},
		"overloaded for minutes":         {list(wrote, broken("I wi", providers.ErrOverloaded)), "model_overloaded", 2, 1, "done"},
		"stalled":                        {list(wrote, broken("I wi", providers.ErrStalled)), "model_stalled", 2, 1, "done"},
		"no calls where it says so":      {list(sends(providers.StopToolCalls, providers.Part{Kind: providers.Text, Text: "Hi."})), "", 1, 0, ""},
		"calls where it does not":        {list(sends(providers.StopEndTurn, callOf("file_read", `{}`, "")), says("Done.")), "", 2, 1, "done"},
		"two calls with one ID":          {list(sends(providers.StopToolCalls, callOf("file_read", `{"n":1}`, ""), callOf("file_read", `{"n":2}`, "")), says("Done.")), "", 2, 2, "done done"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.host.row.Permissions = agents.AllPermissions
			h.model.then(test.script...)
			th := h.open(agent.Options{})
			m := h.send(th.ID, "Go.")
			v := h.rest(th.ID)
			var states []string
			for _, c := range v.calls {
				states = append(states, string(c.State))
			}
			if got := strings.Join(states, " "); v.Code != test.code || (v.State == agent.Failed) != (test.code != "") || len(h.model.asked()) != test.asked || len(h.tools.calls()) != test.made || got != test.calls {
				t.Errorf("%s %q (%s); asked %d times; made %q; calls %s", v.State, v.Code, v.Reason, len(h.model.asked()), h.tools.calls(), got)
			}
			if test.code != "" && v.Reason == "" {
				t.Error("nobody says why")
			}
			for _, m := range v.messages {
				if m.State == agent.Streaming {
					t.Error("a message is left open")
				}
			}
			h.model.mu.Lock()
			h.model.script = nil
			h.model.mu.Unlock()
			h.model.then(says("I went on."))
			made := len(h.tools.calls())
			again := h.send(th.ID, "Go on.")
			v = h.until(th.ID, func(v *view) bool { return v.turn.ID == again.TurnID && v.turn.State != agent.TurnRunning })
			if v.State != agent.Idle || v.said()[len(v.said())-1] != "assistant:I went on." || len(h.tools.calls()) != made || again.TurnID == m.TurnID {
				t.Errorf("then %s %q: %q", v.State, v.Code, v.said())
			}
			all := h.model.asked()
			results := 0
			for _, m := range all[len(all)-1].Messages {
				for _, p := range m.Parts {
					if p.Kind == providers.ToolResult {
						results++
					}
				}
			}
			if results != len(v.calls) {
				t.Errorf("the model reads %d results of %d calls", results, len(v.calls))
			}
		})
	}
}

// broken says something, and then fails.
func broken(said string, kind providers.ErrorKind) answer {
	return func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		say(providers.Event{Kind: providers.TextDelta, Text: said})
		return &providers.Error{Kind: kind, Message: "It broke."}
	}
}

// The model reads that an answer was cut in a call, and what it can do about it.
func TestWordsOfACutCall(t *testing.T) {
	h := newHarness(t)
	h.model.then(sends(providers.StopMaxOutput, callOf("file_write", "", `{"path":"a`)), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	h.rest(th.ID)
	if got := last(h.model.asked()[1]); !strings.Contains(got, "smaller pieces") || !strings.Contains(got, "was not made") {
		t.Errorf("%q", got)
	}
}

// What repeats is found in whatever order and company it comes, also over a restart; work that gets on is not taken for it.
func TestRepetition(t *testing.T) {
	read := func(n int) answer { return wants("file_read", fmt.Sprintf(`{"n":%d}`, n)) }
	h := newHarness(t)
	for i := range 12 { // the same call each time, beside one that is new
		h.model.then(wants("file_read", `{"same":true}`, "file_read", fmt.Sprintf(`{"n":%d}`, i)))
	}
	h.model.then(says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	if v := h.rest(th.ID); v.Code != "" || v.turn.Steps != 13 {
		t.Errorf("%s %q after %d steps", v.State, v.Code, v.turn.Steps)
	}
	h.kill()

	h = newHarness(t)
	both := []string{"file_read", `{"a":1}`, "file_read", `{ "b": 2}`}
	for i := range 20 {
		if i%3 == 2 {
			h.model.then(read(i))
		} else {
			h.model.then(wants(both...))
			both = []string{both[2], both[3], both[0], both[1]}
		}
	}
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	if v := h.rest(th.ID); v.Code != "turn_repeats" || v.turn.Steps > 9 {
		t.Errorf("%s %q after %d steps", v.State, v.Code, v.turn.Steps)
	}
	h.kill()

	h = newHarness(t)
	begun := make(chan struct{})
	h.model.then(read(1), read(1), read(1), read(1), blocks("", begun, nil, nil), read(1), read(1), read(1), read(1))
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	h.restart()
	if v := h.rest(th.ID); v.Code != "turn_repeats" || v.turn.Steps != 6 {
		t.Errorf("%s %q after %d steps", v.State, v.Code, v.turn.Steps)
	}
}

// A result with any number of parts and pictures is bounded, and no half of a secret remains where it is cut.
func TestLargeResults(t *testing.T) {
	h := newHarness(t)
	h.limits.ResultBytes = 1000
	n := 0
	h.tools.does["file_read"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		n++
		var all []tools.Content
		switch n {
		case 1:
			for range 500 {
				all = append(all, tools.Content{MIME: "image/png", Data: make([]byte, 3<<20)})
			}
		case 2:
			for range 10_000 {
				all = append(all, tools.Content{Text: strings.Repeat("x", 1000)})
			}
		case 3: // one of these is cut in two, wherever the cut is
			all = tools.Text(strings.Repeat(secret, 1000))
		case 4:
			return tools.Result{}, fault.New(fault.Invalid, "bad_path", "%s", strings.Repeat("why ", 1<<20))
		}
		return tools.Result{Content: all}, nil
	}
	h.model.then(wants("file_read", `{}`), wants("file_read", `{}`), wants("file_read", `{}`), wants("file_read", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	for i, c := range h.rest(th.ID).calls {
		size := 0
		for _, p := range c.Content {
			size += len(p.Text) + len(p.Data)
			if strings.Contains(p.Text, secret[:4]) || strings.Contains(p.Text, secret[len(secret)-4:]) {
				t.Errorf("call %d shows a part of the secret: %.60q", i, p.Text)
			}
		}
		if size > 10<<20 || i > 0 && size > 40_000 || len(c.Content) > 70 {
			t.Errorf("call %d: %d bytes in %d parts", i, size, len(c.Content))
		}
		if i < 2 && !c.Cut {
			t.Errorf("call %d is not marked as cut", i)
		}
	}
}

// A step costs the same number of changes and reads however long its thread is, and a written text none that grows with its followers.
func TestWhatAStepCosts(t *testing.T) {
	h := newHarness(t)
	var costs [][2]int
	for i := range 30 {
		h.model.then(func(ctx context.Context, req providers.Request, say func(providers.Event)) error {
			writes, reads := h.store.cost()
			costs = append(costs, [2]int{writes, reads})
			return wants("file_read", fmt.Sprintf(`{"n":%d}`, i))(ctx, req, say)
		})
	}
	h.model.then(says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	h.mood(agents.Ready)          // without a follower, who reads as well
	for i, c := range costs[1:] { // begin of the answer, answer, begin and end of the call
		if c[0] > 4 || c[1] > 1 {
			t.Errorf("step %d: %d changes, %d reads", i+1, c[0], c[1])
		}
	}
}

// Followers share what is written: none of them reads the database for a piece of text, and an answer that is stored while it is written is
// not sent to them again.
func TestManyFollowers(t *testing.T) {
	const followers, pieces = 50, 200
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	piece := strings.Repeat("word ", 20)
	h.model.then(blocks("", begun, on, func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		for range pieces {
			h.mu.Lock()
			h.now = h.now.Add(100 * time.Millisecond) // it is stored twenty times
			h.mu.Unlock()
			say(providers.Event{Kind: providers.TextDelta, Text: piece})
		}
		say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.Text, Text: strings.Repeat(piece, pieces)}})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn, Usage: providers.Usage{Input: 10, Output: 5}})
		return nil
	}))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	var all sync.WaitGroup
	ready := make(chan struct{}, followers)
	for range followers {
		all.Go(func() {
			var v view
			first := true
			err := h.svc.Follow(h.ctx, th.ID, 0, func(u agent.Update) error {
				if v.add(u); first {
					first = false
					ready <- struct{}{}
				}
				if v.turn.State == agent.TurnCompleted {
					return errSeen
				}
				return nil
			})
			if last := v.messages[len(v.messages)-1]; !errors.Is(err, errSeen) || last.Parts[0].Text != strings.Repeat(piece, pieces) || last.State != agent.Complete {
				t.Errorf("%v: %q", err, v.said())
			}
		})
	}
	for range followers {
		<-ready
	}
	h.store.cost()
	close(on)
	all.Wait()
	writes, reads := h.store.cost()
	if writes < 20 || writes > 30 || reads > followers*4 {
		t.Errorf("%d changes, %d reads", writes, reads)
	}
}

// A turn belongs to one server: others leave it alone while its lease lasts, and go on with it afterwards; its own goes on at once.
func TestAServerTakesOver(t *testing.T) {
	h := newHarness(t)
	h.owner = "srv_a"
	begun := make(chan struct{})
	h.model.then(blocks("", begun, nil, nil))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	h.kill()

	h.owner = "srv_b"
	h.restart()
	joined := h.send(th.ID, "Two.")
	if v := h.until(th.ID, func(v *view) bool { return len(v.messages) == 3 }); v.turn.Owner != "srv_a" || v.turn.ID != joined.TurnID || len(h.model.asked()) != 1 {
		t.Errorf("another server went on with the turn: %+v", v.turn)
	}
	h.kill()
	h.mu.Lock()
	h.now = h.now.Add(2 * time.Minute)
	h.mu.Unlock()
	begun = make(chan struct{})
	h.model.then(blocks("", begun, nil, nil))
	h.restart()
	wait(t, "the answer of the other server", begun)
	h.kill()

	h.model.then(says("Done."))
	h.restart() // the same server again, while its lease lasts
	if v := h.rest(th.ID); v.turn.State != agent.TurnCompleted || v.turn.Owner != "srv_b" {
		t.Errorf("%+v", v.turn)
	}
}

// A turn that waits for its session can be interrupted.
func TestInterruptWithoutTheSession(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.model.then(blocks("I was", begun, nil, nil))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	h.mu.Lock()
	h.gone = true
	h.mu.Unlock()
	h.restart()
	late := time.After(patient)
	for !h.svc.Interrupt(th.ID) {
		select {
		case <-late:
			t.Fatal("the turn cannot be interrupted")
		default:
			runtime.Gosched()
		}
	}
	if v := h.rest(th.ID); v.turn.State != agent.TurnInterrupted || v.Reason != "interrupted" || v.State != agent.Idle || len(h.model.asked()) != 1 {
		t.Errorf("%+v", v.turn)
	}
}

// A prompt that comes when the conversation is about to be summarized is kept, and answered in the same turn.
func TestAPromptBesideASummary(t *testing.T) {
	h := newHarness(t)
	h.window = 10_000
	th := agent.Thread{}
	sent := false
	h.store.on(func(c agent.Change) error {
		if len(c.Messages) > 0 && c.Messages[0].Role == agent.Summary && !sent {
			sent = true
			h.send(th.ID, "And the tests.")
		}
		return nil
	})
	h.model.then(wantsUsing(9000, "file_read", `{}`), says("In short."), says("Done."))
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Go.", "assistant:", "user:And the tests.", "summary:In short.", "assistant:Done."})
	if sent := last(h.model.asked()[2]); !strings.Contains(sent, "And the tests.") || v.Code != "" {
		t.Errorf("%s: after the summary the model was sent %q", v.Code, sent)
	}
}

// To summarize an empty conversation is no failure.
func TestCompactNothing(t *testing.T) {
	h := newHarness(t)
	th := h.open(agent.Options{})
	if _, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: "/compact"}); err != nil {
		t.Fatal(err)
	}
	if v := h.rest(th.ID); v.State != agent.Idle || v.turn.State != agent.TurnCompleted || len(h.model.asked()) != 0 {
		t.Errorf("%s %q", v.State, v.Reason)
	}
}

// Whatever is done at once, each thread has one turn at most, no prompt is lost, and nothing is left open.
func TestAtOnce(t *testing.T) {
	h := newHarness(t)
	for range 400 {
		h.model.then(says("ok"))
	}
	th := h.open(agent.Options{})
	var all sync.WaitGroup
	var sent atomic.Int64
	for i := range 6 {
		all.Go(func() {
			for n := range 12 {
				switch (i + n) % 6 {
				case 0, 1, 2:
					if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "Hello.", UserID: h.user}); err != nil {
						t.Error(err)
					}
					sent.Add(1)
				case 3:
					h.svc.Interrupt(th.ID)
				case 4:
					for _, line := range []string{"/clear", "/compact", "/plan"} {
						if _, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: line}); err != nil && fault.CodeOf(err) != "turn_running" {
							t.Error(err)
						}
					}
				case 5:
					if err := h.svc.Recover(h.ctx); err != nil {
						t.Error(err)
					}
					if _, err := h.svc.Open(h.ctx, h.host.Row(), agent.Options{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	v := h.until(th.ID, func(v *view) bool { return v.turn.State != agent.TurnRunning && v.State != agent.Working })
	got := int64(0)
	for _, m := range v.messages {
		if m.State == agent.Streaming {
			t.Errorf("a %s is left open", m.Role)
		}
		if m.Role == agent.User {
			got++
		}
	}
	if got != sent.Load() || v.State == agent.Failed {
		t.Errorf("%d prompts of %d; %s %q", got, sent.Load(), v.State, v.Reason)
	}
	m := h.send(th.ID, "Last.")
	close(h.host.done) // with the turn's begin
	v = h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
	if v.State != agent.Idle {
		t.Errorf("%s %q", v.State, v.Reason)
	}
}

// The model thinks as much as the session says.
func TestEffort(t *testing.T) {
	for arg, want := range map[string]string{"--effort=high": "high", "--effort=enormous": "", "": ""} {
		h := newHarness(t)
		h.host.row.Argv = []string{"x", arg}
		h.model.then(says("Hi."))
		th := h.open(agent.Options{})
		h.send(th.ID, "Go.")
		h.rest(th.ID)
		if got := h.model.asked()[0].Effort; got != want {
			t.Errorf("%q: %q", arg, got)
		}
		h.kill()
	}
}
