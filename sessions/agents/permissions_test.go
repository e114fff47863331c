package agents_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

func TestPermissions(t *testing.T) {
	t.Parallel()
	settings := map[string]agents.Settings{
		agents.ClaudeCode: {Enabled: true, DefaultArgs: []string{"--permission-mode", "plan", "--model=x"}, Permissions: agents.AllPermissions},
		agents.Codex:      {Enabled: true, DefaultArgs: []string{"-s", "workspace-write", "--ask-for-approval=never", "-m", "x"}},
		agents.Gemini:     {Enabled: true, DefaultArgs: []string{"--approval-mode", "plan", "--debug"}},
		"mine":            {Enabled: true, Command: "mine", PermissionArgs: []string{"--trust", "me"}},
		"plain":           {Enabled: true, Command: "mine", Permissions: agents.AllPermissions},
	}
	h := newHarness(t, settings, "claude", "codex", "gemini", "opencode", "mine")
	in, _ := h.boxed(t, false)
	plan := func(agent, permissions string, in *agents.Inside, more ...string) (string, agents.Plan, error) {
		l := h.launch()
		l.Inside, l.Permissions, l.Args, l.Prompt = in, permissions, more, "go -s on"
		p, err := h.Plan(agent, l)
		return strings.Join(p.Argv, " "), p, err
	}
	for _, c := range []struct {
		agent, permissions string
		inside             bool
		with, without      []string
	}{
		{agents.ClaudeCode, "all", true, []string{"--dangerously-skip-permissions", "--model=x", `"skipDangerousModePermissionPrompt":true`, "-- go -s on"}, []string{"--permission-mode", "plan"}},
		{agents.ClaudeCode, "ask", true, []string{"--permission-mode plan"}, []string{"--dangerously", "skipDangerous"}},
		{agents.Codex, "all", true, []string{"--dangerously-bypass-approvals-and-sandbox", "-m x"}, []string{"workspace-write", "--ask-for-approval", "sandbox_mode"}},
		{agents.Codex, "ask", true, []string{`sandbox_mode="danger-full-access"`, `approval_policy="on-request"`, "-m x"}, []string{"workspace-write", "--ask-for-approval", "bypass"}},
		{agents.Codex, "ask", false, []string{"-s workspace-write --ask-for-approval=never"}, []string{"sandbox_mode", "bypass"}},
		{agents.Codex, "all", false, []string{"--dangerously-bypass-approvals-and-sandbox"}, []string{"workspace-write"}},
		{agents.Gemini, "all", true, []string{"--approval-mode=yolo", "--debug"}, []string{"plan"}},
		{agents.Gemini, "", true, []string{"--approval-mode plan"}, []string{"yolo"}},
		{"mine", "all", true, []string{"--trust me"}, nil},
		{"mine", "ask", true, nil, []string{"--trust"}},
	} {
		where := in
		if !c.inside {
			where = nil
		}
		argv, p, err := plan(c.agent, c.permissions, where)
		if err != nil {
			t.Errorf("%s %s: %v", c.agent, c.permissions, err)
		}
		for _, w := range c.with {
			if !strings.Contains(argv, w) {
				t.Errorf("%s %s: no %q in %q", c.agent, c.permissions, w, argv)
			}
		}
		for _, w := range c.without {
			if slices.Contains(p.Argv, w) || strings.Contains(w, "-") && strings.Contains(argv, w) {
				t.Errorf("%s %s: %q in %q", c.agent, c.permissions, w, argv)
			}
		}
	}
	if _, p, err := plan(agents.OpenCode, "all", in); err != nil || !strings.Contains(p.Env["OPENCODE_CONFIG_CONTENT"], `"bash":"allow"`) {
		t.Errorf("opencode: %v, %v", p.Env, err)
	}
	if argv, _, err := plan(agents.ClaudeCode, "all", in, "--permission-mode=dontAsk", "--verbose"); err != nil || strings.Contains(argv, "dontAsk") || !strings.Contains(argv, "--verbose") {
		t.Errorf("options of the session: %q, %v", argv, err)
	}
	_, _, err := plan(agents.ClaudeCode, "all", nil)
	if root := os.Geteuid() == 0; root != (fault.CodeOf(err) == "permissions_refused_as_root") || !root && err != nil {
		t.Errorf("without a boundary: %v", err)
	}
	for agent, code := range map[string]string{agents.Shell: "agent_has_no_permissions", "plain": "agent_has_no_permissions"} {
		if err := h.CheckPermissions(agent, "all"); fault.CodeOf(err) != code {
			t.Errorf("%s: %v", agent, err)
		}
	}
	if err := h.CheckPermissions(agents.Codex, "some"); fault.CodeOf(err) != "invalid_permissions" {
		t.Errorf("%v", err)
	}
	for agent, want := range map[string]string{agents.ClaudeCode: "all", agents.Codex: "ask", "plain": "ask", agents.Shell: "ask"} {
		if got := h.Permissions(agent, true); got != want {
			t.Errorf("%s is started with %q", agent, got)
		}
		if got := h.Permissions(agent, false); got != "ask" {
			t.Errorf("%s is started with %q where nothing keeps it in", agent, got)
		}
	}
}
