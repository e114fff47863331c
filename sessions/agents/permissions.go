package agents

import (
	"os"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Ways to start an agent.
const (
	AskPermissions = "ask" // it asks for what it is not allowed to do
	AllPermissions = "all" // it asks for nothing: the place is what keeps it in
)

// CheckPermissions refuses what is no way to start an agent, and all permissions for one that knows of none.
func (r *Registry) CheckPermissions(name, permissions string) error {
	switch permissions {
	case "", AskPermissions:
		return nil
	case AllPermissions:
		if a, ok := r.adapters[name]; ok && !a.facts().permissions {
			return fault.New(fault.Invalid, "agent_has_no_permissions", "%s asks for no permissions that could be turned on. Start it without.", r.Name(name)).With("field", "permissions")
		}
		return nil
	}
	return fault.New(fault.Invalid, "invalid_permissions", "The permissions are ask or all.").With("field", "permissions")
}

// Permissions says how an agent is started that nobody said more of: as config.json says where the place keeps it in, else asking.
func (r *Registry) Permissions(name string, boundary bool) string {
	if a, ok := r.adapters[name]; ok && boundary && a.facts().permissions && r.settings(name).Permissions == AllPermissions {
		return AllPermissions
	}
	return AskPermissions
}

// fenced reports whether the place keeps the agent in.
func (l Launch) fenced() bool { return l.Inside != nil && l.Inside.Boundary }

// all reports whether the agent is started with all its permissions.
func (l Launch) all() bool { return l.Permissions == AllPermissions }

// without drops options from arguments: each with the value that follows where it takes one.
func without(args []string, takesValue map[string]bool) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(out, args[i:]...)
		}
		name, _, joined := strings.Cut(args[i], "=")
		value, drop := takesValue[name]
		if !drop {
			out = append(out, args[i])
			continue
		}
		if value && !joined {
			i++
		}
	}
	return out
}

// rootRefuses says that Claude Code will not start so: it refuses to leave out its questions for the administrator of a machine.
func (l Launch) rootRefuses() error {
	if !l.all() || l.fenced() || os.Geteuid() != 0 {
		return nil
	}
	return fault.New(fault.Conflict, "permissions_refused_as_root",
		"Claude Code does not start with all permissions as root, which this server runs as. Choose a place that isolates, or let it ask.").With("field", "permissions")
}

// claudeFences are the options of Claude Code that all permissions take the place of.
var claudeFences = map[string]bool{"--permission-mode": true, "--dangerously-skip-permissions": false, "--allow-dangerously-skip-permissions": false}

// codexFences are those of Codex that say what it asks for and how it fences itself in.
var codexFences = map[string]bool{"-s": true, "--sandbox": true, "-a": true, "--ask-for-approval": true, "--full-auto": false, "--approve-for-me": false,
	"--yolo": false, "--dangerously-bypass-approvals-and-sandbox": false}

// codexUnfenced starts Codex without its own fence, which cannot be made inside another: it asks for what it takes for dangerous, and
// what it wants to know.
var codexUnfenced = []string{`sandbox_mode="danger-full-access"`, `approval_policy="on-request"`}

// geminiFences are those of Gemini CLI.
var geminiFences = map[string]bool{"--approval-mode": true, "--yolo": false, "-y": false}
