package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/usagelimit"
	"github.com/parawork/parawork/tools"
)

// A session's first prompt starts a turn, in which the model reads the results of its calls, in their order.
func TestATurnGoesThroughItsSteps(t *testing.T) {
	h := newHarness(t)
	h.host.row.Prompt = "Look at both files."
	h.model.then(wants("file_read", `{"path":"a"}`, "file_read", `{"path":"b"}`), says("They ", "are the same."))
	th := h.open(agent.Options{})
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Look at both files.", "assistant:", "assistant:They are the same."})
	equal(t, "calls", v.outcomes(), []string{`file_read=done:file_read did {"path":"a"}`, `file_read=done:file_read did {"path":"b"}`})
	if v.turn.State != agent.TurnCompleted || v.turn.Steps != 2 || v.State != agent.Idle {
		t.Errorf("%+v, thread %s", v.turn, v.State)
	}
	h.mood(agents.Ready)
	second := h.model.asked()[1].Messages
	if len(second) != 3 || second[0].Role != providers.User || second[1].Role != providers.Assistant || len(second[2].Parts) != 2 || second[2].Parts[1].Content[0].Text != `file_read did {"path":"b"}` {
		t.Errorf("the second request: %+v", second)
	}
	equal(t, "recorded", h.host.recorded(), []string{"prompt", "usage", "tool:ok", "tool:ok", "text", "usage"})
	if _, err := h.svc.Open(h.ctx, h.host.Row(), agent.Options{}); err != nil { // the terminal connects again: nothing happens
		t.Error(err)
	}
	h.model.then(says("Yes."))
	h.send(th.ID, "Sure?")
	v = h.until(th.ID, func(v *view) bool { return len(v.messages) == 5 && v.State == agent.Idle })
	equal(t, "messages", v.said()[3:], []string{"user:Sure?", "assistant:Yes."})
}

