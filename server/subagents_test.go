package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/server/api"
)

// subagent reads a subagent until want holds of it.
func (h *harness) subagent(t *testing.T, id, token string, want func(api.Subagent) bool) (a api.Subagent) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		h.do("GET", "/api/v1/subagents/"+id, "", bearer(token)...).into(t, &a)
		if want(a) {
			return a
		}
	}
	t.Fatalf("it does not come to that: %+v", a)
	return a
}

func ended(a api.Subagent) bool {
	return a.Status == api.SubagentStatusCompleted || a.Status == api.SubagentStatusFailed || a.Status == api.SubagentStatusCancelled
}

// A session starts subagents by the API and by the tools, which work beside it, end with a result, and end with their caller.
func TestSubagentsOfASession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	member := bearer(p.tokens["member"])
	var caller api.Session
	h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/sessions", `{"agent":"command","argv":["/bin/sh","-c","sleep 1000"]}`, member...).into(t, &caller)
	spawn := func(body string) (a api.Subagent) {
		h.do("POST", "/api/v1/sessions/"+caller.Id+"/subagents", body, member...).into(t, &a)
		return a
	}

	a := spawn(`{"name":"count","agent":"command","task":"printf 'forty-two\\n'; test -z \"$FAIL\""}`)
	if a.Status != api.SubagentStatusSpawned || *a.ParentSessionId != caller.Id || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "(the caller)") {
		t.Errorf("spawned as %+v", a)
	}
	a = h.subagent(t, a.Id, p.tokens["viewer"], ended)
	if a.Status != api.SubagentStatusCompleted || a.Result != "Exit code 0.\nforty-two" || a.EndedAt == nil {
		t.Errorf("ended as %+v", a)
	}
	b := spawn(`{"name":"fail","agent":"command","task":"echo oh no; exit 3"}`)
	if b = h.subagent(t, b.Id, p.tokens["viewer"], ended); b.Status != api.SubagentStatusFailed || b.Code != "subagent_exited" || b.Result != "Exit code 3.\noh no" {
		t.Errorf("ended as %+v", b)
	}

	// Stopped, timed out, and cancelled with the caller.
	stopped := spawn(`{"name":"stop","agent":"command","task":"sleep 1000"}`)
	h.subagent(t, stopped.Id, p.tokens["viewer"], func(a api.Subagent) bool { return a.Status == api.SubagentStatusWorking })
	h.do("POST", "/api/v1/subagents/"+stopped.Id+"/interrupt", `{"stop":true}`, member...).into(t, &stopped)
	late := spawn(`{"name":"late","agent":"command","task":"echo begun; sleep 1000","timeout_ms":1500}`)
	if late = h.subagent(t, late.Id, p.tokens["viewer"], func(a api.Subagent) bool { return ended(a) && !a.Live }); late.Code != "subagent_timed_out" || !strings.Contains(late.Result, "begun") {
		t.Errorf("ended as %+v", late)
	}
	if stopped = h.subagent(t, stopped.Id, p.tokens["viewer"], func(a api.Subagent) bool { return !a.Live }); stopped.Status != api.SubagentStatusCancelled {
		t.Errorf("stopped as %+v", stopped)
	}
	orphan, kept := spawn(`{"name":"orphan","agent":"command","task":"sleep 1000"}`), spawn(`{"name":"kept","agent":"command","task":"sleep 1000","keep":true}`)
	working := func(a api.Subagent) bool { return a.Status == api.SubagentStatusWorking }
	h.subagent(t, orphan.Id, p.tokens["viewer"], working)
	h.subagent(t, kept.Id, p.tokens["viewer"], working)
	if r := h.do("POST", "/api/v1/sessions/"+caller.Id+"/stop", `{"grace_ms":0}`, member...); r.StatusCode != 200 {
		t.Fatalf("%+v", r)
	}
	orphan = h.subagent(t, orphan.Id, p.tokens["viewer"], func(a api.Subagent) bool { return !a.Live })
	if orphan.Status != api.SubagentStatusCancelled || orphan.Code != "subagent_caller_ended" {
		t.Errorf("ended as %+v", orphan)
	}
	var session api.Session
	h.do("GET", "/api/v1/sessions/"+orphan.SessionId, "", member...).into(t, &session)
	if session.EndedAt == nil {
		t.Error("the session of a subagent goes on without its caller")
	}
	if kept = h.subagent(t, kept.Id, p.tokens["viewer"], working); !kept.Live {
		t.Errorf("the kept one is %+v", kept)
	}
	h.do("POST", "/api/v1/subagents/"+kept.Id+"/interrupt", `{"stop":true}`, member...).into(t, &kept)
	h.subagent(t, kept.Id, p.tokens["viewer"], func(a api.Subagent) bool { return !a.Live })

	var list api.SubagentList
	h.do("GET", "/api/v1/sessions/"+caller.Id+"/subagents", "", member...).into(t, &list)
	if len(list.Items) != 6 || list.Items[0].Id != a.Id {
		t.Errorf("listed %d", len(list.Items))
	}
	h.do("GET", "/api/v1/workspaces/"+p.ids["workspace"]+"/subagents?limit=2", "", member...).into(t, &list)
	if len(list.Items) != 2 || list.NextCursor == nil {
		t.Errorf("a page of %d", len(list.Items))
	}

	// By the tool, for a person without a session.
	var r struct {
		Structured struct {
			ID, Status string
			Items      []struct{ ID, Status, Result string }
		}
		IsError bool `json:"is_error"`
	}
	h.do("POST", p.toolPath("subagent_spawn"), `{"arguments":{"name":"by tool","agent":"command","task":"echo done"}}`, member...).into(t, &r)
	if r.Structured.Status != "spawned" {
		t.Fatalf("%+v", r)
	}
	args, _ := json.Marshal(map[string]any{"arguments": map[string]any{"ids": []string{r.Structured.ID}}})
	h.do("POST", p.toolPath("subagent_wait"), string(args), member...).into(t, &r)
	if len(r.Structured.Items) != 1 || r.Structured.Items[0].Status != "completed" || r.Structured.Items[0].Result != "Exit code 0.\ndone" {
		t.Errorf("%+v", r)
	}
}

// Tools of subagents type into terminals and read them: a token that may not do that over the API's own operations may not by a tool.
func TestSubagentToolsNeedTheScopeOfTerminals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	var write struct{ Value string }
	h.do("POST", "/api/v1/me/tokens", `{"name":"t","scopes":["workspaces:read","workspaces:write"]}`, bearer(p.tokens["member"])...).into(t, &write)
	for tool, args := range map[string]string{"subagent_list": `{}`, "subagent_message": `{"id":"sub_1","text":"x"}`} {
		if r := h.do("POST", p.toolPath(tool), `{"arguments":`+args+`}`, bearer(write.Value)...); r.StatusCode != 403 || !strings.Contains(string(r.body), "scope") {
			t.Errorf("%s: %d %s", tool, r.StatusCode, r.body)
		}
	}
	if r := h.do("POST", p.toolPath("run_command"), `{"arguments":{"argv":["true"]}}`, bearer(write.Value)...); r.StatusCode != 200 {
		t.Errorf("run_command: %d %s", r.StatusCode, r.body)
	}
}
