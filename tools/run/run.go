// Package run are the tools that run a command in the workspace's sandbox, follow it and stop it. They pass the command on to the service
// behind POST /workspaces/{id}/exec; they start no process themselves.
package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/tools"
)

// Commands runs commands in sandboxes. A foreground command is cancelled when ctx ends.
type Commands interface {
	Exec(ctx context.Context, req command.Request) (command.Command, error)
	// Command returns a command's record, with the output so far.
	Command(ctx context.Context, commandID string) (command.Command, error)
	// OutputAfter returns what a command printed from two offsets on, and waits for it.
	OutputAfter(ctx context.Context, commandID string, stdout, stderr int64, wait time.Duration) (cmd command.Command, out, errs command.Part, err error)
	// Cancel ends a command, and returns when it has ended.
	Cancel(ctx context.Context, commandID string) (command.Command, error)
}

// maxTimeout is the longest a command may run in the foreground or the background, as in the API.
const maxTimeout = 24 * time.Hour

// Tool runs commands. Safe for concurrent use.
type Tool struct {
	commands Commands
	now      func() time.Time
}

// New returns the tool.
func New(commands Commands, now func() time.Time) *Tool { return &Tool{commands, now} }

var _ tools.Tool = (*Tool)(nil)

// Spec describes the tool.
func (t *Tool) Spec() tools.Spec {
	return tools.Spec{
		Name:  "run_command",
		Title: "Run a command",
		Description: "Runs a command in the workspace's sandbox, in the worktree unless cwd says otherwise, and answers with its exit code and output. " +
			"Give either argv (a program and its arguments, passed on as they are) or command (a line for /bin/sh). " +
			"It waits for the end, up to timeout_ms; with background it answers at once with a command_id and the command goes on. " +
			"Of long output the beginning and the end are kept.",
		Group:      "commands",
		Arguments:  json.RawMessage(argumentsSchema),
		Result:     json.RawMessage(resultSchema),
		Needs:      tools.Needs{Workspace: true, Writes: true, Network: true},
		Permission: tools.Ask,
		Timeout:    maxTimeout + 2*executors.Overtime, // the command's own timeout comes first
	}
}

const argumentsSchema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "The program and its arguments. Either this or command."},
    "command": {"type": "string", "minLength": 1, "description": "A line for /bin/sh -c. Either this or argv."},
    "cwd": {"type": "string", "description": "The folder to run in, relative to the worktree."},
    "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables on top of the sandbox's own."},
    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 86400000, "default": 30000, "description": "After this time the command is stopped."},
    "background": {"type": "boolean", "default": false, "description": "Answer at once; the command goes on."}
  }
}`

const resultSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["command_id", "workspace_id", "state", "state_reason", "exit_code", "stdout", "stderr", "duration_ms", "truncated", "created_at"],
  "properties": {
    "command_id": {"type": "string"},
    "workspace_id": {"type": "string"},
    "state": {"enum": ["pending", "executing", "completed", "failed", "cancelled", "timed_out"]},
    "state_reason": {"type": "string"},
    "exit_code": {"type": ["integer", "null"]},
    "stdout": {"type": "string"},
    "stderr": {"type": "string"},
    "duration_ms": {"type": "integer"},
    "truncated": {"type": "boolean"},
    "created_at": {"type": "integer"}
  }
}`

type arguments struct {
	Argv       []string          `json:"argv"`
	Command    string            `json:"command"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	TimeoutMs  int64             `json:"timeout_ms"`
	Background bool              `json:"background"`
}

// answer is a command as the API shows it.
type answer struct {
	CommandID   string        `json:"command_id"`
	WorkspaceID string        `json:"workspace_id"`
	State       command.State `json:"state"`
	StateReason string        `json:"state_reason"`
	ExitCode    *int          `json:"exit_code"`
	Stdout      string        `json:"stdout"`
	Stderr      string        `json:"stderr"`
	DurationMs  int64         `json:"duration_ms"`
	Truncated   bool          `json:"truncated"`
	CreatedAt   int64         `json:"created_at"`
}

// Call runs a command.
func (t *Tool) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	var a arguments
	if err := tools.Decode(args, &a); err != nil {
		return tools.Result{}, err
	}
	ran, err := t.commands.Exec(ctx, command.Request{TeamID: c.TeamID, WorkspaceID: c.WorkspaceID, ActorID: c.UserID, Argv: a.Argv, Command: a.Command, Cwd: a.Cwd, Env: a.Env,
		TimeoutMs: a.TimeoutMs, Background: a.Background})
	if err != nil {
		return tools.Result{}, err
	}
	return t.result(ran, c.Limits.ResultBytes)
}

// result formats a command within a limit: it cuts the output, which is in the text and in the object, until both fit.
func (t *Tool) result(ran command.Command, most int) (tools.Result, error) {
	out, errs := valid(ran.Stdout), valid(ran.Stderr)
	a := answer{CommandID: ran.ID, WorkspaceID: ran.WorkspaceID, State: ran.State, StateReason: ran.Reason, ExitCode: ran.ExitCode, Stdout: out, Stderr: errs,
		DurationMs: ran.DurationMs(t.now().UnixMilli()), Truncated: ran.Truncated, CreatedAt: ran.CreatedAt}
	for keep := max(len(out), len(errs)); ; keep /= 2 {
		r, err := tools.Answer(a.text(), a)
		r.IsError, r.Truncated = a.failed(), a.Truncated
		if err != nil || r.Bytes() <= most || keep == 0 {
			return r, err
		}
		a.Stdout, a.Stderr, a.Truncated = ends(out, keep/2), ends(errs, keep/2), true
	}
}

// valid is output as text.
func valid(output []byte) string { return strings.ToValidUTF8(string(output), "\uFFFD") }

// failed reports whether the command failed.
func (a answer) failed() bool {
	switch a.State {
	case command.Pending, command.Executing:
		return false
	}
	return a.State != command.Completed || a.ExitCode == nil || *a.ExitCode != 0
}

// text formats the command for an agent to read.
func (a answer) text() string {
	var b strings.Builder
	switch {
	case a.State == command.Completed && a.ExitCode != nil:
		fmt.Fprintf(&b, "Exit code %d after %d ms.", *a.ExitCode, a.DurationMs)
	default:
		fmt.Fprintf(&b, "The command %s is %s.", a.CommandID, strings.ReplaceAll(string(a.State), "_", " "))
	}
	if a.StateReason != "" {
		b.WriteString(" " + a.StateReason)
	}
	if a.Truncated {
		b.WriteString(" The middle of the output is left out.")
	}
	return b.String() + printed(a.Stdout, a.Stderr)
}

// printed shows what a command printed, as far as it printed something.
func printed(stdout, stderr string) (text string) {
	if stdout != "" {
		text = "\nstdout:\n" + stdout
	}
	if stderr != "" {
		text += "\nstderr:\n" + stderr
	}
	return text
}

// ends returns the beginning and the end of a text, each at most half of most bytes, with a line between them that marks the
// omission.
func ends(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head, tail := most/2, len(s)-most/2
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + fmt.Sprintf("\n[... %d bytes left out ...]\n", tail-head) + s[tail:]
}