// Calls that change nothing are made at once; one that changes something waits for those before it.
func TestReadsAreMadeAtOnce(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	var both sync.WaitGroup
	both.Add(2)
	h.tools.does["file_read"] = func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
		both.Done()
		both.Wait() // ends only when the other one runs, too
		return tools.Result{Content: tools.Text("read")}, nil
	}
	h.tools.does["file_write"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		both.Wait()
		return tools.Result{Content: tools.Text("wrote")}, nil
	}
	h.model.then(wants("file_read", `{"n":1}`, "file_read", `{"n":2}`, "file_write", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	equal(t, "calls", h.rest(th.ID).outcomes(), []string{"file_read=done:read", "file_read=done:read", "file_write=done:wrote"})
}

// A person decides about what changes something: once, for the session, or not at all, with a reason that the model reads.
func TestAPersonDecides(t *testing.T) {
	h := newHarness(t)
	h.model.then(wants("run_command", `{"command":"go vet ./..."}`), wants("run_command", `{"command":"go test ./..."}`), wants("run_command", `{"command":"rm -r x"}`),
		wants("run_command", `{"command":"go env; rm -r x"}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Check it.")
	q := h.question()
	if v := h.until(th.ID, func(v *view) bool { return v.State == agent.Waiting }); v.calls[0].State != agent.CallAsked {
		t.Errorf("the call is %s", v.calls[0].State)
	}
	if !strings.Contains(q.ask.Title, "go vet ./...") || !strings.Contains(q.ask.Options[1].Label, "begin with go") || len(h.tools.calls()) != 0 {
		t.Errorf("asked %+v; made %q", q.ask, h.tools.calls())
	}
	q.choose("session", "") // go test is not asked about
	equal(t, "options", ids(q.ask), []string{"allow", "session", "always", "deny"})
	q = h.question()
	if !strings.Contains(q.ask.Title, "rm -r x") {
		t.Errorf("asked %q", q.ask.Title)
	}
	q.choose("allow", "")
	q = h.question()
	if !strings.Contains(q.ask.Title, "go env; rm") { // allowed is go alone
		t.Errorf("asked %q", q.ask.Title)
	}
	q.choose("deny", "x is needed")
	v := h.rest(th.ID)
	if got := v.outcomes()[3]; got != "run_command=denied:A person did not allow this call. Their reason: x is needed" || len(h.tools.calls()) != 3 {
		t.Errorf("%q; made %q", got, h.tools.calls())
	}
}

// In the modes that change nothing, calls that do are refused, and the model is not offered them.
func TestModesLimitWhatIsCalled(t *testing.T) {
	for mode, want := range map[agent.Mode]string{
		agent.Plan:   "file_read=done file_write=denied task_create=done verify=denied review_comment=denied",
		agent.Ask:    "file_read=done file_write=denied task_create=denied verify=denied review_comment=denied",
		agent.Review: "file_read=done file_write=denied task_create=denied verify=done review_comment=done",
	} {
		h := newHarness(t)
		h.host.row.Permissions = agents.AllPermissions
		h.model.then(wants("file_read", `{}`, "file_write", `{}`, "task_create", `{}`, "verify", `{}`, "review_comment", `{}`), says("Done."))
		th := h.open(agent.Options{Mode: mode})
		h.send(th.ID, "Go.")
		var got []string
		for _, c := range h.rest(th.ID).calls {
			got = append(got, c.Tool+"="+string(c.State))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s", mode, s)
		}
		var names []string
		for _, offered := range h.model.asked()[0].Tools {
			names = append(names, offered.Name)
		}
		reviews := mode == agent.Review
		if slices.Contains(names, "file_write") || slices.Contains(names, "review_comment") != reviews || strings.Contains(h.model.asked()[0].System[0].Text, "with review_comment") != reviews {
			t.Errorf("%s: the model is offered %q", mode, names)
		}
		h.kill()
	}
}

// What models write that is no JSON is repaired where its meaning is sure; otherwise nothing is done and the model reads why.
func TestArgumentsThatAreNoObject(t *testing.T) {
	h := newHarness(t)
	h.model.then(wants("file_read", `{"path":"a","lines":[1,2`, "file_read", "```json\n{\"path\":\"b\"}\n```", "file_read", ``, "file_read", `{"path":"unfinis`, "file_read", `[1]`, "nonsense", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	got := h.rest(th.ID).outcomes()
	equal(t, "calls", got[:3], []string{`file_read=done:file_read did {"path":"a","lines":[1,2]}`, `file_read=done:file_read did {"path":"b"}`, `file_read=done:file_read did {}`})
	for _, s := range got[3:5] {
		if !strings.HasPrefix(s, "file_read=failed:The arguments are not a JSON object.") {
			t.Error(s)
		}
	}
	if !strings.HasPrefix(got[5], `nonsense=failed:There is no tool "nonsense". The tools are: file_read, `) {
		t.Error(got[5])
	}
	h.kill()

	h = newHarness(t) // an answer that was cut: even what could be repaired is not all that was meant
	h.host.row.Permissions = agents.AllPermissions
	h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.ToolCall, CallID: "c", Name: "file_write", RawArgs: `{"path":"a","edits":[1`}})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopMaxOutput})
		return nil
	}, says("Done."))
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	if v := h.rest(th.ID); v.calls[0].State != agent.CallFailed || len(h.tools.calls()) != 0 {
		t.Errorf("%q; made %q", v.outcomes(), h.tools.calls())
	}
}

