package agents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

func TestWhoGoesThroughTheGateway(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{
		"anth":            {Enabled: true, Command: "own", AccountEnv: "K", BaseURLEnv: "B", AccountAPI: agents.AnthropicAPI},
		"mute":            {Enabled: true, Command: "own", AccountEnv: "K", BaseURLEnv: "B"},
		agents.OpenCode:   {Enabled: true},
		agents.Codex:      {Enabled: true},
		agents.Gemini:     {Enabled: true},
		agents.ClaudeCode: {Enabled: true},
	}, "claude", "codex", "opencode", "gemini", "own")
	bedrock := newHarness(t, map[string]agents.Settings{agents.ClaudeCode: {Enabled: true, Env: map[string]string{"CLAUDE_CODE_USE_BEDROCK": "1"}},
		agents.Codex: {Enabled: true, Env: map[string]string{"OPENAI_BASE_URL": "https://elsewhere.example"}}}, "claude", "codex")
	for _, c := range []struct {
		h                *harness
		agent, kind, key string
		want             string
	}{
		{h, agents.ClaudeCode, agents.APIKey, "sk-ant-api03-x", agents.AnthropicAPI},
		{h, agents.ClaudeCode, agents.APIKey, "a-gateway-of-yours", agents.AnthropicAPI},
		{h, agents.ClaudeCode, agents.APIKey, "sk-ant-oat01-x", ""}, // a subscription's
		{h, agents.ClaudeCode, agents.Terminal, "", ""},
		{h, agents.ClaudeCode, agents.ExistingLogin, "", ""},
		{h, agents.Codex, agents.APIKey, "sk-proj-x", agents.OpenAIAPI},
		{h, agents.OpenCode, agents.APIKey, "sk-proj-x", agents.OpenAIAPI},
		{h, agents.OpenCode, agents.APIKey, "sk-ant-api03-x", agents.AnthropicAPI},
		{h, agents.Gemini, agents.APIKey, "AIza", ""},
		{h, agents.Shell, agents.APIKey, "x", ""},
		{h, "anth", agents.APIKey, "x", agents.AnthropicAPI},
		{h, "mute", agents.APIKey, "x", ""},
		{bedrock, agents.ClaudeCode, agents.APIKey, "sk-ant-api03-x", ""},
		{bedrock, agents.Codex, agents.APIKey, "sk-proj-x", ""},
	} {
		if got := c.h.Dialect(c.agent, agents.Account{Kind: c.kind, Secret: c.key}); got != c.want {
			t.Errorf("%s with %s %q: %q, want %q", c.agent, c.kind, c.key, got, c.want)
		}
	}
}

func TestGatewayInPlans(t *testing.T) {
	t.Parallel()
	const url, token = "http://127.0.0.1:4567", "pwg_token"
	h := newHarness(t, map[string]agents.Settings{"own": {Enabled: true, Command: "own", AccountEnv: "K", BaseURLEnv: "B", AccountAPI: agents.OpenAIAPI}}, "claude", "codex", "opencode", "own")
	plan := func(agent, api string) (agents.Plan, string) {
		t.Helper()
		l := h.launch()
		l.Account = agents.Account{ID: "acc_1", Kind: agents.APIKey, Gateway: &agents.Gateway{URL: url, Token: token, API: api}}
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatal(err)
		}
		if p.Env["PARAWORK_GATEWAY_URL"] != url || p.Secrets["PARAWORK_GATEWAY_TOKEN"] != token {
			t.Errorf("%s does not get the gateway's address: %v %v", agent, p.Env, p.Secrets)
		}
		if strings.Contains(fmt.Sprint(p.Argv, p.Env), token) {
			t.Errorf("%s: the token is where it may be shown: %v %v", agent, p.Argv, p.Env)
		}
		return p, strings.Join(p.Argv, " ")
	}
	p, _ := plan(agents.ClaudeCode, agents.AnthropicAPI)
	if p.Env["ANTHROPIC_BASE_URL"] != url+"/anthropic" || p.Secrets["ANTHROPIC_AUTH_TOKEN"] != token || p.Secrets["ANTHROPIC_API_KEY"] != "" || !slices.Contains(p.Drops, "ANTHROPIC_API_KEY") {
		t.Errorf("Claude Code: %+v", p)
	}
	p, argv := plan(agents.Codex, agents.OpenAIAPI)
	if !strings.Contains(argv, `base_url="`+url+`/openai/v1",env_key="PARAWORK_GATEWAY_TOKEN"`) || p.Secrets["OPENAI_API_KEY"] != "" {
		t.Errorf("Codex: %s %v", argv, p.Secrets)
	}
	p, _ = plan(agents.OpenCode, agents.OpenAIAPI)
	if !strings.Contains(p.Env["OPENCODE_CONFIG_CONTENT"], `"openai":{"options":{"baseURL":"`+url+`/openai/v1"}}`) || p.Secrets["OPENAI_API_KEY"] != token {
		t.Errorf("OpenCode: %+v", p)
	}
	p, _ = plan(agents.OpenCode, agents.AnthropicAPI)
	if !strings.Contains(p.Env["OPENCODE_CONFIG_CONTENT"], `"anthropic":{"options":{"baseURL":"`+url+`/anthropic/v1"}}`) || p.Secrets["ANTHROPIC_API_KEY"] != token {
		t.Errorf("OpenCode with a key of Anthropic: %+v", p)
	}
	if p, _ = plan("own", agents.OpenAIAPI); p.Env["B"] != url+"/openai/v1" || p.Secrets["K"] != token {
		t.Errorf("an agent of one's own: %+v", p)
	}
}
