package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/tools"
)

// changed is the answer of a tool that changed a file.
func changed(diff string) func(context.Context, json.RawMessage) (tools.Result, error) {
	return func(context.Context, json.RawMessage) (tools.Result, error) {
		return tools.Answer("Changed a.go: 1 lines added, 0 removed.", map[string]any{"path": "a.go", "changed": diff != "", "additions": 1, "deletions": 0, "hash": "h1", "diff": diff})
	}
}

// An edit is recorded with what it changed in which file, also by a server that comes after the one that stored it: that is what can be undone.
func TestEditsAreRecorded(t *testing.T) {
	h := newHarness(t)
	h.host.row.Permissions = agents.AllPermissions
	const diff = "@@ -1,0 +2 @@\n+key := \"" + secret + "\"\n"
	h.tools.does["file_write"] = changed(diff)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(wants("file_write", `{"path":"/work/tree/a.go","content":"x"}`), blocks("", begun, on, says("never")), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "go")
	wait(t, "the second request", begun)
	h.kill()
	h.host.mu.Lock()
	h.host.items = nil // as if the first server had not come to it
	h.host.mu.Unlock()
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	v := h.rest(th.ID)
	it := h.host.item(conversation.Edit)
	if it.ID != v.calls[0].ID || it.Path != "a.go" || !strings.HasPrefix(it.Diff, "@@ -1,0 +2 @@\n+key := ") || strings.Contains(it.Diff, secret) || it.Added != 1 || it.Status != conversation.OK || it.Cut {
		t.Errorf("recorded as %+v", it)
	}
	if d := v.calls[0].Details; d.Path != "a.go" || d.Hash != "h1" || d.Diff != it.Diff {
		t.Errorf("%+v", d)
	}
	h.tools.mu.Lock()
	h.tools.does["file_write"] = changed("")
	h.tools.mu.Unlock()
	h.model.then(wants("file_write", `{"path":"a.go","content":"x"}`), says("It was so."))
	h.send(th.ID, "again")
	if c := h.rest2(th.ID, 2); c.Details != (agent.Details{}) || h.host.item(conversation.Tool).ID != c.ID {
		t.Errorf("nothing was changed, and it is called an edit: %+v", c)
	}
}

// rest2 waits for the end of a turn with so many calls in the thread, and returns the last one.
func (h *harness) rest2(threadID string, calls int) agent.Call {
	h.t.Helper()
	v := h.until(threadID, func(v *view) bool { return len(v.calls) == calls && v.turn.State != agent.TurnRunning })
	return v.calls[calls-1]
}

// item is the last of a kind that was recorded.
func (o *host) item(kind conversation.Kind) (last conversation.Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, it := range o.items {
		if it.Kind == kind {
			last = it
		}
	}
	return last
}

// What an answer cost is what the gateway's record of its request says, once it is complete.
func TestAnswersHaveTheirCost(t *testing.T) {
	h := newHarness(t)
	asked := 0
	h.cost = func(session, request string) (agent.Cost, bool) {
		if asked++; session != "ses_1" || request != "gw_1" {
			t.Errorf("asked for %s of %s", request, session)
		}
		return agent.Cost{Nano: new(int64(1234)), Estimated: true}, asked > 1 // the record is a little late
	}
	h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.Text, Text: "Hi."}})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn, Usage: providers.Usage{Input: 10, Output: 5}, Request: "gw_1"})
		return nil
	})
	th := h.open(agent.Options{})
	h.send(th.ID, "hello")
	u := h.rest(th.ID).messages[1].Usage
	if u.CostNano == nil || *u.CostNano != 1234 || !u.Estimated || u.Input != 10 {
		t.Errorf("%+v", u)
	}
	if it := h.host.item(conversation.Spent); it.Usage.CostNano == nil || *it.Usage.CostNano != 1234 || !it.Usage.Estimated {
		t.Errorf("recorded: %+v", it.Usage)
	}
}

// People read what a call is about, not its JSON: a change as the lines that go and come, a command with the folder and the variables it
// runs with, which are never left out.
func TestQuestionsAreReadable(t *testing.T) {
	h := newHarness(t)
	calls := []struct{ tool, args, detail, options string }{
		{"file_write", `{"path":"src/a.go","content":"one\ntwo\n"}`, "src/a.go\n+one\n+two", "allow session always deny"},
		{"file_edit", `{"path":"src/a.go","old":"one","new":"1\n2"}`, "src/a.go\n-one\n+1\n+2", "allow session always deny"},
		{"file_multi_edit", `{"path":"a","edits":[{"old":"x","new":"y"},{"old":"z","new":""}]}`, "a\n-x\n+y\n\n-z", "allow session always deny"},
		{"run_command", `{"command":"go test ./..."}`, "go test ./...", "allow session always deny"},
		{"run_command", `{"command":"make","env":{"PATH":"/tmp/x"}}`, "command: make\nenv: {\"PATH\":\"/tmp/x\"}", "allow deny"},
		{"run_command", `{"command":"X=1","cwd":"/"}`, "command: X=1\ncwd: /", "allow deny"},
		{"run_command", `{"argv":["git","push"]}`, `argv: ["git","push"]`, "allow session always deny"},
	}
	var all []string
	for _, c := range calls {
		all = append(all, c.tool, c.args)
	}
	h.model.then(wants(all...), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "go")
	for _, c := range calls {
		q := h.question()
		if q.ask.Detail != c.detail || strings.Join(ids(q.ask), " ") != c.options {
			t.Errorf("%s %s: %q with %q", c.tool, c.args, q.ask.Detail, ids(q.ask))
		}
		q.choose("deny", "")
	}
	h.rest(th.ID)
}

// Secrets are hidden in arguments however they are written there, and what is left are arguments.
func TestSecretsInArguments(t *testing.T) {
	h := newHarness(t)
	h.host.secrets = []string{`pa"ss\word`, "123456"}
	h.host.row.Permissions = agents.AllPermissions
	h.model.then(wants("file_write", `{"path":"a","content":"x pa\"ss\\word y","port":123456,"n":[1.50,true]}`), says("Done."))
	th := h.open(agent.Options{})
	h.send(th.ID, "go")
	v := h.rest(th.ID)
	if v.turn.State != agent.TurnCompleted {
		t.Fatalf("%s: %s", v.turn.State, v.turn.Reason)
	}
	if got := string(v.calls[0].Args); got != `{"content":"x ********** y","n":[1.50,true],"path":"a","port":"******"}` {
		t.Errorf("stored: %s", got)
	}
}
