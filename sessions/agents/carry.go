package agents

import "strings"

// A carrier is an adapter whose agent continues a conversation in another home to which its record was copied.
type carrier interface {
	keeper
	// carried returns the name under which the agent looks for a file of a conversation's record when it works in this folder.
	carried(name, worktree string) string
}

// Carries reports whether an agent can continue its conversations in another home once their records are copied there. Other
// agents continue only where their whole home is copied, and otherwise begin a new conversation.
func (r *Registry) Carries(name string) bool {
	_, ok := r.adapters[name].(carrier)
	return ok
}

// Continues reports whether an agent that is started again can continue its conversation, as far as can be known in advance.
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

// Carried returns where in a home the agent looks for a conversation file that is called name in another home. Only for agents
// for which Carries is true.
func (r *Registry) Carried(agent, name, worktree string) string {
	if c, ok := r.adapters[agent].(carrier); ok {
		return c.carried(name, worktree)
	}
	return name
}

// maxClaudeFolder is the longest folder name that Claude Code uses unchanged; it hashes longer ones.
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
