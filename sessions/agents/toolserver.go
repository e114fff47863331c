package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/parawork/parawork/guest"
)

// Tools is how an agent reaches Parawork's own tools. Each adapter writes it into its agent's configuration for this session, beside
// the person's and the project's own servers, and never into the repository.
type Tools struct {
	Ask   []string // tools that need a person's permission; all others are allowed
	Skill string   // SKILL.md for coding agents, which tells them of the command line; "" = none

	// Languages are those whose language servers the agent may use with tools of its own: for each its files' extensions, with the dot, and
	// the language ids of these.
	Languages map[string]map[string]string
}

// toolServer is the name under which agents know Parawork's tools.
const toolServer = "parawork"

// toolCommand is the program that an agent starts to reach the tools: the guest's relay.
func toolCommand() []string { return []string{"/bin/sh", "-c", `exec "$` + guest.EnvGuest + `" mcp`} }

// toolVariables are the variables that the relay needs, for agents that do not pass on their environment.
func toolVariables() []string { return []string{guest.EnvGuest, guest.EnvTools, guest.EnvHookToken} }

// writeSkill puts the skill into a folder of the agent's own skills. It leaves a person's own home alone: there the skill would stay
// for sessions that Parawork has not started.
func (h Home) writeSkill(dir string, t *Tools) error {
	if t == nil || h.own {
		return nil
	}
	name := path.Join(dir, toolServer, "SKILL.md")
	if t.Skill == "" {
		if err := h.files.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the agent's skill: %w", err)
		}
		return nil
	}
	if have, err := h.files.ReadFile(name); err == nil && string(have) == t.Skill {
		return nil
	}
	if err := h.files.Mkdir(path.Dir(name)); err != nil {
		return fmt.Errorf("writing the agent's skill: %w", err)
	}
	return h.write(name, []byte(t.Skill))
}

// claudeTools are the servers for the command line, which Claude adds to all others.
func claudeTools() map[string]any {
	c := toolCommand()
	return map[string]any{"mcpServers": map[string]any{toolServer: map[string]any{"type": "stdio", "command": c[0], "args": c[1:]}}}
}

// claudeToolRules allow Parawork's tools without asking, except those of t.Ask: of two rules the one that asks counts.
func claudeToolRules(t *Tools) map[string]any {
	rules := map[string]any{"allow": []string{"mcp__" + toolServer}}
	if len(t.Ask) > 0 {
		ask := make([]string, len(t.Ask))
		for i, name := range t.Ask {
			ask[i] = "mcp__" + toolServer + "__" + name
		}
		rules["ask"] = ask
	}
	return rules
}

// codexTools are settings for the command line. Codex starts servers with little of its own environment: the variables are named.
func codexTools(t *Tools) []string {
	c := toolCommand()
	quoted := func(words []string) string {
		out := make([]string, len(words))
		for i, w := range words {
			out[i] = tomlString(w)
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	const key = "mcp_servers." + toolServer + "."
	out := []string{key + "command=" + tomlString(c[0]), key + "args=" + quoted(c[1:]), key + "env_vars=" + quoted(toolVariables()), key + `default_tools_approval_mode="approve"`}
	for _, name := range t.Ask {
		out = append(out, key+"tools."+name+`.approval_mode="prompt"`)
	}
	return out
}

// geminiTools is the server in Gemini's settings. Gemini withholds variables whose names sound secret: they are named.
func geminiTools(t *Tools) map[string]any {
	c, env := toolCommand(), map[string]any{}
	for _, name := range toolVariables() {
		env[name] = "$" + name
	}
	return map[string]any{"command": c[0], "args": c[1:], "env": env, "trust": len(t.Ask) == 0}
}

// openCodeTools is the server in OpenCode's configuration.
func openCodeTools() map[string]any {
	return map[string]any{toolServer: map[string]any{"type": "local", "command": toolCommand(), "enabled": true}}
}

// openCodeRules say which of the tools OpenCode asks about.
func openCodeRules(t *Tools) map[string]any {
	rules := map[string]any{}
	for _, name := range t.Ask {
		rules[toolServer+"_"+name] = "ask"
	}
	return rules
}

// jsonText encodes a value of our own.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values always encode
	}
	return string(b)
}
