package fromconfig

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/sessions/agents"
)

func TestAddressesOfAgents(t *testing.T) {
	t.Parallel()
	cfg := config.Default(agents.Programs(), nil)
	cfg.Agents = map[string]config.Agent{
		"codex": {Enabled: true, Env: map[string]string{"OPENAI_BASE_URL": "https://models.example/v1", "KEY": "sk-x", "PROXY": "socks5://x"}},
		"off":   {Env: map[string]string{"URL": "https://off.example"}},
	}
	hosts, urls := AgentAddresses(cfg)
	if !slices.Contains(hosts, "api.openai.com") || slices.Contains(hosts, "api.anthropic.com") || !slices.Equal(urls, []string{"https://models.example/v1"}) {
		t.Errorf("%q %q", hosts, urls)
	}
}
