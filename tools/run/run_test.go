package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/run"
	"github.com/parawork/parawork/tools/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneWorkspace knows a single workspace.
type oneWorkspace struct{ team, id, root string }

func (w oneWorkspace) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	if workspaceID != w.id {
		return executors.Spec{}, "", fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return executors.Spec{TeamID: w.team, WorkspaceID: w.id, Root: w.root}, fake.Kind, nil
}

// bench is the tool over the real service of commands, its store, and a guest in this process.
func bench(t *testing.T) (tool *run.Tool, caller tools.Caller, root string) {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	w := oneWorkspace{team.ID, id.New("ws"), executortest.GitRoot(t)}
	project := id.New("prj")
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`,
			[]any{project, team.ID, user.ID}},
		{`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`, []any{w.id, team.ID, project, user.ID}},
	} {
		if _, err := db.Exec(t.Context(), q.sql, q.args...); err != nil {
			t.Fatal(err)
		}
	}
	world := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(world.Close)
	kept := store.NewExecutors(db)
	places := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{fake.New(world)}, Store: kept, Workspaces: w})
	commands := command.New(command.Config{Places: places, Store: kept})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- commands.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return run.New(commands, time.Now), tools.Caller{TeamID: team.ID, WorkspaceID: w.id, UserID: user.ID}, w.root
}

// until polls: processes and files send no notifications.
func until(ctx context.Context, what string, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return errors.New("waited in vain: " + what)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func TestTool(t *testing.T) {
	tool, caller, root := bench(t)
	pid := func() int {
		b, err := os.ReadFile(filepath.Join(root, "pid"))
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return 0
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Error(err)
		}
		return n
	}
	stranger := caller
	stranger.TeamID = "team_other"
	tooltest.Run(t, tooltest.Subject{
		Tool: tool, Caller: caller, Stranger: stranger,
		Quick: json.RawMessage(`{"command":"echo done"}`),
		Slow:  json.RawMessage(`{"command":"echo $$ >pid; exec sleep 1000","timeout_ms":3600000}`),
		Began: func(ctx context.Context) error { return until(ctx, "its pid", func() bool { return pid() != 0 }) },
		Stopped: func(ctx context.Context) error {
			return until(ctx, "the process is gone", func() bool {
				return pid() != 0 && errors.Is(syscall.Kill(pid(), 0), syscall.ESRCH)
			})
		},
		Large: json.RawMessage(`{"command":"i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done; printf '\\033\\001%.0s' $(seq 4000) >&2"}`),
	})
}

type answer struct {
	State    string
	ExitCode *int `json:"exit_code"`
	Stdout   string
	Stderr   string
}

func call(t *testing.T, tool tools.Tool, c tools.Caller, args string) (tools.Result, answer) {
	t.Helper()
	set, err := tools.New(tools.Config{Tools: []tools.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.Call(t.Context(), c, "run_command", json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	var a answer
	if err := json.Unmarshal(r.Structured, &a); err != nil {
		t.Fatal(err)
	}
	return r, a
}

// The agent sees that a command failed, with its output; a background command continues.
func TestWhatAnAgentGetsBack(t *testing.T) {
	tool, caller, root := bench(t)
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, a := call(t, tool, caller, `{"argv":["sh","-c","pwd; echo $GREETING; echo oops >&2; exit 3"],"cwd":"sub","env":{"GREETING":"hello"}}`)
	text := r.Content[0].Text
	if !r.IsError || r.Truncated || a.State != "completed" || a.ExitCode == nil || *a.ExitCode != 3 || a.Stdout != filepath.Join(root, "sub")+"\nhello\n" || a.Stderr != "oops\n" {
		t.Errorf("%+v %+v", a, r)
	}
	if !strings.HasPrefix(text, "Exit code 3 after ") || !strings.Contains(text, "\nstdout:\n"+a.Stdout) || !strings.Contains(text, "\nstderr:\noops\n") {
		t.Errorf("the agent reads %q", text)
	}
	r, a = call(t, tool, caller, `{"command":"sleep 1000","timeout_ms":50}`)
	if !r.IsError || a.State != "timed_out" || !strings.Contains(r.Content[0].Text, "is timed out. It took longer than its timeout.") {
		t.Errorf("a command that took too long: %+v, %q", a, r.Content)
	}
	r, a = call(t, tool, caller, `{"command":"while [ ! -e stop ]; do sleep 0.02; done","background":true}`)
	if r.IsError || a.State != "executing" || a.ExitCode != nil {
		t.Errorf("in the background: %+v, %q", a, r.Content)
	}
	if err := os.WriteFile(filepath.Join(root, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the schema cannot say, the service of commands refuses.
func TestArgvAndCommandExcludeEachOther(t *testing.T) {
	tool, caller, _ := bench(t)
	set, err := tools.New(tools.Config{Tools: []tools.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{}`, `{"argv":["true"],"command":"true"}`} {
		if _, err := set.Call(t.Context(), caller, "run_command", json.RawMessage(args)); fault.CodeOf(err) != "invalid_command" {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// Of long output the agent gets the beginning and the end, in whole characters, and the number of bytes left out.
func TestLongOutputKeepsItsEnds(t *testing.T) {
	tool, caller, _ := bench(t)
	caller.Limits.ResultBytes = 8 << 10
	r, a := call(t, tool, caller, `{"command":"echo first; i=0; while [ $i -lt 3000 ]; do echo '\u00e4\u00f6\u00fc\u20ac'; i=$((i+1)); done; echo last"}`)
	if !r.Truncated || r.Bytes() > 8<<10 || r.Bytes() < 3<<10 || !strings.HasPrefix(a.Stdout, "first\n") || !strings.HasSuffix(a.Stdout, "last\n") ||
		!strings.Contains(a.Stdout, "bytes left out ...]") || strings.Contains(a.Stdout, "\uFFFD") || !strings.Contains(r.Content[0].Text, "The middle of the output is left out.") {
		t.Errorf("%d bytes, truncated %v: %.100q", r.Bytes(), r.Truncated, a.Stdout)
	}
}
