package agents_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

const skill = "---\nname: parawork\ndescription: Tasks and more.\n---\nRun parawork --help.\n"

// after returns what follows a word of a command line, or what is behind its "=".
func after(argv []string, option string) string {
	for i, w := range argv {
		if rest, ok := strings.CutPrefix(w, option+"="); ok {
			return rest
		}
		if w == option && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

func (h *harness) read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.homes, "usr_1", name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(raw)
}

// Every agent finds Parawork's tools without set-up: its own configuration names the guest's relay, and its skills the command line.
func TestAgentsFindTheTools(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex", "gemini", "opencode")
	h.write(t, filepath.Join(h.homes, "usr_1", ".gemini", "settings.json"), `{"mcpServers":{"mine":{"command":"mine"}}}`, 0o600)
	plan := func(agent string, tools *agents.Tools) agents.Plan {
		l := h.launch()
		l.Tools, l.Hooks, l.Prompt = tools, true, "Do it."
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	tools := &agents.Tools{Ask: []string{"checkpoint_restore"}, Skill: skill, Languages: map[string]map[string]string{"go": {".go": "go"}}}
	const relay = `exec "$PARAWORK_GUEST" mcp`

	p := plan(agents.ClaudeCode, tools)
	if c := after(p.Argv, "--mcp-config"); !strings.Contains(c, `"parawork"`) || !strings.Contains(c, `exec \"$PARAWORK_GUEST\" mcp`) || !json.Valid([]byte(c)) {
		t.Errorf("Claude Code is started with %q", c)
	}
	if s := after(p.Argv, "--settings"); !strings.Contains(s, `"allow":["mcp__parawork"]`) || !strings.Contains(s, `"ask":["mcp__parawork__checkpoint_restore"]`) {
		t.Errorf("Claude Code's settings are %s", s)
	}
	if dir := after(p.Argv, "--plugin-dir"); dir != filepath.Join(h.homes, "usr_1", ".cache/parawork/claude-code") {
		t.Errorf("Claude Code's plugin is %q", dir)
	} else if got := h.read(t, ".cache/parawork/claude-code/.claude-plugin/plugin.json"); !strings.Contains(got, `tool lsp go --no-diagnostics`) || !strings.Contains(got, `{".go":"go"}`) {
		t.Errorf("it is %s", got)
	}
	if last := p.Argv[len(p.Argv)-2:]; last[0] != "--" || last[1] != "Do it." {
		t.Errorf("the prompt is no longer the last argument: %q", p.Argv)
	}

	p = plan(agents.Codex, tools)
	for _, want := range []string{`mcp_servers.parawork.command="/bin/sh"`, `mcp_servers.parawork.env_vars=["PARAWORK_GUEST","PARAWORK_TOOLS","PARAWORK_HOOK_TOKEN"]`,
		`mcp_servers.parawork.default_tools_approval_mode="approve"`, `mcp_servers.parawork.tools.checkpoint_restore.approval_mode="prompt"`} {
		if !slices.Contains(p.Argv, want) {
			t.Errorf("Codex is started without %s: %q", want, p.Argv)
		}
	}

	plan(agents.Gemini, tools)
	servers := h.doc(t, ".gemini/settings.json")["mcpServers"].(map[string]any)
	ours, _ := servers["parawork"].(map[string]any)
	if servers["mine"] == nil || ours["command"] != "/bin/sh" || ours["env"].(map[string]any)["PARAWORK_HOOK_TOKEN"] != "$PARAWORK_HOOK_TOKEN" {
		t.Errorf("Gemini's servers are %v", servers)
	}

	p = plan(agents.OpenCode, tools)
	var config struct {
		MCP map[string]struct {
			Type    string
			Command []string
		}
		Permission map[string]string
	}
	if err := json.Unmarshal([]byte(p.Env["OPENCODE_CONFIG_CONTENT"]), &config); err != nil {
		t.Fatal(err)
	}
	if s := config.MCP["parawork"]; s.Type != "local" || len(s.Command) != 3 || s.Command[2] != relay || config.Permission["parawork_checkpoint_restore"] != "ask" {
		t.Errorf("OpenCode's configuration is %s", p.Env["OPENCODE_CONFIG_CONTENT"])
	}

	skills := []string{".claude/skills/parawork/SKILL.md", ".codex/skills/parawork/SKILL.md", ".gemini/skills/parawork/SKILL.md", ".config/opencode/skills/parawork/SKILL.md"}
	for _, name := range skills {
		if h.read(t, name) != skill {
			t.Errorf("%s is %q", name, h.read(t, name))
		}
	}
	for _, agent := range []string{agents.ClaudeCode, agents.Codex, agents.Gemini, agents.OpenCode} {
		if p := plan(agent, &agents.Tools{}); after(p.Argv, "--plugin-dir") != "" { // all groups are off
			t.Errorf("%s has a plugin that is of no use", agent)
		}
	}
	for _, name := range skills {
		if h.read(t, name) != "" {
			t.Errorf("%s is still there", name)
		}
	}
	for _, agent := range []string{agents.ClaudeCode, agents.Codex, agents.OpenCode} {
		if p := plan(agent, nil); strings.Contains(strings.Join(p.Argv, " ")+p.Env["OPENCODE_CONFIG_CONTENT"], "PARAWORK_GUEST\" mcp") {
			t.Errorf("%s is sent to tools that its sandbox does not offer: %q", agent, p.Argv)
		}
	}
}

// A check of edits that fails never keeps an agent from going on: for Claude, 2 would.
func TestAFailedCheckBlocksNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude")
	h.write(t, filepath.Join(h.bin, "guest"), "#!/bin/sh\necho usage >&2\nexit 2\n", 0o755)
	for name, guest := range map[string]string{"an old guest": filepath.Join(h.bin, "guest"), "no guest": ""} {
		cmd := exec.Command("/bin/sh", "-c", agents.EditedCommand())
		cmd.Env = []string{"PARAWORK_GUEST=" + guest}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
