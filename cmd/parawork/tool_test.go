package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A tool of a workspace is called from another computer as it is in the sandbox: the specs come from the server.
func TestToolsFromElsewhere(t *testing.T) {
	t.Parallel()
	var called string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method + " " + r.URL.RequestURI() {
		case "GET /api/v1/me":
			_, _ = io.WriteString(w, `{"teams":[{"slug":"harbour"}]}`)
		case "GET /api/v1/teams/harbour/tools":
			_, _ = io.WriteString(w, `{"items":[{"name":"task_create","title":"Create a task","description":"Creates a task.","group":"tasks","permission":"allow","timeout_ms":60000,
				"arguments":{"type":"object","additionalProperties":false,"required":["title"],"properties":{"title":{"type":"string","description":"Title."},"body":{"type":"string","description":"More."}}},
				"command":{"positional":["title"],"stdin":"body","paths":[]},"needs":{"workspace":true,"writes":true,"network":false,"image_parts":[]},"unlisted":false}],"next_cursor":null}`)
		case "GET /api/v1/teams/harbour/workspaces?key=PW-12&show=all":
			_, _ = io.WriteString(w, `{"items":[{"id":"ws_1","key":"PW-12"}]}`)
		case "POST /api/v1/workspaces/ws_1/tools/task_create":
			called = r.Header.Get("Authorization") + " " + string(body)
			_, _ = io.WriteString(w, `{"content":[{"type":"text","text":"Created PW-T1."}],"structured":{"id":"PW-T1"},"is_error":false,"truncated":false}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","message":"It does not exist.","request_id":"r"}`)
		}
	}))
	t.Cleanup(server.Close)
	env := map[string]string{"PARAWORK_SERVER": server.URL, "PARAWORK_TOKEN": "pw_user_x"}
	r := run(env, "more", "task", "create", "Fix it", "--body", "-", "--workspace", "pw-12")
	want(t, r, 0, "Created PW-T1.\n")
	if called != `Bearer pw_user_x {"arguments":{"body":"more","title":"Fix it"}}` {
		t.Errorf("called %s", called)
	}
	if r = run(env, "", "task", "create", "x", "--workspace=ws_1", "--json"); r.code != 0 || r.out != `{"id":"PW-T1"}`+"\n" {
		t.Errorf("%+v", r)
	}
	want(t, run(env, "", "task", "create", "x"), 1, "tool_needs_workspace", "--workspace PW-12")
	want(t, run(env, "", "task", "create", "x", "--workspace", "ws_2", "--json"), 1, `"code":"not_found"`)
	want(t, run(env, "", "task", "create", "--workspace", "ws_1"), 2, "TITLE is missing")
	want(t, run(env, "", "tools"), 0, "task create")
	want(t, run(map[string]string{"PARAWORK_SERVER": server.URL}, "", "task", "list"), 2, "PARAWORK_TOKEN")
	if r = run(nil, "", "task", "list"); r.code != 2 || !strings.Contains(r.errout, `no command "task"`) {
		t.Errorf("%+v", r)
	}
}
