package fromconfig

import (
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/sessions/agents"
)

// Load reads the configuration, with the agents that this program knows and the kinds of places it has: see config.Load.
func Load(path string, env func(string) string, kinds executors.Descriptors) (*config.Config, error) {
	return config.Load(path, env, agents.Programs(), Kinds(kinds))
}
