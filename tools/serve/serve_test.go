package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/serve"
	"github.com/parawork/parawork/workspaces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// world stands for what a Server uses.
type world struct {
	mu     sync.Mutex
	actors map[string]accounts.Actor
	ws     workspaces.Workspace
	groups tools.Selection
	only   []string // what the session may use because it is a subagent
	admit  error

	callers chan tools.Caller
	began   chan struct{}
	stopped chan struct{}
}

func (w *world) Actor(_ context.Context, userID string) (accounts.Actor, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.actors[userID]
	if !ok {
		return a, fault.New(fault.NotFound, "not_found", "No such user.")
	}
	return a, nil
}

func (w *world) Workspace(context.Context, string) (workspaces.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ws, nil
}

func (w *world) Selection(_ context.Context, projectID string) (tools.Selection, error) {
	if projectID != "prj" {
		return tools.Selection{}, errors.New("another project")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.groups, nil
}

func (w *world) narrow(_ context.Context, sessionID string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sessionID != "ses" {
		return nil, nil
	}
	return w.only, nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

type tool struct {
	name, group string
	call        func(ctx context.Context, c tools.Caller) (tools.Result, error)
}

func (t tool) Spec() tools.Spec {
	return tools.Spec{Name: t.name, Title: t.name, Description: "Does it.", Group: t.group, Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","description":"A text."}}}`),
		Command:   tools.Command{Positional: []string{"text"}, Stdin: "text"}}
}

func (t tool) Call(ctx context.Context, c tools.Caller, _ json.RawMessage) (tools.Result, error) {
	return t.call(ctx, c)
}

var session = toolrelay.Session{ID: "ses", TeamID: "team", WorkspaceID: "ws", UserID: "ada", Agent: "codex"}

func newWorld(t *testing.T) (*world, *serve.Server) {
	t.Helper()
	w := &world{actors: map[string]accounts.Actor{"ada": {User: accounts.User{ID: "ada"}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: "team"}, Role: accounts.Member}}}},
		ws:      workspaces.Workspace{ID: "ws", TeamID: "team", ProjectID: "prj", CreatedBy: "ada", Executor: "docker"},
		callers: make(chan tools.Caller, 10), began: make(chan struct{}, 10), stopped: make(chan struct{}, 10)}
	set, err := tools.New(tools.Config{Tools: []tools.Tool{
		tool{"task_list", "tasks", func(_ context.Context, c tools.Caller) (tools.Result, error) {
			w.callers <- c
			return tools.Result{Content: tools.Text("no tasks"), Structured: json.RawMessage(`{"items":[]}`)}, nil
		}},
		tool{"task_wait", "tasks", func(ctx context.Context, _ tools.Caller) (tools.Result, error) {
			w.began <- struct{}{}
			<-ctx.Done()
			w.stopped <- struct{}{}
			return tools.Result{}, ctx.Err()
		}},
		tool{"memory_find", "memory", func(context.Context, tools.Caller) (tools.Result, error) {
			return tools.Result{Content: tools.Text("found")}, nil
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return w, serve.New(serve.Config{Tools: set, People: w, Workspaces: w, Groups: w, Narrow: w.narrow, Version: "1",
		Admit: func(_ context.Context, kind executors.Kind, userID string) error {
			if kind != "docker" || userID != "ada" {
				return errors.New("another place")
			}
			return w.admit
		}})
}

// open is the near end of a connection that a Server serves.
type open struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	end  chan struct{}
}

func connect(t *testing.T, s *serve.Server, use guest.ToolUse) *open {
	t.Helper()
	near, away := net.Pipe()
	o := &open{t, near, bufio.NewReader(near), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(o.end)
		defer away.Close()
		s.ServeTools(ctx, session, use, away)
	}()
	_ = near.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() {
		_ = near.Close()
		<-o.end
		cancel()
	})
	return o
}

func (o *open) ask(line string) string {
	o.t.Helper()
	if _, err := o.conn.Write([]byte(line + "\n")); err != nil {
		o.t.Fatal(err)
	}
	answer, err := o.in.ReadString('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	return answer
}

// command runs a command as a program in a sandbox does.
func command(t *testing.T, s *serve.Server, c guest.ToolCommand) (a guest.ToolAnswer) {
	t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	o := connect(t, s, guest.UseCommand)
	if err := json.Unmarshal([]byte(o.ask(string(line))), &a); err != nil {
		t.Fatal(err)
	}
	<-o.end
	return a
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"codex","version":"1.2"}}}`

const callList = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_list"}}`

// Calls are made as the session's, whichever way they come.
func TestWhoCalls(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t)
	w.set(func() { w.groups.Off = []string{"memory"} })
	want := func(client string) {
		t.Helper()
		if c := <-w.callers; c.TeamID != "team" || c.WorkspaceID != "ws" || c.SessionID != "ses" || c.UserID != "ada" || c.Agent != "codex" || c.Client != client || c.Groups.Has("memory") {
			t.Errorf("%+v", c)
		}
	}
	mcp := connect(t, s, guest.UseMCP)
	mcp.ask(initialize)
	if a := mcp.ask(callList); !strings.Contains(a, "no tasks") {
		t.Error(a)
	}
	want("codex 1.2")
	if a := command(t, s, guest.ToolCommand{Argv: []string{"task", "list"}}); a != (guest.ToolAnswer{Stdout: "no tasks\n"}) {
		t.Errorf("%+v", a)
	}
	want("parawork")
}

