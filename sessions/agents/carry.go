package agents

import "strings"

// A carrier is an adapter whose agent goes on with a conversation in another home that was given its record.
type carrier interface {
	keeper
	// carried says under which name the agent looks for a file of a conversation's record when it works in this folder.
	carried(name, worktree string) string
}

// Carries reports whether an agent's conversations go on in another home: their record is copied there. Other agents go on where their
// home comes along, and begin anew elsewhere.
func (r *Registry) Carries(name string) bool {
	_, ok := r.adapters[name].(carrier)
	return ok
}

// Continues reports whether an agent that is started again can go on with its conversation at all, as far as is known beforehand.
func (r *Registry) Continues(name string) bool {
	if c, ok := r.adapters[name].(interface{ resumes() bool }); ok {
		return c.resumes()
	}
	switch name {
	case Command, Shell, Setup:
		return false
	}
	return r.adapters[name] != nil
}

// Carried returns where in a home the agent looks for a file of a conversation's record that lies under name in another one. Only for
// agents that Carries names.
func (r *Registry) Carried(agent, name, worktree string) string {
	if c, ok := r.adapters[agent].(carrier); ok {
		return c.carried(name, worktree)
	}
	return name
}

// maxClaudeFolder is how long the name of a folder is that Claude Code uses as it is; longer ones get a hash of its own making.
const maxClaudeFolder = 200

// carried: the folder is named after the working directory, with everything but letters and digits as dashes.
func (claudeCode) carried(name, worktree string) string {
	const dir = claudeDir + "/projects/"
	_, rest, ok := strings.Cut(strings.TrimPrefix(name, dir), "/")
	folder := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, worktree)
	if !strings.HasPrefix(name, dir) || !ok || len(folder) > maxClaudeFolder {
		return name
	}
	return dir + folder + "/" + rest
}

// carried: rollouts lie in a folder a day, wherever the agent worked.
func (codex) carried(name, _ string) string { return name }