// A result is cut to what a model can read, and the model reads why a call failed.
func TestResultsOfTools(t *testing.T) {
	h := newHarness(t)
	h.limits.ResultBytes = 1000
	n, pic := 0, drawn(t, 1)
	h.tools.does["file_read"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		n++
		switch n {
		case 1:
			return tools.Result{Content: tools.Text("begin" + strings.Repeat("ä", 50<<20) + "end " + secret)}, nil
		case 2:
			return tools.Result{Content: tools.Text("exit 1"), IsError: true}, nil
		case 3:
			return tools.Result{}, fault.New(fault.NotFound, "file_not_found", "There is no file x.")
		case 4:
			return tools.Result{}, errors.New("internal detail")
		}
		return tools.Result{Content: []tools.Content{{MIME: "image/png", Data: pic}, {MIME: "video/mp4", Data: []byte("mp4")}}}, nil
	}
	h.model.then(wants("file_read", `{}`), wants("file_read", `{}`), wants("file_read", `{}`), wants("file_read", `{}`), wants("file_read", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	v := h.rest(th.ID)
	big := v.calls[0]
	if text := big.Content[0].Text; !big.Cut || len(text) > 1200 || !strings.HasPrefix(text, "beginä") || !strings.HasSuffix(text, "end "+strings.Repeat("*", len(secret))) || !strings.Contains(text, "bytes left out") {
		t.Errorf("cut %v: %d bytes, %.40q", big.Cut, len(text), text)
	}
	equal(t, "calls", v.outcomes()[1:], []string{"file_read=failed:exit 1", "file_read=failed:file_not_found: There is no file x.",
		"file_read=failed:The tool failed unexpectedly. What it did until then stays done.", "file_read=done:[3 bytes of video/mp4 left out]"})
	if p := v.calls[4].Content[0]; p.Kind != providers.Image || p.Size != len(pic) {
		t.Errorf("the image: %+v", p)
	}
	if m, err := h.store.Media(h.ctx, "ws_1", big.Content[0].Ref); err != nil || len(m.Data) > 5<<20 || !strings.HasPrefix(string(m.Data), "beginä") || !strings.HasSuffix(string(m.Data), "*") {
		t.Errorf("of 100 MB %d bytes are stored: %v", len(m.Data), err)
	}
}

// A further try begins with an empty answer. What came of the one before is kept for people, and the model is not sent it.
func TestFurtherTriesBeginAnew(t *testing.T) {
	h := newHarness(t)
	h.model.then(func(ctx context.Context, req providers.Request, say func(providers.Event)) error {
		say(providers.Event{Kind: providers.TextDelta, Text: "Half an ans"})
		say(providers.Event{Kind: providers.Retry, Wait: time.Second, Error: &providers.Error{Kind: providers.ErrOverloaded, Message: "overloaded"}})
		return says("A whole answer.")(ctx, req, say)
	}, says("Bye."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Go.", "assistant:Half an ans (discarded)", "assistant:A whole answer."})
	if note := v.messages[1].Note; note != "overloaded; tried again after 1s" {
		t.Errorf("note %q", note)
	}
	h.send(th.ID, "Bye.")
	h.until(th.ID, func(v *view) bool { return len(v.messages) == 5 && v.State == agent.Idle })
	if req := h.model.asked()[1]; len(req.Messages) != 3 {
		t.Errorf("sent %+v", req.Messages)
	}
}

// A provider that has no more for now is a limit with the end that it names, and no other error is.
func TestALimitOfTheProvider(t *testing.T) {
	h := newHarness(t)
	h.model.then(func(context.Context, providers.Request, func(providers.Event)) error {
		return &providers.Error{Kind: providers.ErrRateLimited, Message: "too many requests", RetryAfter: time.Minute}
	}, fails(providers.ErrOverloaded, "overloaded"))
	th := h.open(agent.Options{})
	limit := func() *usagelimit.Limit {
		m := h.send(th.ID, "Go.")
		h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
		h.mood(agents.Trouble)
		h.host.mu.Lock()
		defer h.host.mu.Unlock()
		return h.host.hint.Limit
	}
	if l := limit(); l == nil || l.Kind != usagelimit.Rate || l.Until-l.At != time.Minute.Milliseconds() {
		t.Errorf("limit %+v", l)
	}
	if l := limit(); l != nil {
		t.Errorf("an overloaded provider is a limit: %+v", l)
	}
}

// An error of the model ends the turn with what people can act on, and the next prompt tries again.
func TestErrorsOfTheModel(t *testing.T) {
	h := newHarness(t)
	h.model.then(fails(providers.ErrUnauthorized, "The key "+secret+" is not valid."), stopped(providers.StopRefusal), stopped(providers.StopMaxOutput, "And so"),
		func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
			say(providers.Event{Kind: providers.TextDelta, Text: "Then nothing"})
			return nil // neither Done nor an error
		}, says("Now."))
	th := h.open(agent.Options{})
	for i, want := range []struct{ code, words string }{
		{"model_unauthorized", "The key " + strings.Repeat("*", len(secret)) + " is not valid."}, {"model_refused", "refused"}, {"model_output_cut", "longer than"}, {"model_cut", "ended before"},
	} {
		m := h.send(th.ID, "Go.")
		v := h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
		if v.State != agent.Failed || v.Code != want.code || !strings.Contains(v.Reason, want.words) || v.turn.State != agent.TurnFailed {
			t.Errorf("%d: %s %s: %q, turn %s", i, v.State, v.Code, v.Reason, v.turn.State)
		}
		h.mood(agents.Trouble)
	}
	m := h.send(th.ID, "Go.")
	if v := h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning }); v.State != agent.Idle || v.Code != "" {
		t.Errorf("%s %s", v.State, v.Code)
	}
}

// An interruption stops what goes on. What the model said until then stays part of the conversation, and calls say what became of them.
func TestInterrupt(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.model.then(blocks("I was about to", begun, nil, nil))
	th := h.open(agent.Options{})
	if h.svc.Interrupt(th.ID) {
		t.Error("a turn was interrupted that does not run")
	}
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	if !h.svc.Interrupt(th.ID) {
		t.Error("nothing was interrupted")
	}
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Go.", "assistant:I was about to"})
	if v.turn.State != agent.TurnInterrupted || v.State != agent.Idle {
		t.Errorf("%+v", v.turn)
	}
	h.mood(agents.Ready)

	running := make(chan struct{})
	h.tools.does["file_read"] = func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
		close(running)
		<-ctx.Done()
		return tools.Result{}, ctx.Err()
	}
	h.model.then(wants("file_read", `{}`, "run_command", `{"command":"ls"}`))
	m := h.send(th.ID, "Again.")
	wait(t, "the call", running)
	h.svc.Interrupt(th.ID)
	v = h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
	h.mood(agents.Ready)
	if got := v.outcomes(); !strings.HasPrefix(got[0], "file_read=unknown:The person interrupted") || !strings.HasPrefix(got[1], "run_command=skipped:") {
		t.Errorf("%q", got)
	}
	if got := h.host.recorded(); got[len(got)-1] != "tool:stopped" {
		t.Errorf("recorded %q", got)
	}

	h.model.then(wants("run_command", `{"command":"ls"}`)) // a question is withdrawn
	h.send(th.ID, "Again.")
	q := h.question()
	h.svc.Interrupt(th.ID)
	if err := <-q.ended; err == nil || err.Error() != "interrupted" {
		t.Errorf("the question ended with %v", err)
	}
	h.until(th.ID, func(v *view) bool {
		return v.State == agent.Idle && len(v.calls) == 3 && v.calls[2].State == agent.CallSkipped
	})
}

