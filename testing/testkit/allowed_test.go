package testkit_test

import (
	"net/http"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// Where config.json names the commands that may run on the server itself, others are refused until somebody allows them for the
// project, and a place that isolates runs everything.
func TestAllowedCommands(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, `"sandboxing":{"defaultProvider":"local","local":{"allowedCommands":["git"]}}`)
	project := h.Sample()
	ws := h.Workspace(project, "Allowed")
	exec := "/workspaces/" + ws.ID + "/exec"
	allowed := func(body map[string]any) {
		t.Helper()
		var c command
		if h.API("POST", exec, body, &c); c.State != "completed" || *c.ExitCode != 0 {
			t.Errorf("%v: %+v", body, c)
		}
	}
	refused := func(path string, body map[string]any) {
		t.Helper()
		p := h.Refused(http.StatusForbidden, "command_not_allowed", "POST", path, body)
		if p == nil || p.Details["program"] != "id" || p.Details["project_id"] != project {
			t.Errorf("%v: %+v", body, p)
		}
	}
	allowed(map[string]any{"argv": []string{"git", "status"}})
	allowed(map[string]any{"command": "git status && echo $(git log -1)"})
	refused(exec, map[string]any{"argv": []string{"id"}})
	refused(exec, map[string]any{"command": "git status && echo $(id)"})
	refused("/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "command", "argv": []string{"id"}})
	h.API("PATCH", "/projects/"+project, map[string]any{"allowed_commands": []string{"id"}}, nil)
	allowed(map[string]any{"argv": []string{"id"}})
	if s := h.Ended(h.Run(ws.ID, "id").ID); s.State != "exited" {
		t.Errorf("a session: %+v", s)
	}
}
