package fromconfig

import (
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/sessions/agents"
)

// Load reads the configuration, which is told of the agents Parawork knows by itself; see config.Load.
func Load(path string, env func(string) string) (*config.Config, error) {
	return config.Load(path, env, agents.Programs())
}