// A turn that does the same over and over ends, as does one that takes too many steps or too long.
func TestATurnEnds(t *testing.T) {
	for want, set := range map[string]func(h *harness){
		"turn_repeats": func(*harness) {},
		"turn_steps": func(h *harness) {
			h.limits.Steps = 3
		},
		"turn_cost": func(h *harness) {
			h.host.row.Argv = []string{"parawork", "--max-cost", "0.05"}
			h.limits.CostNano = 1e9
			h.cost = func(string, string) (agent.Cost, bool) {
				nano := int64(2e7)
				return agent.Cost{Nano: &nano}, true
			}
		},
		"turn_time": func(h *harness) {
			h.limits.Time = time.Millisecond
			h.tools.does["file_read"] = func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
				<-ctx.Done()
				return tools.Result{}, ctx.Err()
			}
		},
	} {
		h := newHarness(t)
		set(h)
		for range 20 {
			h.model.then(wants("file_read", `{"path": "a"}`))
		}
		th := h.open(agent.Options{})
		h.send(th.ID, "Go.")
		if v := h.rest(th.ID); v.Code != want || v.State != agent.Failed || len(h.model.asked()) > 10 {
			t.Errorf("%s: %s %q after %d requests", want, v.Code, v.Reason, len(h.model.asked()))
		}
		h.kill()
	}
}

