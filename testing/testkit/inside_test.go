package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

// outside is an address of this machine that is not the sandbox's own loopback: it is reached through the gate, where config.json allows
// it.
const outside = "127.0.0.2"

// bubbled says that workspaces live in bubblewrap.
func bubbled(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed: run testing/scripts/test-setup.sh")
	}
	return `"sandboxing":{"network":{"allowPrivate":["` + outside + `"]}}`
}

// A shell inside finds a home of the workspace's own, the agents' programs, and nothing of the server's environment.
func TestShellInside(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code", bubbled(t))
	ws := h.WorkspaceIn("bubblewrap", h.Sample(), "Inside")
	says := func(cmd string) string {
		t.Helper()
		s := h.Run(ws.ID, "sh", "-c", cmd)
		h.Ended(s.ID)
		return strings.ReplaceAll(string(h.Output(s.ID, 0)), "\r", "")
	}
	env := says("env")
	for _, want := range []string{"HOME=/home/agent\n", "TMPDIR=/tmp\n", "XDG_CONFIG_HOME=/home/agent/.config\n", "CLAUDE_CONFIG_DIR=/home/agent/.claude\n", "PARAWORK_GUEST=/opt/parawork/"} {
		if !strings.Contains(env, want) {
			t.Errorf("no %q in\n%s", want, env)
		}
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PARAWORK_TEST") || strings.HasPrefix(name, "GO") || len(value) > 20 && name != "PATH" && strings.Contains(env, "="+value+"\n") {
			if strings.Contains(env, "\n"+entry+"\n") {
				t.Errorf("%s of the server's environment is inside", name)
			}
		}
	}
	if got := says("claude --version"); !strings.Contains(got, "Claude Code") {
		t.Errorf("claude by name: %q", got)
	}
	// An agent that is in no place says what to do about it.
	h.Refused(409, "agent_not_installed", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "gemini"})
	h.Refused(400, "agent_has_no_permissions", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "permissions": "all"})
}

// Real agents live in a process sandbox: they reach their model through the gate, ask, are answered from outside, and go on after the
// server was killed; what they did becomes the branch.
func TestClaudeInBubblewrap(t *testing.T) {
	t.Parallel()
	h := agentInstanceAt(t, outside, "claude-code", bubbled(t))
	agentInside(t, h, "bubblewrap", "claude-code", bash("touch one.txt"), tool("Write", map[string]any{"file_path": "two.txt", "content": "a\nb\n"}))
}

func TestCodexInBubblewrap(t *testing.T) {
	t.Parallel()
	h := agentInstanceAt(t, outside, "codex", bubbled(t))
	command := func(cmd string) map[string]any { return tool("exec_command", map[string]any{"cmd": cmd}) }
	agentInside(t, h, "bubblewrap", "codex", command("printf 'a\\nb\\n' > two.txt"), command("touch one.txt; rm -rf build"))
}

// The same in containers, whose image has the agents' programs and whose engine knows of no network.
func TestAgentsInDocker(t *testing.T) {
	t.Parallel()
	claude, codex := realAgent(t, "claude"), realAgent(t, "codex")
	native, err := filepath.Glob(filepath.Join(filepath.Dir(codex), "../@openai/codex-linux-*/vendor/*/bin/codex"))
	if err != nil || len(native) == 0 {
		t.Fatalf("codex has no program of its own: %v", err)
	}
	d, err := testdocker.Start()
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	must(t, d.Import("parawork-test-agents:latest", claude, native[0]))
	where := fmt.Sprintf(`"sandboxing":{"network":{"allowPrivate":[%q]},"docker":{"enabled":true,"host":%q,"image":"parawork-test-agents:latest"}}`, outside, d.Host)
	t.Run("claude", func(t *testing.T) {
		t.Parallel()
		h := agentInstanceAt(t, outside, "claude-code", where)
		agentInside(t, h, "docker", "claude-code", bash("touch one.txt"), tool("Write", map[string]any{"file_path": "two.txt", "content": "a\nb\n"}))
		ws := h.WorkspaceIn("docker", h.Sample(), "Nothing there")
		var s testkit.Session
		h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "gemini"}, &s)
		if s.State != "failed" || !strings.Contains(s.StateReason, "Gemini CLI is not in this sandbox's image") || !strings.Contains(s.StateReason, "npm install") || !strings.Contains(s.StateReason, "The guest looked for it in /") || !strings.Contains(s.StateReason, " /usr/local/sbin, ") {
			t.Errorf("an agent that is not in the image: %s, %q", s.State, s.StateReason)
		}
	})
	t.Run("codex", func(t *testing.T) {
		t.Parallel()
		command := func(cmd string) map[string]any { return tool("exec_command", map[string]any{"cmd": cmd}) }
		agentInside(t, agentInstanceAt(t, outside, "codex", where), "docker", "codex", command("printf 'a\\nb\\n' > two.txt"), command("touch one.txt; rm -rf build"))
	})
	for _, agent := range []string{"claude-code", "codex"} {
		t.Run(agent+" and the tools", func(t *testing.T) {
			t.Parallel()
			usesTools(t, agentInstanceAt(t, outside, agent, where), "docker", agent)
		})
	}
}

