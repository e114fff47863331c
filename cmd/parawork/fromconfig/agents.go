// Package fromconfig says what config.json says in the words of the packages it is for, and refuses what this machine cannot keep. It has no
// goroutine and no lock.
package fromconfig

import (
	"net/url"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/sessions/agents"
)

// Agents turns the configuration's agents into the registry's.
func Agents(cfg *config.Config) map[string]agents.Settings {
	out := map[string]agents.Settings{}
	for name, a := range cfg.Agents {
		set := agents.Settings{Enabled: a.Enabled, Name: a.Name, Command: a.Command, DefaultArgs: a.DefaultArgs, Env: a.Env,
			Prompt: agents.Delivery(a.Prompt.Delivery), PromptFlag: a.Prompt.Flag, Install: a.Install,
			ConversationArgs: a.Conversation.Args, ConversationPattern: a.Conversation.Pattern, ResumeArgs: a.Resume.Args,
			Permissions: a.Permissions, PermissionArgs: a.PermitArgs,
			Interrupt: a.InterruptKeys(), InterruptName: a.Interrupt, AccountEnv: a.Account.Env, BaseURLEnv: a.Account.BaseURLEnv, AccountAPI: a.Account.API}
		for _, r := range a.ScreenRules {
			rule := agents.ScreenRule{Pattern: r.Pattern, Says: r.Says, Reason: r.Reason, Lines: r.Lines}
			for _, o := range r.Options {
				rule.Options = append(rule.Options, agents.ScreenOption{Label: o.Label, Keys: o.Bytes(), Role: agents.Role(o.Role)})
			}
			set.Screen = append(set.Screen, rule)
		}
		out[name] = set
	}
	return out
}

// AgentAddresses are the hosts that the agents that can be started need, and the addresses config.json gives them.
func AgentAddresses(cfg *config.Config) (hosts, urls []string) {
	var names []string
	for name, a := range cfg.Agents {
		if !a.Enabled {
			continue
		}
		names = append(names, name)
		for _, value := range a.Env {
			if u, err := url.Parse(value); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
				urls = append(urls, value)
			}
		}
	}
	return agents.Hosts(names), urls
}