// A prompt that is sent while a turn runs joins it, whatever the turn is doing: the model is asked with it.
func TestAPromptJoinsTheTurn(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(blocks("First ", begun, on, says("answer.")), says("Second answer."))
	th := h.open(agent.Options{})
	m := h.send(th.ID, "One.")
	wait(t, "the answer", begun)
	joined := h.send(th.ID, "Two.")
	if joined.TurnID != m.TurnID {
		t.Error("the second prompt started a turn")
	}
	close(on)
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:One.", "assistant:answer.", "user:Two.", "assistant:Second answer."})
	if got := last(h.model.asked()[1]); got != "Two." {
		t.Errorf("the model was asked %q", got)
	}
	equal(t, "prompts", h.host.prompts, []string{"One.", "Two."})
	h.kill()

	h = newHarness(t) // before the answer of a further try: that one would not know of it
	h.model.then(func(ctx context.Context, _ providers.Request, say func(providers.Event)) error {
		h.send(th.ID, "Two.")
		say(providers.Event{Kind: providers.Retry, Error: &providers.Error{Kind: providers.ErrCut, Message: "cut"}})
		if ctx.Err() == nil {
			say(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn})
		}
		return nil
	}, says("To both."))
	th = h.open(agent.Options{})
	h.send(th.ID, "One.")
	v = h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:One.", "assistant: (discarded)", "user:Two.", "assistant:To both."})
}

// Prompts of many at once are all answered, in one turn or several, and no turn is left behind.
func TestPromptsOfMany(t *testing.T) {
	h := newHarness(t)
	for range 40 {
		h.model.then(says("ok"))
	}
	th := h.open(agent.Options{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "Hello."}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	v := h.until(th.ID, func(v *view) bool { return v.State == agent.Idle })
	users := 0
	for _, m := range v.messages {
		if m.Role == agent.User {
			users++
		}
	}
	if end := v.messages[len(v.messages)-1]; users != 20 || end.Role != agent.Assistant || v.turn.State != agent.TurnCompleted {
		t.Errorf("%d prompts; the last message is %s; %s", users, end.Role, v.turn.State)
	}
}

// Secrets of the session are in nothing that is stored, shown or sent to the model, also when they come in pieces.
func TestSecretsAreMasked(t *testing.T) {
	h := newHarness(t)
	h.tools.does["file_read"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		return tools.Result{Content: tools.Text("is " + secret)}, nil
	}
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(wants("file_read", `{"path":"`+secret+`"}`), func(ctx context.Context, req providers.Request, say func(providers.Event)) error {
		say(providers.Event{Kind: providers.TextDelta, Text: "It is " + secret[:9]})
		say(providers.Event{Kind: providers.TextDelta, Text: secret[9:] + ", as I said."})
		return blocks("", begun, on, says("It is "+secret+", as I said."))(ctx, req, say)
	})
	th := h.open(agent.Options{})
	h.send(th.ID, "My password is "+secret+".")
	wait(t, "the answer", begun)
	v := h.until(th.ID, func(v *view) bool { return strings.HasSuffix(v.text, "said.") })
	close(on)
	h.rest(th.ID)
	if strings.Contains(v.text, secret[:9]) {
		t.Errorf("followers got %q", v.text)
	}
	h.mood(agents.Ready)
	stored, err := h.svc.View(h.ctx, th.ID, agent.Window{})
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]any{"stored": stored, "sent": h.model.asked(), "recorded": h.host.items, "called": h.tools.calls(), "prompts": h.host.prompts} {
		if b, err := json.Marshal(x); err != nil || strings.Contains(string(b), secret) {
			t.Errorf("%s holds the secret: %v", what, err)
		}
	}
}
