package testkit_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/testmodel"
)

// realAgent returns the path of an agent's real program.
func realAgent(t *testing.T, name string) string { return testmodel.Agent(t, name) }

// scripted starts the scripted model server and returns its address.
func scripted(t *testing.T) string { return testmodel.Start(t) }

func scriptedAt(t *testing.T, host string) string { return testmodel.Start(t, "-listen", host+":0") }

// tool is a step of a script in which the model uses a tool.
func tool(name string, input any) map[string]any {
	return map[string]any{"tools": []any{map[string]any{"name": name, "input": input}}}
}

// script is a prompt that makes the model answer step by step.
func script(t *testing.T, steps ...map[string]any) string {
	t.Helper()
	b, err := json.Marshal(steps)
	must(t, err)
	return "#script " + string(b)
}

// modelsHere lets the model gateway ask the scripted model, which listens on this machine.
const modelsHere = `"outgoing":{"allow":["127.0.0.0/8"]}`

// agentInstance boots an instance in which a real agent works under the scripted model.
func agentInstance(t *testing.T, agent string, extra ...string) *testkit.Instance {
	t.Helper()
	return agentInstanceAt(t, "127.0.0.1", agent, extra...)
}

// agentInstanceAt is agentInstance with a model that listens on another address of this machine.
func agentInstanceAt(t *testing.T, host, agent string, extra ...string) *testkit.Instance {
	t.Helper()
	program, args, base := "claude", "[]", ""
	key := "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
	if agent == "codex" {
		program, args, base = "codex", `["-m","gpt-5.5","-a","on-request","-s","workspace-write"]`, "/v1"
		key = "sk-proj-" + strings.Repeat("abcdefghij", 5)
	}
	if !strings.Contains(strings.Join(extra, ""), `"sandboxing"`) {
		extra = append(extra, testkit.Local)
	}
	if !strings.Contains(strings.Join(extra, ""), `"outgoing"`) {
		extra = append(extra, modelsHere)
	}
	h := testkit.Start(t, append(extra, fmt.Sprintf(`"agents":{%q:{"enabled":true,"command":%q,"defaultArgs":%s}}`, agent, realAgent(t, program), args))...)
	h.API("PUT", "/me/agent-accounts/"+agent, map[string]any{"kind": "api_key", "api_key": key, "base_url": scriptedAt(t, host) + base}, nil)
	return h
}

// question is what tests need of a question's JSON.
type question struct {
	ID, Kind, Title, Detail, Source, State, Answer, Via string
	Multi                                               bool
	FreeText                                            bool   `json:"free_text"`
	AnsweredBy                                          string `json:"answered_by_name"`
	Options                                             []struct{ ID, Label, Role, Description string }
}

// work is a session of a real agent.
type work struct {
	t  *testing.T
	h  *testkit.Instance
	ws testkit.Workspace
	id string
}

// ask starts an agent on a script in a workspace of its own.
func ask(t *testing.T, h *testkit.Instance, agent string, steps ...map[string]any) *work {
	t.Helper()
	return askIn(t, h, "", agent, steps...)
}

// askIn is ask in a workspace in a place of that kind.
func askIn(t *testing.T, h *testkit.Instance, executor, agent string, steps ...map[string]any) *work {
	t.Helper()
	w := &work{t: t, h: h, ws: h.WorkspaceIn(executor, h.Sample(), "Ask")}
	var s testkit.Session
	h.API("POST", "/workspaces/"+w.ws.ID+"/sessions", map[string]any{"agent": agent, "prompt": script(t, steps...), "cols": 120, "rows": 40}, &s)
	w.id = s.ID
	return w
}

func (w *work) now() (state string, q *question) {
	w.t.Helper()
	var s struct {
		State       string
		StateReason string `json:"state_reason"`
		Question    *question
	}
	w.h.API("GET", "/sessions/"+w.id, nil, &s)
	return s.State, s.Question
}

func (w *work) screen() string {
	w.t.Helper()
	var s struct{ Lines []string }
	w.h.API("GET", "/sessions/"+w.id+"/screen", nil, &s)
	return strings.Join(s.Lines, "\n")
}

// waits waits until ok holds; the screen is shown when it never does.
func (w *work) waits(what string, ok func() bool) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			state, q := w.now()
			var why struct {
				Reason string `json:"state_reason"`
			}
			w.h.API("GET", "/sessions/"+w.id, nil, &why)
			w.t.Logf("state %s (%s), question %+v, of all %+v, screen:\n%s", state, why.Reason, q, w.questions(), w.screen())
		}
	}()
	w.h.Wait(what, ok)
}

// asked waits for an open question whose title contains text.
func (w *work) asked(text string) (q question) {
	w.t.Helper()
	w.waits("it asks: "+text, func() bool {
		state, now := w.now()
		if now == nil || !strings.Contains(now.Title, text) || state != "waiting" {
			return false
		}
		q = *now
		return true
	})
	return q
}

func (w *work) reply(q question, more map[string]any) question {
	w.t.Helper()
	body := map[string]any{"question_id": q.ID}
	for k, v := range more {
		body[k] = v
	}
	var out question
	w.h.API("POST", "/sessions/"+w.id+"/answer", body, &out)
	return out
}

// stored is the question as it is kept.
func (w *work) stored(id string) question {
	w.t.Helper()
	all := w.questions()
	for _, q := range all {
		if q.ID == id {
			return q
		}
	}
	w.t.Fatalf("question %s is not among %+v", id, all)
	return question{}
}

// questions are all it has asked, newest first.
func (w *work) questions() []question {
	w.t.Helper()
	var all struct{ Items []question }
	w.h.API("GET", "/sessions/"+w.id+"/questions", nil, &all)
	return all.Items
}

func (w *work) reaches(state string) {
	w.t.Helper()
	w.waits("it is "+state, func() bool { now, _ := w.now(); return now == state })
}

func (w *work) made(name string) bool {
	_, err := os.Stat(filepath.Join(w.ws.Path, name))
	return err == nil
}
