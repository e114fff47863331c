package run

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
)

// maxWait is the longest command_output waits for output.
const maxWait = 10 * time.Minute

// outputAnswer is what a command printed since the caller last asked.
type outputAnswer struct {
	CommandID   string        `json:"command_id"`
	State       command.State `json:"state"`
	StateReason string        `json:"state_reason"`
	ExitCode    *int          `json:"exit_code"`
	Stdout      string        `json:"stdout"`
	Stderr      string        `json:"stderr"`
	After       int64         `json:"after_bytes"`        // what to ask for next
	AfterErrors int64         `json:"after_stderr_bytes"` // likewise
	DurationMs  int64         `json:"duration_ms"`
	Truncated   bool          `json:"truncated"` // the beginning of what is new is missing
}

var outputResult = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["command_id", "state", "state_reason", "exit_code", "stdout", "stderr", "after_bytes", "after_stderr_bytes", "duration_ms", "truncated"],
  "properties": {
    "command_id": {"type": "string"},
    "state": {"enum": ["pending", "executing", "completed", "failed", "cancelled", "timed_out"]},
    "state_reason": {"type": "string"},
    "exit_code": {"type": ["integer", "null"]},
    "stdout": {"type": "string"},
    "stderr": {"type": "string"},
    "after_bytes": {"type": "integer"},
    "after_stderr_bytes": {"type": "integer"},
    "duration_ms": {"type": "integer"},
    "truncated": {"type": "boolean"}
  }
}`)

const commandID = `"command_id": {"type": "string", "minLength": 1, "maxLength": 100, "description": "The command, as run_command with background answered."}`

// Following returns the tools that follow a command and stop it.
func (t *Tool) Following() []tools.Tool {
	spec := func(name, title, description, arguments string, timeout time.Duration, writes bool) tools.Spec {
		return tools.Spec{Name: name, Title: title, Description: description, Group: "commands", Unlisted: true, Result: outputResult, Permission: tools.Allow, Timeout: timeout,
			Arguments: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["command_id"], "properties": {` + commandID + arguments + `}}`),
			Command:   tools.Command{Positional: []string{"command_id"}}, Needs: tools.Needs{Workspace: true, Writes: writes}}
	}
	return []tools.Tool{
		tools.Func(spec("command_output", "Read a command's output", "Answers with what a command in the background has printed since the last answer, its state and its exit code. "+
			"With wait_ms it waits for new output or the command's end. Pass after_bytes and after_stderr_bytes of the last answer to get only what is new; of long output the end is kept.",
			`, "after_bytes": {"type": "integer", "minimum": 0, "default": 0, "description": "How much of the standard output you have: after_bytes of the last answer."},
			"after_stderr_bytes": {"type": "integer", "minimum": 0, "default": 0, "description": "The same of standard error."},
			"wait_ms": {"type": "integer", "minimum": 0, "maximum": 600000, "default": 0, "description": "How long to wait for new output."}`, maxWait+time.Minute, false), t.output),
		tools.Func(spec("command_stop", "Stop a command", "Stops a command with all processes it has started, and answers with the end of its output. One that has ended stays as it is.", "", 2*time.Minute, true), t.stop),
	}
}

type outputArgs struct {
	CommandID   string `json:"command_id"`
	After       int64  `json:"after_bytes"`
	AfterErrors int64  `json:"after_stderr_bytes"`
	WaitMs      int64  `json:"wait_ms"`
}

func (t *Tool) output(ctx context.Context, c tools.Caller, a outputArgs) (tools.Result, error) {
	if _, err := t.own(ctx, c, a.CommandID); err != nil {
		return tools.Result{}, err
	}
	cmd, out, errs, err := t.commands.OutputAfter(ctx, a.CommandID, a.After, a.AfterErrors, time.Duration(a.WaitMs)*time.Millisecond)
	if err != nil {
		return tools.Result{}, err
	}
	return t.news(cmd, out, errs, out.From > a.After || errs.From > a.AfterErrors, c.Limits.ResultBytes)
}

func (t *Tool) stop(ctx context.Context, c tools.Caller, a struct {
	CommandID string `json:"command_id"`
}) (tools.Result, error) {
	if _, err := t.own(ctx, c, a.CommandID); err != nil {
		return tools.Result{}, err
	}
	cmd, err := t.commands.Cancel(ctx, a.CommandID)
	if err != nil {
		return tools.Result{}, err
	}
	part := func(b []byte) command.Part { return command.Part{Bytes: b, End: int64(len(b))} }
	r, err := t.news(cmd, part(cmd.Stdout), part(cmd.Stderr), cmd.Truncated, min(c.Limits.ResultBytes, 8<<10))
	r.IsError = false // that it did not end by itself is what was asked for
	return r, err
}

// own finds a command of the caller's workspace.
func (t *Tool) own(ctx context.Context, c tools.Caller, id string) (command.Command, error) {
	cmd, err := t.commands.Command(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && (cmd.TeamID != c.TeamID || cmd.WorkspaceID != c.WorkspaceID) {
		return command.Command{}, fault.New(fault.NotFound, "command_not_found", "The workspace has no command %.100q. Commands are kept for a while after their end.", id)
	}
	return cmd, err
}

// news formats what is new within a limit, of which the end is kept.
func (t *Tool) news(cmd command.Command, out, errs command.Part, missing bool, most int) (tools.Result, error) {
	stdout, stderr := valid(out.Bytes), valid(errs.Bytes)
	a := outputAnswer{CommandID: cmd.ID, State: cmd.State, StateReason: cmd.Reason, ExitCode: cmd.ExitCode, Stdout: stdout, Stderr: stderr, After: out.End, AfterErrors: errs.End,
		DurationMs: cmd.DurationMs(t.now().UnixMilli()), Truncated: missing}
	for keep := max(len(stdout), len(stderr)); ; keep /= 2 {
		r, err := tools.Answer(a.text(), a)
		r.IsError, r.Truncated = answer{State: a.State, ExitCode: a.ExitCode}.failed(), a.Truncated
		if err != nil || r.Bytes() <= most || keep == 0 {
			return r, err
		}
		a.Stdout, a.Stderr, a.Truncated = end(stdout, keep/2), end(stderr, keep/2), true
	}
}

// text formats what is new for an agent to read.
func (a outputAnswer) text() string {
	var b strings.Builder
	switch {
	case a.State == command.Completed && a.ExitCode != nil:
		fmt.Fprintf(&b, "Exit code %d after %d ms.", *a.ExitCode, a.DurationMs)
	case !a.State.Ended():
		fmt.Fprintf(&b, "The command %s runs, for %d ms so far.", a.CommandID, a.DurationMs)
	default:
		fmt.Fprintf(&b, "The command %s is %s.", a.CommandID, strings.ReplaceAll(string(a.State), "_", " "))
	}
	if a.StateReason != "" {
		b.WriteString(" " + a.StateReason)
	}
	if a.Truncated {
		b.WriteString(" Earlier output is left out.")
	}
	if a.Stdout == "" && a.Stderr == "" {
		b.WriteString(" It printed nothing new.")
	}
	fmt.Fprintf(&b, " Go on with after_bytes %d, after_stderr_bytes %d.", a.After, a.AfterErrors)
	return b.String() + printed(a.Stdout, a.Stderr)
}

// end returns the end of a text.
func end(s string, most int) string {
	from := max(len(s)-most, 0)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
