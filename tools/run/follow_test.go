package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tooltest"
)

// news is what command_output and command_stop answer.
type news struct {
	answer
	CommandID   string `json:"command_id"`
	Stderr      string
	After       int64 `json:"after_bytes"`
	AfterErrors int64 `json:"after_stderr_bytes"`
}

// follow runs commands in the background and follows them.
func follow(t *testing.T) (all []tools.Tool, caller tools.Caller, root string, ask func(name, args string, values ...any) (tools.Result, news)) {
	t.Helper()
	tool, caller, root := bench(t)
	all = append(tool.Following(), tool)
	set, err := tools.New(tools.Config{Tools: all})
	if err != nil {
		t.Fatal(err)
	}
	return all, caller, root, func(name, args string, values ...any) (tools.Result, news) {
		t.Helper()
		args = fmt.Sprintf(args, values...)
		r, err := set.Call(t.Context(), caller, name, json.RawMessage(args))
		if err != nil {
			t.Fatalf("%s %s: %v", name, args, err)
		}
		var n news
		if err := json.Unmarshal(r.Structured, &n); err != nil {
			t.Fatal(err)
		}
		return r, n
	}
}

// An agent that started a command in the background sees each piece of its output once, waits for more, and learns how it ended.
func TestFollowACommand(t *testing.T) {
	_, _, root, ask := follow(t)
	_, started := ask("run_command", `{"command":"echo one; echo oops >&2; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3","background":true}`)
	id := started.CommandID
	var out, errs strings.Builder
	var n news
	for out.String() != "one\n" || errs.String() != "oops\n" {
		_, n = ask("command_output", `{"command_id":%q,"after_bytes":%d,"after_stderr_bytes":%d,"wait_ms":60000}`, id, n.After, n.AfterErrors)
		out.WriteString(n.Stdout)
		errs.WriteString(n.Stderr)
		if out.Len() > 4 || errs.Len() > 5 {
			t.Fatalf("%q %q", &out, &errs)
		}
	}
	r, quiet := ask("command_output", `{"command_id":%q,"after_bytes":%d,"after_stderr_bytes":%d}`, id, n.After, n.AfterErrors)
	if quiet.State != "executing" || quiet.Stdout != "" || r.IsError || !strings.Contains(r.Content[0].Text, "It printed nothing new.") {
		t.Errorf("%+v %q", quiet, r.Content)
	}
	if err := os.WriteFile(filepath.Join(root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	for n.State != "completed" {
		r, n = ask("command_output", `{"command_id":%q,"after_bytes":%d,"after_stderr_bytes":%d,"wait_ms":60000}`, id, n.After, n.AfterErrors)
		got += n.Stdout
	}
	if got != "two\n" || n.ExitCode == nil || *n.ExitCode != 3 || !r.IsError {
		t.Errorf("%q, %+v, %+v", got, n, r)
	}
	if _, again := ask("command_output", `{"command_id":%q}`, id); again.Stdout != "one\ntwo\n" || again.Stderr != "oops\n" || again.After != 8 {
		t.Errorf("from the beginning: %+v", again)
	}
}

func TestStopACommand(t *testing.T) {
	_, _, _, ask := follow(t)
	_, started := ask("run_command", `{"command":"echo begun; exec sleep 1000","background":true,"timeout_ms":3600000}`)
	ask("command_output", `{"command_id":%q,"wait_ms":60000}`, started.CommandID)
	r, n := ask("command_stop", `{"command_id":%q}`, started.CommandID)
	if r.IsError || n.State != "cancelled" || n.Stdout != "begun\n" {
		t.Errorf("%+v %+v", r, n)
	}
	if _, again := ask("command_stop", `{"command_id":%q}`, started.CommandID); again.State != "cancelled" {
		t.Errorf("stopped twice: %+v", again)
	}
}

func TestFollowingTools(t *testing.T) {
	all, caller, _, ask := follow(t)
	_, long := ask("run_command", `{"command":"i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done"}`)
	_, silent := ask("run_command", `{"command":"exec sleep 1000","background":true,"timeout_ms":3600000}`)
	stranger := caller
	stranger.TeamID = "team_other"
	for _, tool := range all[:2] {
		quick := json.RawMessage(fmt.Sprintf(`{"command_id":%q}`, long.CommandID))
		subject := tooltest.Subject{Tool: tool, Caller: caller, Stranger: stranger, Quick: quick, Large: quick}
		if tool.Spec().Name == "command_output" {
			subject.Slow = json.RawMessage(fmt.Sprintf(`{"command_id":%q,"wait_ms":600000}`, silent.CommandID))
			subject.Began = func(context.Context) error { return nil }
			subject.Stopped = subject.Began
		}
		t.Run(tool.Spec().Name, func(t *testing.T) { tooltest.Run(t, subject) })
	}
	ask("command_stop", `{"command_id":%q}`, silent.CommandID)
	neighbour := caller
	neighbour.WorkspaceID = "ws_other"
	set, err := tools.New(tools.Config{Tools: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"command_output", "command_stop"} {
		if _, err := set.Call(t.Context(), neighbour, name, json.RawMessage(fmt.Sprintf(`{"command_id":%q}`, long.CommandID))); fault.CodeOf(err) != "command_not_found" {
			t.Errorf("%s of another workspace: %v", name, err)
		}
	}
}
