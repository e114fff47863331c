package testkit_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// threadView is what tests need of a thread's JSON.
type threadView struct {
	Thread   struct{ ID, State, Code, Reason string }
	Messages []struct {
		ID, Role, State string
		UserID          string `json:"user_id"`
		Parts           []struct{ Text string }
	}
	Calls []struct {
		Tool, State string
		Content     []struct{ Text string }
	}
	Turn struct{ State, Code string }
}

func threadOf(c *testkit.Client, sessionID string) (v threadView) {
	var one struct{ ID string }
	if c.Try("GET", "/sessions/"+sessionID+"/thread", nil, &one) == nil {
		c.API("GET", "/threads/"+one.ID, nil, &v)
	}
	return v
}

// from returns who said a text, message by message.
func (v threadView) from(role, text string) (users []string) {
	for _, m := range v.Messages {
		if m.Role == role && len(m.Parts) > 0 && strings.Contains(m.Parts[0].Text, text) {
			users = append(users, m.UserID)
		}
	}
	return users
}

// A session of Parawork's own agent is one like any other: its queue, a move, who may resume it, and what becomes of it without who
// started it.
func TestOwnAgentsSessions(t *testing.T) {
	t.Parallel()
	needsBubblewrap(t)
	h, model, _ := ownAgent(t, bothPlaces)
	token := h.NewUser("bo@example.com", "Bo", "--team", h.Team)
	bo := func() *testkit.Client { return h.As(token) } // the server's address changes with each start
	var me struct{ User struct{ ID string } }
	bo().API("GET", "/me", nil, &me)
	w := &work{t: t, h: h, ws: h.WorkspaceIn("local", h.Sample(), "Elsewhere")}
	start := func(c *testkit.Client, body map[string]any) (s testkit.Session) {
		t.Helper()
		body["agent"], body["permissions"], body["confirm_no_boundary"] = "parawork", "all", true
		c.API("POST", "/workspaces/"+w.ws.ID+"/sessions", body, &s)
		return s
	}
	w.id = start(h.Client, map[string]any{}).ID
	w.reaches("idle")

	// What is queued goes to the conversation in the name of who queued it, once, whenever the server dies.
	for _, p := range []failpoint.Point{failpoint.QueueClaimed, failpoint.QueueTyped} {
		text := script(t, map[string]any{"text": "Done at " + string(p)})
		h.DieAt(p, func() { _ = bo().Try("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": text}, nil) })
		w.waits("it answers", func() bool { return len(threadOf(h.Client, w.id).from("assistant", "Done at "+string(p))) == 1 })
		w.reaches("idle")
		if users := threadOf(h.Client, w.id).from("user", text); len(users) != 1 || users[0] != me.User.ID {
			t.Errorf("%s: said by %q", p, users)
		}
	}

	// It is moved in the middle of a call: the agent reads that nobody knows whether that was done, and goes on there.
	h.API("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": script(t, map[string]any{"tools": calls("run_command", map[string]any{"command": "touch begun; sleep 300"})},
		map[string]any{"text": "Looked again."})}, nil)
	w.waits("the call has begun", func() bool { return w.made("begun") })
	var plan struct {
		Possible bool
		Sessions []struct{ How, Reason string }
	}
	h.API("GET", "/workspaces/"+w.ws.ID+"/move?to=bubblewrap", nil, &plan)
	if len(plan.Sessions) != 1 || plan.Sessions[0].How != "resumes" || plan.Sessions[0].Reason != "" {
		t.Errorf("the plan: %+v", plan)
	}
	h.API("POST", "/workspaces/"+w.ws.ID+"/move", map[string]any{"to": "bubblewrap"}, nil)
	m := moved(t, h, w.ws.ID)
	if m.State != "done" || len(m.Sessions) != 1 || m.Sessions[0].State != "resumed" {
		t.Fatalf("the move: %+v", m)
	}
	w.id = m.Sessions[0].NextID
	var v threadView
	w.waits("it goes on", func() bool {
		v = threadOf(h.Client, w.id)
		return len(v.from("user", "This workspace was moved")) == 1 && len(v.from("assistant", "Looked again.")) == 1
	})
	if c := v.Calls[len(v.Calls)-1]; c.State != "unknown" || !strings.Contains(c.Content[0].Text, "The session ended during this call") {
		t.Errorf("the call that the move cut: %+v", c)
	}

	// Somebody else resumes it, without its sandbox and with another key; who may only look may not, and strangers see nothing.
	w.reaches("idle")
	h.API("POST", "/sessions/"+w.id+"/stop", nil, nil)
	h.API("POST", "/workspaces/"+w.ws.ID+"/destroy-sandbox", nil, nil)
	viewer, stranger := h.As(h.NewUser("vi@example.com", "Vi", "--team", h.Team, "--role", "viewer")), h.As(h.NewUser("eve@example.com", "Eve"))
	viewer.Refused(http.StatusForbidden, "", "POST", "/sessions/"+w.id+"/resume", nil)
	stranger.Refused(http.StatusNotFound, "", "POST", "/sessions/"+w.id+"/resume", nil)
	stranger.Refused(http.StatusNotFound, "", "GET", "/threads/"+v.Thread.ID, nil)
	bo().Refused(http.StatusConflict, "agent_needs_key", "POST", "/sessions/"+w.id+"/resume", nil)
	key := "sk-ant-api03-" + strings.Repeat("klmno-pq", 5)
	bo().API("PUT", "/me/agent-accounts/parawork", map[string]any{"kind": "api_key", "api_key": key, "base_url": model}, nil)
	var s testkit.Session
	bo().API("POST", "/sessions/"+w.id+"/resume", nil, &s)
	w.id = s.ID
	bo().API("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": script(t, map[string]any{"tools": calls("run_command", map[string]any{"command": "touch by-bo; sleep 2"}), "repeat": []string{""}})}, nil)
	w.waits("it works for the other", func() bool { return w.made("by-bo") })
	if v = threadOf(h.Client, w.id); len(v.from("assistant", "Looked again.")) != 1 {
		t.Errorf("the conversation begins with %+v", v.Messages)
	}

	// Without its person it ends, and others go on with it.
	h.API("DELETE", "/teams/"+h.Team+"/members/"+me.User.ID, nil, nil)
	w.waits("the turn ends", func() bool { v = threadOf(h.Client, w.id); return v.Turn.State != "running" })
	if v.Turn.State != "interrupted" || v.Turn.Code != "session_ended" {
		t.Errorf("the turn of who left: %+v", v.Turn)
	}
	h.API("POST", "/sessions/"+w.id+"/resume", nil, &s)
	w.id = s.ID
	h.API("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": script(t, map[string]any{"text": "Here again."})}, nil)
	w.waits("it goes on for who is left", func() bool { return len(threadOf(h.Client, w.id).from("assistant", "Here again.")) == 1 })

	// Its conversation is found as others' are.
	var found struct{ Items []struct{ Text string } }
	h.API("GET", "/sessions/"+w.id+"/conversation?q=here+again", nil, &found)
	if len(found.Items) == 0 {
		t.Error("what it said is not found")
	}

	// Agents drive it over MCP: several attempts with a model each, a question, an interrupt; and each shows what it cost, kept or not.
	var started struct{ ID string }
	mcp(t, h, "run_start", map[string]any{"project": w.ws.ProjectID, "agents": []string{"parawork --model claude-opus-4-8 --effort low", "parawork --mode ask"},
		"prompt": script(t, map[string]any{"text": "I try.", "tools": calls("run_command", map[string]any{"command": "touch tried"}), "usage": map[string]int{"in": 100, "out": 7}}, says("Tried.", 120, 5, 0, 0))}, &started)
	type attempt struct {
		ID, State string
		Argv      []string
		Session   *testkit.Session
		Workspace *struct{ ID, State string }
		Tokens    *struct {
			Requests int
			CostNano *int64 `json:"cost_nano"`
		}
	}
	var run struct{ Attempts []attempt }
	read := func() []attempt { h.API("GET", "/runs/"+started.ID, nil, &run); return run.Attempts }
	w.waits("the first asks, the second is done", func() bool {
		a := read()
		return len(a) == 2 && a[0].Session != nil && a[0].Session.State == "waiting" && a[1].Session != nil && a[1].Session.State == "idle" && a[1].Tokens != nil && a[1].Tokens.Requests == 2
	})
	for _, a := range run.Attempts {
		h.Cleanup(a.Workspace.ID)
	}
	first := run.Attempts[0]
	if strings.Join(first.Argv, " ") != "--model claude-opus-4-8 --effort low" {
		t.Errorf("the first is started with %q", first.Argv)
	}
	mcp(t, h, "question_answer", map[string]any{"session": first.Session.ID, "options": []string{"allow"}}, nil)
	w.waits("the first is done", func() bool { a := read()[0]; return a.Session.State == "idle" && a.Tokens.Requests == 2 })
	mcp(t, h, "prompt_queue", map[string]any{"session": first.Session.ID, "text": script(t, map[string]any{"text": "never", "delay_ms": 100_000})}, nil)
	w.waits("it works", func() bool { return read()[0].Session.State == "working" })
	mcp(t, h, "session_stop", map[string]any{"session": first.Session.ID, "interrupt": true}, nil)
	w.waits("it is interrupted", func() bool {
		v = threadOf(h.Client, first.Session.ID)
		return v.Turn.State == "interrupted" && read()[0].Session.State == "idle"
	})
	h.API("POST", "/runs/"+started.ID+"/keep", map[string]any{"attempt_id": run.Attempts[1].ID}, nil)
	w.waits("the other is archived", func() bool { a := read()[0]; return a.Workspace.State == "archived" })
	for i, a := range run.Attempts {
		if a.Tokens == nil || a.Tokens.CostNano == nil || *a.Tokens.CostNano <= 0 {
			t.Errorf("attempt %d cost %+v", i+1, a.Tokens)
		}
	}

	// A key that is taken away is not used any more: the turn says so, and goes on with another.
	h.API("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": script(t, map[string]any{"tools": calls("run_command", map[string]any{"command": "touch revoked; sleep 1"})}, map[string]any{"text": "Not said."})}, nil)
	w.waits("it works", func() bool { return w.made("revoked") })
	h.API("DELETE", "/me/agent-accounts/parawork", nil, nil)
	w.waits("the turn fails", func() bool { v = threadOf(h.Client, w.id); return v.Turn.State == "failed" })
	if v.Thread.Code != "model_unauthorized" {
		t.Errorf("without its key: %+v", v.Thread)
	}
	h.API("PUT", "/me/agent-accounts/parawork", map[string]any{"kind": "api_key", "api_key": key, "base_url": model}, nil)
	h.API("POST", "/sessions/"+w.id+"/stop", nil, nil)
	h.API("POST", "/sessions/"+w.id+"/resume", nil, &s)
	w.id = s.ID
	h.API("POST", "/sessions/"+w.id+"/prompts", map[string]any{"text": script(t, map[string]any{"text": "With another key."})}, nil)
	w.waits("it goes on with another key", func() bool { return len(threadOf(h.Client, w.id).from("assistant", "With another key.")) == 1 })
	if len(threadOf(h.Client, w.id).from("assistant", "Not said.")) > 0 {
		t.Error("the key was used after it was deleted")
	}
}

// mcp calls a tool of /mcp and reads what it answers with.
func mcp(t *testing.T, h *testkit.Instance, name string, args map[string]any, out any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "test", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": map[string]any{}}}})
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+"/mcp", bytes.NewReader(body))
	must(t, err)
	for k, v := range map[string]string{"Authorization": "Bearer " + h.Token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	if _, data, ok := bytes.Cut(text, []byte("data: ")); ok {
		text, _, _ = bytes.Cut(data, []byte("\n"))
	}
	var answer struct {
		Result struct {
			IsError           bool
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result.IsError || len(answer.Result.StructuredContent) == 0 {
		t.Fatalf("%s answers %s (%v)", name, text, err)
	}
	if out != nil {
		must(t, json.Unmarshal(answer.Result.StructuredContent, out))
	}
}