// A change of the project's groups counts from the next request on.
func TestGroupsOfTheProject(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t)
	mcp := connect(t, s, guest.UseMCP)
	mcp.ask(initialize)
	const list, find = `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"memory_find"}}`
	if a := mcp.ask(list); !strings.Contains(a, "task_list") || !strings.Contains(a, "memory_find") {
		t.Error(a)
	}
	w.set(func() { w.groups.Off = []string{"memory"} })
	if a := mcp.ask(list); !strings.Contains(a, "task_list") || strings.Contains(a, "memory_find") {
		t.Error(a)
	}
	if a := mcp.ask(find); !strings.Contains(a, "tool_group_off") {
		t.Error(a)
	}
	if a := command(t, s, guest.ToolCommand{Argv: []string{"memory", "find"}}); a.Exit != 2 || !strings.Contains(a.Stderr, "memory find is switched off") {
		t.Errorf("%+v", a)
	}
	if a := command(t, s, guest.ToolCommand{Argv: []string{"--help"}}); a.Exit != 0 || !strings.Contains(a.Stdout, "task list") || strings.Contains(a.Stdout, "memory") {
		t.Errorf("%+v", a)
	}
	w.set(func() { w.groups.Off = nil })
	if a := mcp.ask(find); !strings.Contains(a, "found") {
		t.Error(a)
	}
}

// A subagent has no more tools than its caller gave it.
func TestToolsOfASubagent(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t)
	w.set(func() { w.only = []string{"task_list"} })
	mcp := connect(t, s, guest.UseMCP)
	mcp.ask(initialize)
	if a := mcp.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(a, "task_list") || strings.Contains(a, "memory_find") {
		t.Error(a)
	}
	if a := mcp.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"memory_find"}}`); !strings.Contains(a, "tool_group_off") {
		t.Error(a)
	}
}

// Agents that know beads find the tasks under its verbs.
func TestTasksAsBeadsHasThem(t *testing.T) {
	t.Parallel()
	_, s := newWorld(t)
	if a := command(t, s, guest.ToolCommand{Argv: []string{"bd", "list", "--json"}}); a.Exit != 0 || strings.TrimSpace(a.Stdout) != "[]" {
		t.Errorf("%+v", a)
	}
	if a := command(t, s, guest.ToolCommand{Argv: []string{"bd", "no-such-verb"}}); a.Exit != 2 {
		t.Errorf("%+v", a)
	}
}

// What the API would refuse the person who started the session, it is refused here, from the next call on.
func TestWhoMayNotAnyMore(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]func(w *world){
		"tool_user_gone": func(w *world) { delete(w.actors, "ada") },
		"tool_user_gone:": func(w *world) {
			a := w.actors["ada"]
			a.Memberships = nil
			w.actors["ada"] = a
		},
		"tool_user_gone: ": func(w *world) { // somebody else's private workspace
			w.ws.Private, w.ws.CreatedBy = true, "bob"
			w.actors["bob"] = accounts.Actor{User: accounts.User{ID: "bob"}, Memberships: w.actors["ada"].Memberships}
		},
		"suspended": func(w *world) {
			a := w.actors["ada"]
			a.User.SuspendedAt = 1
			w.actors["ada"] = a
		},
		"forbidden": func(w *world) {
			a := w.actors["ada"]
			a.Memberships = []accounts.Membership{{Team: accounts.Team{ID: "team"}, Role: accounts.Viewer}}
			w.actors["ada"] = a
		},
		"team_suspended": func(w *world) {
			a := w.actors["ada"]
			a.Memberships = []accounts.Membership{{Team: accounts.Team{ID: "team", SuspendedAt: 1}, Role: accounts.Owner}}
			w.actors["ada"] = a
		},
		"runner_not_yours": func(w *world) { w.admit = fault.New(fault.Forbidden, "runner_not_yours", "Not your machine.") },
	} {
		w, s := newWorld(t)
		mcp := connect(t, s, guest.UseMCP)
		mcp.ask(initialize)
		mcp.ask(callList)
		<-w.callers
		w.set(func() { change(w) })
		if a := mcp.ask(callList); !strings.Contains(a, `"isError":true`) || !strings.Contains(a, code) {
			t.Errorf("%s: %s", code, a)
		}
		if a := mcp.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); !strings.Contains(a, `"error"`) || !strings.Contains(a, strings.TrimRight(code, ": ")) {
			t.Errorf("%s: %s", code, a)
		}
		if a := command(t, s, guest.ToolCommand{Argv: []string{"task", "list"}}); a.Exit != 1 || !strings.HasPrefix(a.Stderr, strings.TrimRight(code, ": ")+": ") {
			t.Errorf("%s: %+v", code, a)
		}
		if len(w.callers) > 0 {
			t.Errorf("%s: the tool was called", code)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t)
	if a := command(t, s, guest.ToolCommand{Argv: []string{"task", "list", "-"}, Stdin: []byte(strings.Repeat("x", guest.MaxToolInput)), Dir: "/w"}); a.Exit != 1 ||
		!strings.HasPrefix(a.Stderr, "tool_arguments_too_large: ") {
		t.Errorf("%+v", a)
	}
	for line, want := range map[string]string{
		"{":                        "tool_command_invalid: ",
		strings.Repeat("x", 5<<20): "tool_command_too_large: ",
	} {
		var a guest.ToolAnswer
		if err := json.Unmarshal([]byte(connect(t, s, guest.UseCommand).ask(line)), &a); err != nil || a.Exit != 1 || !strings.HasPrefix(a.Stderr, want) {
			t.Errorf("%+v, %v", a, err)
		}
	}

	// A program that is gone stops its tool.
	o := connect(t, s, guest.UseCommand)
	if _, err := o.conn.Write([]byte(`{"argv":["task","wait"]}` + "\n")); err != nil {
		t.Fatal(err)
	}
	<-w.began
	_ = o.conn.Close()
	select {
	case <-w.stopped:
	case <-time.After(patience):
		t.Fatal("the tool goes on")
	}
	<-o.end
}