// With all permissions the real agents ask for nothing, where the place keeps them in; elsewhere that must be confirmed.
func TestAllPermissionsInBubblewrap(t *testing.T) {
	t.Parallel()
	for agent, step := range map[string]map[string]any{"claude-code": bash("touch one.txt"), "codex": tool("exec_command", map[string]any{"cmd": "touch one.txt"})} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			h := agentInstanceAt(t, outside, agent, bubbled(t))
			w := &work{t: t, h: h, ws: h.WorkspaceIn("bubblewrap", h.Sample(), "All")}
			var s struct{ ID, Permissions string }
			h.API("POST", "/workspaces/"+w.ws.ID+"/sessions", map[string]any{"agent": agent, "prompt": script(t, step), "permissions": "all", "cols": 120, "rows": 40}, &s)
			w.id = s.ID
			if s.Permissions != "all" {
				t.Errorf("recorded: %q", s.Permissions)
			}
			w.waits("the file is made", func() bool { return w.made("one.txt") })
			w.reaches("idle")
			if asked := w.questions(); len(asked) != 0 {
				t.Errorf("it asked %+v", asked)
			}
			here := h.WorkspaceIn("local", h.Sample(), "Nothing keeps it in")
			h.Refused(409, "no_boundary", "POST", "/workspaces/"+here.ID+"/sessions", map[string]any{"agent": agent, "permissions": "all"})
			jobDone(t, h, agent, step)
		})
	}
}

func agentInside(t *testing.T, h *testkit.Instance, place, agent string, steps ...map[string]any) {
	w := askIn(t, h, place, agent, steps...)
	var box struct{ Executor, Boundary string }
	h.API("GET", "/workspaces/"+w.ws.ID+"/sandbox", nil, &box)
	if box.Executor != place {
		t.Fatalf("it lives in %+v", box)
	}
	for _, title := range []string{"one.txt", "two.txt"}[:len(steps)-map[string]int{"codex": 1}[agent]] {
		q := w.asked(title)
		if got := w.reply(q, map[string]any{"option_id": q.Options[0].ID}); got.State != "answered" {
			t.Errorf("answered %+v", got)
		}
	}
	w.reaches("idle")
	h.Wait("both changes are listed", func() bool {
		c := h.Changes(w.ws.ID)
		_, one := c.Find("one.txt")
		two, ok := c.Find("two.txt")
		return one && ok && two.Additions == 2
	})
	said := func(id string) (kinds []string) {
		var c struct {
			Items []struct{ Kind, Tool, Title, Text string }
		}
		h.API("GET", "/sessions/"+id+"/conversation", nil, &c)
		for _, it := range c.Items {
			kinds = append(kinds, it.Kind+" "+it.Tool+" "+it.Title+" "+it.Text)
		}
		return kinds
	}
	h.Wait("the conversation is read from the agent's record in its home", func() bool {
		all := strings.Join(said(w.id), "\n")
		return strings.Contains(all, "prompt") && strings.Contains(all, "one.txt") && strings.Contains(all, "two.txt")
	})

	h.Wait("what it asked of the model is counted by the gateway", func() bool { s := w.spent(); return s.Source == "gateway" && s.Requests > 0 && s.Unknown == 0 })

	h.Kill()
	h.Boot()
	w.reaches("idle")
	h.API("POST", "/sessions/"+w.id+"/stop", nil, nil)
	h.Ended(w.id)
	var next testkit.Session
	h.API("POST", "/sessions/"+w.id+"/resume", nil, &next)
	old := w.id
	w.id = next.ID
	w.waits("the conversation is shown again in the terminal", func() bool { return strings.Contains(w.screen(), "two.txt") })
	w.reaches("idle")
	if n := len(said(old)); n == 0 {
		t.Error("what was kept of the conversation is gone")
	}

	var commit struct{ Commit string }
	h.API("POST", "/workspaces/"+w.ws.ID+"/commit", map[string]any{"message": "Make files", "paths": []string{"one.txt", "two.txt"}}, &commit)
	var m struct{ Merged bool }
	h.API("POST", "/workspaces/"+w.ws.ID+"/merge", map[string]any{"strategy": "squash", "message": "Files"}, &m)
	if !m.Merged {
		t.Errorf("merge: %+v", m)
	}
	if entries, err := os.ReadDir(filepath.Join(h.DataDir(), "homes")); err == nil {
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				t.Errorf("the agent's home is on the host: %s", e.Name())
			}
		}
	}
	// After the sandbox is gone the conversation stays.
	h.API("POST", "/workspaces/"+w.ws.ID+"/destroy-sandbox", nil, nil)
	h.Ended(w.id)
	if all := strings.Join(said(old), "\n"); !strings.Contains(all, "two.txt") {
		t.Errorf("kept: %s", all)
	}
}
