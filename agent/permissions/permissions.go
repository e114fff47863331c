// Package permissions decides by rules which calls Parawork's own agent makes without asking, which it asks a person about, and which it does
// not make. A rule names a tool or a group of tools and, if it likes, a pattern: of commands, of paths of the worktree, or of hosts. Rules
// belong to a team, a project or a session. Of those that apply, deny beats ask, and ask beats allow: a project cannot weaken its team.
//
// What a rule allows must be certain: a command line counts as allowed only when every command in it is, as it will run. For a rule that
// asks or denies it is enough that the call may be meant. Rules are no sandbox: an allowed program does what its arguments say.
//
// The package starts no goroutine and holds no lock.
package permissions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/tools"
)

// Effect is what a rule does with a call.
type Effect string

// The effects, from the weakest to the strongest. "" is the effect of no rule.
const (
	Allow Effect = "allow"
	Ask   Effect = "ask"
	Deny  Effect = "deny"
)

// Bounds.
const (
	MaxRules   = 200 // of a team, a project or a session
	MaxPattern = 500 // bytes
)

// AnyTool is the Tool of a rule about all tools.
const AnyTool = "*"

// Rule says what happens with calls.
type Rule struct {
	ID        string
	TeamID    string
	ProjectID string // "" = of the team
	SessionID string // of one session alone: what a person allowed "for this session"
	Tool      string // the name of a tool or of a group of tools, or AnyTool
	Pattern   string // "" = every call
	Effect    Effect
	CreatedBy string
	CreatedAt int64 // ms UTC
}

// String is the rule in one line, as people are shown it.
func (r Rule) String() string {
	s := string(r.Effect) + " " + r.Tool
	if r.Pattern != "" {
		s += ": " + r.Pattern
	}
	return s
}

// Scope says in words whose rule it is.
func (r Rule) Scope() string {
	switch {
	case r.SessionID != "":
		return "session"
	case r.ProjectID != "":
		return "project"
	}
	return "team"
}

// Decision is what rules say about a call.
type Decision struct {
	Effect Effect // "" = no rule says anything: the tool's own default counts
	Rule   Rule   // the one that decided; with Allow the first of them
	Reason string // why a rule that allows did not count, as text; "" = there is no such rule
}

// kind is what the pattern of a tool's rule matches.
type kind int

const (
	plain kind = iota // it has none
	commands
	paths
	hosts
)

// kindOf says what the patterns of a tool match. Arguments that are paths or addresses are found by their names.
func kindOf(s tools.Spec) kind {
	switch {
	case s.Name == runCommand:
		return commands
	case has(s, "url"):
		return hosts
	case has(s, "path") || has(s, "paths") || s.Name == "glob":
		return paths
	}
	return plain
}

const runCommand = "run_command"

// has reports whether a tool has an argument.
func has(s tools.Spec, argument string) bool {
	var schema struct{ Properties map[string]json.RawMessage }
	return json.Unmarshal(s.Arguments, &schema) == nil && schema.Properties[argument] != nil
}

// Check validates a rule about tools that exist. Errors: invalid_permission_rule.
func Check(r Rule, specs []tools.Spec) error {
	bad := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_permission_rule", format, args...).With("field", field)
	}
	switch r.Effect {
	case Allow, Ask, Deny:
	default:
		return bad("effect", "The effect is allow, ask or deny.")
	}
	var kinds []kind
	for _, s := range specs {
		if r.Tool == AnyTool || r.Tool == s.Name || r.Tool == s.Group {
			kinds = append(kinds, kindOf(s))
		}
	}
	switch {
	case len(kinds) == 0:
		return bad("tool", "There is no tool and no group of tools %q. GET /teams/{team}/tools lists them; * stands for all.", safetext.Cut(safetext.Line(r.Tool), 64))
	case r.Pattern == "":
		return nil
	case len(r.Pattern) > MaxPattern:
		return bad("pattern", "The pattern is longer than %d bytes.", MaxPattern)
	case strings.TrimSpace(r.Pattern) != r.Pattern || strings.ContainsRune(r.Pattern, 0):
		return bad("pattern", "The pattern begins or ends with white space, or has a NUL character.")
	case r.Tool == AnyTool:
		return bad("pattern", "A rule about all tools has no pattern: name a tool or a group.")
	}
	wrong := "no pattern distinguishes calls of this tool: leave it out"
	for _, k := range kinds {
		var why string
		switch k {
		case plain:
			continue
		case commands:
			why = wrongCommand(r.Pattern, r.Effect)
		case paths:
			why = wrongPath(r.Pattern)
		case hosts:
			why = wrongHost(r.Pattern)
		}
		if wrong = why; why == "" {
			return nil
		}
	}
	return bad("pattern", "The pattern %q cannot be used: %s.", safetext.Cut(safetext.Line(r.Pattern), 100), wrong)
}

// About reports whether a rule is about a tool.
func (r Rule) About(s tools.Spec) bool {
	return r.Tool == AnyTool || r.Tool == s.Name || r.Tool == s.Group
}

// Mentions reports whether rules ask about a tool, or deny it, for some calls.
func Mentions(rules []Rule, s tools.Spec) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Effect != Allow && r.About(s) })
}

// unbounded reports whether a rule allows everything that a sandbox can do: it counts only where the sandbox isolates.
func (r Rule) unbounded(s tools.Spec) bool {
	return r.Effect == Allow && r.Pattern == "" && (r.Tool == AnyTool || slices.Contains([]string{"commands", "code", "desktop"}, s.Group))
}

// Decide says what rules say about a call. isolated says whether the place isolates what the agent does.
func Decide(rules []Rule, c Call, isolated bool) Decision {
	for _, effect := range []Effect{Deny, Ask} {
		for _, r := range rules {
			if r.Effect == effect && r.About(c.Spec) && (r.Pattern == "" || c.may(r.Pattern)) {
				return Decision{Effect: effect, Rule: r}
			}
		}
	}
	var d Decision
	var patterns []Rule
	for _, r := range rules {
		switch {
		case r.Effect != Allow || !r.About(c.Spec):
		case r.Pattern != "":
			patterns = append(patterns, r)
		case r.unbounded(c.Spec) && !isolated:
			d.Reason = fmt.Sprintf("The rule %q does not count here, because nothing isolates the agent.", r)
		default:
			return Decision{Effect: Allow, Rule: r}
		}
	}
	r, ok, why := c.covered(patterns)
	switch {
	case ok:
		return Decision{Effect: Allow, Rule: r}
	case why != "":
		d.Reason = why
	}
	return d
}
