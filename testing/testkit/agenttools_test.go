package testkit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// Real agents find Parawork's tools without set-up, by MCP and as a command. In containers: TestAgentsInDocker.
func TestRealAgentsUseTheTools(t *testing.T) {
	t.Parallel()
	settings := bubbled(t)
	for _, agent := range []string{"claude-code", "codex"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			usesTools(t, agentInstance(t, agent, settings), "bubblewrap", agent)
		})
	}
}

// usesTools has a real agent use the tools by MCP and as a command: what it makes is in the team's API, and the record of calls says
// who called.
func usesTools(t *testing.T, h *testkit.Instance, place, agent string) {
	t.Helper()
	shell := bash
	if agent == "codex" {
		shell = func(command string) map[string]any {
			return tool("exec_command", map[string]any{"cmd": command, "yield_time_ms": 30_000})
		}
	}
	mcp := func(name string, input map[string]any) map[string]any {
		step := tool("mcp__parawork__"+name, input)
		step["repeat"], step["delay_ms"] = []string{"No such tool available"}, 200 // its client connects while it works
		return step
	}
	project := h.Sample()
	h.API("PATCH", "/projects/"+project, map[string]any{"checks": []any{map[string]any{"name": "Report", "command": "test -f report.md"}}}, nil)
	w := &work{t: t, h: h, ws: h.WorkspaceIn(place, project, "Tools")}
	var s testkit.Session
	h.API("POST", "/workspaces/"+w.ws.ID+"/sessions", map[string]any{"agent": agent, "cols": 120, "rows": 40, "permissions": "all", "prompt": script(t,
		shell(`parawork task create --title "By command" --json > task.json; echo report > report.md; parawork artifact save report.md`), // an agent ends what takes minutes
		shell(`parawork checkpoint create --note "Half way"; parawork verify > verify.txt`),
		shell(`parawork subagent spawn --name helper --agent command --task "echo found it" --json > sub.json; parawork subagent wait > wait.txt`),
		mcp("task_create", map[string]any{"title": "By MCP", "blocked_by": []string{"PW-T1"}}),
		shell("parawork task close PW-T1 --reason done > close.txt"),
		mcp("remember", map[string]any{"text": "The build needs make."}),
		map[string]any{"text": "All done."})}, &s)
	w.id = s.ID
	for _, name := range []string{"artifact_save", "verify", "subagent_wait", "task_close", "remember"} { // each may take its time
		w.waits("it has called "+name, func() bool {
			var calls struct {
				Items []struct{ Tool, Agent, Outcome string }
			}
			h.API("GET", "/sessions/"+s.ID+"/tool-calls", nil, &calls)
			return slices.ContainsFunc(calls.Items, func(c struct{ Tool, Agent, Outcome string }) bool {
				return c.Tool == name && c.Agent == agent && c.Outcome == "done"
			})
		})
	}
	var tasks struct {
		Items []struct {
			ID, Title, Status string
			BlockedBy         []string `json:"blocked_by"`
		}
	}
	h.API("GET", "/teams/"+h.Team+"/tasks?status=open,closed", nil, &tasks)
	if len(tasks.Items) != 2 {
		t.Errorf("tasks: %+v", tasks)
	}
	for _, k := range tasks.Items {
		if k.Title == "By command" && k.Status != "closed" || k.Title == "By MCP" && (k.Status != "open" || len(k.BlockedBy) != 0) {
			t.Errorf("task: %+v", k)
		}
	}
	var artifacts struct{ Items []struct{ Name string } }
	h.API("GET", "/workspaces/"+w.ws.ID+"/artifacts", nil, &artifacts)
	if len(artifacts.Items) != 1 || artifacts.Items[0].Name != "report.md" {
		t.Errorf("artifacts: %+v", artifacts)
	}
	var checkpoints struct {
		Items []struct{ Note, Reason string }
	}
	h.API("GET", "/workspaces/"+w.ws.ID+"/checkpoints", nil, &checkpoints)
	if !slices.ContainsFunc(checkpoints.Items, func(c struct{ Note, Reason string }) bool { return c.Note == "Half way" }) {
		t.Errorf("checkpoints: %+v", checkpoints)
	}
	for file, want := range map[string]string{"wait.txt": "found it", "close.txt": "PW-T2", "verify.txt": "The check passed."} {
		var c command
		h.API("POST", "/workspaces/"+w.ws.ID+"/exec", map[string]any{"argv": []string{"cat", file}}, &c)
		if !strings.Contains(c.Stdout, want) {
			t.Errorf("%s: %q", file, c.Stdout+c.Stderr)
		}
	}
}
