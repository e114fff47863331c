package agents

import (
	"os"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// Permission modes an agent can be started in.
const (
	AskPermissions = "ask" // it asks for what it is not allowed to do
	AllPermissions = "all" // it asks for nothing: only the sandbox limits it
)

// CheckPermissions rejects an unknown mode, and all permissions for an agent that does not have the mode.
func (r *Registry) CheckPermissions(name, permissions string) error {
	switch permissions {
	case "", AskPermissions:
		return nil
	case AllPermissions:
		if a, ok := r.adapters[name]; ok && !a.facts().permissions {
			return fault.New(fault.Invalid, "agent_has_no_permissions", "%s has no permissions that could be turned on. Start it without.", r.Name(name)).With("field", "permissions")
		}
		return nil
	}
	return fault.New(fault.Invalid, "invalid_permissions", "permissions must be ask or all.").With("field", "permissions")
}

// Permissions returns the default mode of an agent: that of config.json where the sandbox isolates, otherwise asking.
func (r *Registry) Permissions(name string, boundary bool) string {
	if a, ok := r.adapters[name]; ok && boundary && a.facts().permissions && r.settings(name).Permissions == AllPermissions {
		return AllPermissions
	}
	return AskPermissions
}

// fenced reports whether the sandbox isolates the agent.
func (l Launch) fenced() bool { return l.Inside != nil && l.Inside.Boundary }

// all reports whether the agent is started with all its permissions.
func (l Launch) all() bool { return l.Permissions == AllPermissions }

// without removes options from arguments: each with the value that follows where it takes one.
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

// rootRefuses returns an error where Claude Code refuses to start: it does not skip its questions when it runs as root.
func (l Launch) rootRefuses() error {
	if !l.all() || l.fenced() || os.Geteuid() != 0 {
		return nil
	}
	return fault.New(fault.Conflict, "permissions_refused_as_root",
		"Claude Code does not start with all permissions as root, which this server runs as. Choose an executor that isolates, or let it ask.").With("field", "permissions")
}

// claudeFences are the options of Claude Code that all permissions replace.
var claudeFences = map[string]bool{"--permission-mode": true, "--dangerously-skip-permissions": false, "--allow-dangerously-skip-permissions": false}

// codexFences are the options of Codex that set what it asks for and how it sandboxes itself.
var codexFences = map[string]bool{"-s": true, "--sandbox": true, "-a": true, "--ask-for-approval": true, "--full-auto": false, "--approve-for-me": false,
	"--yolo": false, "--dangerously-bypass-approvals-and-sandbox": false}

// codexUnfenced starts Codex without its own sandbox, which cannot be nested in another: it still asks before commands it
// considers dangerous, and when it needs information.
var codexUnfenced = []string{`sandbox_mode="danger-full-access"`, `approval_policy="on-request"`}

// geminiFences are the options of the Gemini CLI that all permissions replace.
var geminiFences = map[string]bool{"--approval-mode": true, "--yolo": false, "-y": false}
