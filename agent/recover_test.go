package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/tools"
)

// restart ends the server where it is, and starts another one on the same database.
func (h *harness) restart() {
	h.t.Helper()
	h.kill()
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		h.t.Fatal(err)
	}
}

// hangs is a tool that stays in its call until the server ends, and reports when it is in it.
func hangs(in chan<- struct{}) func(context.Context, json.RawMessage) (tools.Result, error) {
	return func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
		close(in)
		<-ctx.Done()
		return tools.Result{}, ctx.Err()
	}
}

// An answer that a dead server was given in part is asked for again.
func TestARestartInAnAnswer(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.model.then(blocks("Half an ans", begun, nil, nil), says("A whole answer."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	h.restart()
	v := h.rest(th.ID)
	if got := v.said(); len(got) != 3 || !strings.HasSuffix(got[1], "(discarded)") || got[2] != "assistant:A whole answer." || v.turn.State != agent.TurnCompleted {
		t.Errorf("%q, %s", got, v.turn.State)
	}
	h.mood(agents.Ready)
	equal(t, "recorded", h.host.recorded(), []string{"prompt", "text", "usage"})
}

// A call that a dead server had begun is made again where it changes nothing; otherwise the model reads that nobody knows.
func TestARestartInCalls(t *testing.T) {
	for tool, want := range map[string]string{"file_read": "file_read=done:made", "run_command": "run_command=unknown:The server was restarted during this call."} {
		h := newHarness(t)
		h.host.row.Permissions = agents.AllPermissions
		in := make(chan struct{})
		h.tools.does[tool] = hangs(in)
		h.model.then(wants(tool, `{}`, "task_create", `{}`), says("Done."))
		th := h.open(agent.Options{})
		h.send(th.ID, "Go.")
		wait(t, "the call", in)
		h.kill()
		h.tools.does[tool] = func(context.Context, json.RawMessage) (tools.Result, error) {
			return tools.Result{Content: tools.Text("made")}, nil
		}
		h.restart()
		if got := h.rest(th.ID).outcomes(); !strings.HasPrefix(got[0], want) || got[1] != "task_create=done:task_create did {}" {
			t.Errorf("%s: %q", tool, got)
		}
		h.kill()
	}
}

// A question stays open while the server restarts, and the next one takes its answer.
func TestARestartWhileAQuestionIsOpen(t *testing.T) {
	h := newHarness(t)
	h.model.then(wants("run_command", `{"command":"ls"}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	first := h.question()
	h.restart()
	if err := <-first.ended; !errors.Is(err, question.ErrStays) {
		t.Errorf("the question ended with %v", err)
	}
	again := h.question()
	if again.key != first.key {
		t.Errorf("asked as %q, then as %q", first.key, again.key)
	}
	again.choose("allow", "")
	equal(t, "calls", h.rest(th.ID).outcomes(), []string{`run_command=done:run_command did {"command":"ls"}`})
}

// The turn of a session that ended with the server ends, with nothing left open; one whose session comes late goes on.
func TestARestartWithoutTheSession(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	in := make(chan struct{})
	h.tools.does["run_command"] = hangs(in)
	h.model.then(wants("run_command", `{}`, "file_read", `{}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the call", in)
	h.mu.Lock()
	h.gone = true
	h.mu.Unlock()
	h.restart()
	h.mu.Lock()
	h.gone, h.ended = false, true
	h.mu.Unlock()
	v := h.rest(th.ID)
	if got := v.outcomes(); v.turn.State != agent.TurnInterrupted || v.State != agent.Idle || !strings.HasPrefix(got[0], "run_command=unknown:") || !strings.HasPrefix(got[1], "file_read=skipped:") {
		t.Errorf("%s, %q", v.turn.State, got)
	}
	if _, err := h.svc.Send(h.ctx, th.ID, agent.Prompt{Text: "Go."}); err == nil {
		t.Error("a prompt was taken for a session that has ended")
	}
}

// The end of the session ends its turn.
func TestTheSessionEnds(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.model.then(blocks("I was", begun, nil, nil))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	close(h.host.done)
	if v := h.rest(th.ID); v.turn.State != agent.TurnInterrupted || v.Code != "session_ended" || v.said()[1] != "assistant:I was" {
		t.Errorf("%+v, %q", v.turn, v.said())
	}
}

// A terminal that connects to a session whose turn runs nowhere has it continued.
func TestATerminalHasALeftTurnContinued(t *testing.T) {
	h := newHarness(t)
	begun := make(chan struct{})
	h.model.then(blocks("", begun, nil, nil), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	wait(t, "the answer", begun)
	h.kill()
	h.open(agent.Options{}) // without Recover
	if v := h.rest(th.ID); v.turn.State != agent.TurnCompleted {
		t.Errorf("%+v", v.turn)
	}
}

// What another server owns is not touched: neither by a server that starts, nor by one that has lost it.
func TestAnotherServerOwnsTheTurn(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	in, on := make(chan struct{}), make(chan struct{})
	h.tools.does["run_command"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		close(in)
		<-on
		return tools.Result{Content: tools.Text("late")}, nil
	}
	h.model.then(wants("run_command", `{}`))
	th := h.open(agent.Options{})
	m := h.send(th.ID, "Go.")
	wait(t, "the call", in)
	later := h.clock().Add(2 * time.Minute) // the server was suspended, and its lease ran out
	if mine, err := h.store.Claim(h.ctx, m.TurnID, "another", later.UnixMilli(), later.Add(time.Minute).UnixMilli()); err != nil || !mine {
		t.Fatal(mine, err)
	}
	close(on)
	h.kill()
	v, err := h.store.View(h.ctx, th.ID, agent.Window{})
	if err != nil || v.Turn.State != agent.TurnRunning || v.Calls[0].State != agent.CallRunning {
		t.Errorf("%v: turn %+v, call %s", err, v.Turn, v.Calls[0].State)
	}
	if mine, err := h.store.Claim(h.ctx, m.TurnID, "server", later.UnixMilli(), later.UnixMilli()); err != nil || mine {
		t.Errorf("claimed: %v %v", mine, err)
	}
}

// A prompt that comes after the turn's last look and before its end is answered by the same turn.
func TestAPromptInTheLastMoment(t *testing.T) {
	h := newHarness(t)
	h.model.then(says("First answer."), says("Second answer."))
	th := h.open(agent.Options{})
	sent := false
	h.store.on(func(c agent.Change) error {
		if c.Turn != nil && c.Turn.State == agent.TurnCompleted && !sent {
			sent = true
			h.send(th.ID, "Two.")
		}
		return nil
	})
	h.send(th.ID, "One.")
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:One.", "assistant:First answer.", "user:Two.", "assistant:Second answer."})
	if v.turn.Steps != 2 || v.turn.EndedAt == 0 {
		t.Errorf("%+v", v.turn)
	}
}

// The end of a turn is stored as soon as the database is there again, with all that it leaves open.
func TestTheDatabaseFailsForAWhile(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	failed := 0
	h.store.on(func(c agent.Change) error {
		if len(c.Calls) > 0 && c.Calls[0].State == agent.CallDone || c.Turn != nil && c.Turn.State != agent.TurnRunning && failed < 3 {
			failed++
			return errors.New("the disk is full")
		}
		return nil
	})
	h.model.then(wants("run_command", `{}`))
	th := h.open(agent.Options{})
	h.send(th.ID, "Go.")
	v := h.rest(th.ID)
	if v.State != agent.Failed || v.calls[0].State != agent.CallUnknown || failed != 3 {
		t.Errorf("%s, %q, %d", v.State, v.outcomes(), failed)
	}
}

// The conversation is summarized when it gets long, and when the model says that it is too long. A prompt that comes meanwhile is kept.
func TestSummaries(t *testing.T) {
	h := newHarness(t)
	h.window = 10_000
	th := agent.Thread{}
	h.model.then(wantsUsing(9000, "file_read", `{}`), func(ctx context.Context, req providers.Request, say func(providers.Event)) error {
		if !strings.Contains(last(req), "Write a summary") {
			t.Errorf("asked %q", last(req))
		}
		h.send(th.ID, "And the tests.")
		return says("All is well so far.")(ctx, req, say)
	}, says("Done."))
	th = h.open(agent.Options{})
	h.send(th.ID, "Go.")
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Go.", "assistant:", "summary:All is well so far.", "user:And the tests.", "assistant:Done."})
	sent := h.model.asked()[2].Messages
	if len(sent) != 2 || !strings.Contains(sent[0].Parts[0].Text, "All is well so far.\n") || !strings.HasSuffix(sent[0].Parts[0].Text, "Go.") || sent[1].Parts[0].Text != "And the tests." || v.turn.Compactions != 1 {
		t.Errorf("after the summary the model was sent %+v", sent)
	}

	h.model.then(fails(providers.ErrContextTooLong, "too long"), fails(providers.ErrContextTooLong, "too long"), says("In short."), says("Done again."))
	m := h.send(th.ID, "Go on.")
	v = h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
	if got := v.said(); v.turn.State != agent.TurnCompleted || !slices.Contains(got, "summary:In short.") || got[len(got)-1] != "assistant:Done again." {
		t.Errorf("%s %q: %q", v.turn.State, v.turn.Reason, got)
	}
}

// A server that is killed while the conversation is summarized has the next one summarize it again.
func TestARestartInASummary(t *testing.T) {
	h := newHarness(t)
	h.window = 10_000
	begun := make(chan struct{})
	h.model.then(wantsUsing(9000, "file_read", `{}`), blocks("Half a", begun, nil, nil), says("In short."), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Read.")
	wait(t, "the summary", begun)
	h.restart()
	v := h.rest(th.ID)
	equal(t, "messages", v.said(), []string{"user:Read.", "assistant:", "summary: (discarded)", "summary:In short.", "assistant:Done."})
}

// What filled the model's context in an earlier turn fills it in the next one, also after a restart.
func TestFullInTheTurnBefore(t *testing.T) {
	h := newHarness(t)
	h.window = 10_000
	h.model.then(saysUsing(9000, providers.StopEndTurn, "I did."), says("In short."), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "Read.")
	h.rest(th.ID)
	h.restart()
	m := h.send(th.ID, "Go on.")
	v := h.until(th.ID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
	equal(t, "messages", v.said(), []string{"user:Read.", "assistant:I did.", "user:Go on.", "summary:In short.", "assistant:Done."})
	if sent := last(h.model.asked()[2]); !strings.Contains(sent, "In short.") || !strings.HasSuffix(sent, "Go on.") {
		t.Errorf("after the summary the model was sent %q", sent)
	}
}

// A conversation that does not get shorter ends its turn, and one that cannot be summarized says what to do.
func TestSummariesEnd(t *testing.T) {
	for want, script := range map[string][]answer{
		"turn_compactions":       {wantsUsing(9000, "file_read", `{"n":1}`), says("S."), wantsUsing(9000, "file_read", `{"n":2}`), says("S."), wantsUsing(9000, "file_read", `{"n":3}`), says("S.")},
		"no_summary":             {wantsUsing(9000, "file_read", `{}`), says(" ")},
		"model_overloaded":       {wantsUsing(9000, "file_read", `{}`), fails(providers.ErrOverloaded, "overloaded")},
		"context_too_long":       {fails(providers.ErrContextTooLong, "too long")},
		"model_context_too_long": {wantsUsing(9000, "file_read", `{}`), fails(providers.ErrContextTooLong, "too long"), fails(providers.ErrContextTooLong, "too long"), fails(providers.ErrContextTooLong, "too long"), fails(providers.ErrContextTooLong, "too long")},
	} {
		h := newHarness(t)
		h.window, h.limits.Compactions = 10_000, 2
		h.model.then(script...)
		th := h.open(agent.Options{})
		h.send(th.ID, "Go.")
		v := h.rest(th.ID)
		if v.Code != want || v.State != agent.Failed {
			t.Errorf("%s: %s %q after %d requests", want, v.Code, v.Reason, len(h.model.asked()))
		}
		for _, m := range v.messages {
			if m.State == agent.Streaming {
				t.Errorf("%s: a message is left open", want)
			}
		}
		h.kill()
	}
}

// The agent's own commands change the mode and the model, clear and summarize. None works while a turn runs.
func TestCommandsOfTheAgent(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(says("One."), says("In short."), says("Two."), blocks("", begun, on, says("Three.")))
	th := h.open(agent.Options{})
	enter := func(line string) string {
		t.Helper()
		words, err := h.svc.Enter(h.ctx, th.ID, agent.Prompt{Text: line, UserID: h.user})
		if err != nil {
			return "error: " + err.Error()
		}
		return words
	}
	idle := func(messages int) *view {
		t.Helper()
		return h.until(th.ID, func(v *view) bool { return v.State == agent.Idle && len(v.messages) == messages })
	}
	enter("/ask What is this?")
	if v := idle(2); v.Mode != agent.Ask || v.messages[0].Parts[0].Text != "What is this?" {
		t.Errorf("%s %q", v.Mode, v.said())
	}
	if got := enter("/model other"); got != "The model is now other." || idle(2).Model != "other" {
		t.Error(got)
	}
	enter("/compact")
	if v := idle(3); v.said()[2] != "summary:In short." {
		t.Errorf("%q", v.said())
	}
	enter("/clear")
	idle(4)
	enter("And now?")
	idle(6)
	if sent := h.model.asked()[2].Messages; len(sent) != 1 || sent[0].Parts[0].Text != "And now?" {
		t.Errorf("after /clear the model was sent %+v", sent)
	}
	if got := enter("/nothing"); !strings.Contains(got, "There is no command /nothing") {
		t.Error(got)
	}
	enter("/usr/bin is a path")
	wait(t, "the answer", begun)
	for _, line := range []string{"/clear", "/compact", "/plan", "/model x"} {
		if got := enter(line); !strings.Contains(got, "The agent is working") {
			t.Errorf("%s: %q", line, got)
		}
	}
	close(on)
	idle(8)
}
