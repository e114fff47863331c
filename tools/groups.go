package tools

import "slices"

// Group is a set of tools that a project switches on and off together.
type Group struct {
	Name        string
	Title       string // display name
	Description string // for people who decide about it
	Off         bool   // until somebody switches it on
}

// groups are all groups, in the order in which people and agents see them. A tool of a group that is not here is rejected.
var groups = []Group{
	{Name: "tasks", Title: "Tasks", Description: "Plan work as tasks with dependencies that people and all agents of the project share."},
	{Name: "artifacts", Title: "Artifacts", Description: "Keep files that outlive the sandbox: reports, pictures, builds."},
	{Name: "checkpoints", Title: "Checkpoints", Description: "Mark a state of all files, compare with it, and go back to it."},
	{Name: "subagents", Title: "Subagents", Description: "Start other agents for parts of the work, and collect their results."},
	{Name: "verification", Title: "Verification", Description: "Run the project's checks, and tell new failures from old ones."},
	{Name: "review", Title: "Review", Description: "Comment on lines of the changes, and sum up a review. Agents use it by the command line."},
	{Name: "language_servers", Title: "Language servers", Description: "Check edited files, find definitions and references, and rename, with the language's own server."},
	{Name: "memory", Title: "Memory", Description: "Remember facts for later sessions of the project, and find them again."},
	{Name: "skills", Title: "Skills", Description: "Find and read procedures of the team, the project and the repository, and save new ones as drafts. Agents use it by the command line."},
	{Name: "browser", Title: "Browser", Description: "Open pages in a browser inside the sandbox, look at them and act on them. Agents use it by the command line."},
	{Name: "browser_scripts", Title: "Scripts in pages", Description: "Run JavaScript in the pages of the browser.", Off: true},
	{Name: "desktop", Title: "Desktop", Description: "Use programs with windows on a screen inside the sandbox. Agents use it by the command line."},
	{Name: "code", Title: "Code", Description: "Run Python, JavaScript and shell code in interpreters that keep their variables, with pictures and tables as results."},
	{Name: "commands", Title: "Commands", Description: "Run a command in the sandbox, follow it and stop it. Agents with a terminal do not need it.", Off: true},
	{Name: "files", Title: "Files", Description: "Read, write and find files of the worktree. Agents that have such tools of their own do not need it.", Off: true},
	{Name: "web", Title: "Web pages", Description: "Read pages of the web from inside the sandbox. Agents that have such a tool of their own do not need it.", Off: true},
}

// Groups lists all groups, in the order in which people and agents see them.
func Groups() []Group { return append([]Group(nil), groups...) }

// groupIndex is the place of a group in the order; -1 for one that does not exist.
func groupIndex(name string) int {
	for i, g := range groups {
		if g.Name == name {
			return i
		}
	}
	return -1
}

// MaxListed is how many tools an MCP client is shown at most: each costs context at every turn.
const MaxListed = 20

// Selection is which groups are on for a caller. The zero Selection has those that are on by default.
type Selection struct {
	On   []string // besides the default
	Off  []string
	Only []string // groups and tools, of those that are on; nil = all
}

// Has reports whether a whole group is on.
func (s Selection) Has(group string) bool {
	return s.on(group) && (s.Only == nil || slices.Contains(s.Only, group))
}

// Allows reports whether a tool is on: with its group, or by its name.
func (s Selection) Allows(t Spec) bool {
	return s.on(t.Group) && (s.Only == nil || slices.Contains(s.Only, t.Group) || slices.Contains(s.Only, t.Name))
}

func (s Selection) on(group string) bool {
	switch i := groupIndex(group); {
	case slices.Contains(s.Off, group):
		return false
	case slices.Contains(s.On, group):
		return true
	default:
		return i >= 0 && !groups[i].Off
	}
}

// ContextTokens estimates what a tool in a list costs an agent at every turn: about four characters a token, for its name,
// description and arguments. An unlisted tool costs nothing.
func (s Spec) ContextTokens() int {
	if s.Unlisted {
		return 0
	}
	return (len(s.Name) + len(s.Description) + len(s.Arguments) + 3) / 4
}

// Listed returns the tools an MCP client is shown while groups are on: those that are not Unlisted, in order, at most MaxListed.
func Listed(specs []Spec, groups Selection) []Spec {
	var listed []Spec
	for _, s := range specs {
		if !s.Unlisted && groups.Allows(s) && len(listed) < MaxListed {
			listed = append(listed, s)
		}
	}
	return listed
}

// On returns the tools that can be called while groups are on, listed or not.
func On(specs []Spec, groups Selection) []Spec {
	var on []Spec
	for _, s := range specs {
		if groups.Allows(s) {
			on = append(on, s)
		}
	}
	return on
}
