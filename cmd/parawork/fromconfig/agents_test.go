package fromconfig

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/config"
)

func TestAddressesOfAgents(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Agents = map[string]config.Agent{
		"codex": {Enabled: true, Env: map[string]string{"OPENAI_BASE_URL": "https://models.example/v1", "KEY": "sk-x", "PROXY": "socks5://x"}},
		"off":   {Env: map[string]string{"URL": "https://off.example"}},
	}
	agents, urls := AgentAddresses(cfg)
	if !slices.Equal(agents, []string{"codex"}) || !slices.Equal(urls, []string{"https://models.example/v1"}) {
		t.Errorf("%q %q", agents, urls)
	}
}
