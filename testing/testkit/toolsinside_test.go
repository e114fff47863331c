package testkit_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// toolPlaces runs a test in each kind of place whose files this machine sees.
func toolPlaces(t *testing.T, run func(t *testing.T, place string)) {
	t.Parallel()
	for _, place := range []string{"local", "bubblewrap"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			if place == "bubblewrap" {
				needsBubblewrap(t)
			}
			run(t, place)
		})
	}
}

// shellLine is how one command of a script ended.
type shellLine struct {
	t                    *testing.T
	name, exit, out, err string
}

// ran fails unless the command ended with a code.
func (l shellLine) ran(exit string) shellLine {
	l.t.Helper()
	if l.exit != exit {
		l.t.Errorf("%s ended with %q instead of %s\nstdout: %s\nstderr: %s", l.name, l.exit, exit, l.out, l.err)
	}
	return l
}

// says fails unless the command printed a text.
func (l shellLine) says(text string) shellLine {
	l.t.Helper()
	if !strings.Contains(l.out+l.err, text) {
		l.t.Errorf("%s does not say %q\nstdout: %s\nstderr: %s", l.name, text, l.out, l.err)
	}
	return l
}

func decodeLine[T any](l shellLine) (v T) {
	l.t.Helper()
	if err := json.Unmarshal([]byte(l.out), &v); err != nil {
		l.t.Errorf("%s: %v in %s%s", l.name, err, l.out, l.err)
	}
	return v
}

// startScript starts a script as a session, in which `run NAME COMMAND...` keeps how a command ended. ended waits for its end and returns what
// reads what was kept.
func startScript(t *testing.T, h *testkit.Instance, ws testkit.Workspace, script string) (ended func() func(name string) shellLine) {
	t.Helper()
	const run = `mkdir -p kept; run() { n=$1; shift; "$@" >kept/$n.out 2>kept/$n.err; echo $? >kept/$n.exit; }` + "\n"
	s := h.Run(ws.ID, "sh", "-c", run+script)
	return func() func(name string) shellLine {
		t.Helper()
		if got := h.Ended(s.ID); got.ExitCode == nil || *got.ExitCode != 0 {
			t.Fatalf("the script: %+v\n%s", got, h.Output(s.ID, 0))
		}
		return func(name string) shellLine {
			read := func(kind string) string {
				b, _ := os.ReadFile(filepath.Join(ws.Path, "kept", name+"."+kind))
				return string(b)
			}
			return shellLine{t, name, strings.TrimSpace(read("exit")), read("out"), read("err")}
		}
	}
}

type taskRow struct{ ID, Title, Status, Assignee string }

// A shell in a sandbox has every group of tools by the command line, and scripts can rely on its exit codes and its JSON.
func TestCommandLineOfTools(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		p := h.Sample()
		h.API("PATCH", "/projects/"+p, map[string]any{"checks": []any{map[string]any{"name": "taste", "command": "test -f report.txt"}}}, nil)
		ws := h.WorkspaceIn(place, p, "Tools")
		of := startScript(t, h, ws, `
run help parawork --help
run skill parawork skill
run first parawork task create "First" --priority 1 --json
run second sh -c 'echo "a long text" | parawork task create "Second" --description - --json'
id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' kept/first.out)
run ready parawork task ready --json
run claim parawork task claim $id --json
run twice parawork task claim $id --json
run unknown parawork task claim PW-T999 --json
run wrong parawork task create --no-such-option --json
run nothing parawork paint --json
run verify1 parawork verify --json
echo done >report.txt
run verify2 parawork verify
run checkpoint parawork checkpoint create --note "before" --json
run artifact parawork artifact save report.txt --json
run remember parawork remember "The port of the server is 4711" --json
run recall parawork recall "port server"
run spawn parawork subagent spawn --agent command --name echo --task 'echo hi from below' --json
sub=$(sed 's/.*"id":"\([^"]*\)".*/\1/' kept/spawn.out)
run wait parawork subagent wait $sub --json
run close parawork task close $id --reason "done"
run inner sh -c 'cd kept && parawork artifact save first.out --json'
`)()
		of("help").ran("0").says("task create").says("artifact save").says("remember")
		of("skill").ran("0").says("parawork")
		first := decodeLine[taskRow](of("first").ran("0"))
		second := decodeLine[taskRow](of("second").ran("0"))
		if ready := decodeLine[struct{ Items []taskRow }](of("ready").ran("0")); len(ready.Items) != 2 || ready.Items[0].ID != first.ID || ready.Items[1].ID != second.ID {
			t.Errorf("ready: %+v", ready)
		}
		if got := decodeLine[taskRow](of("claim").ran("0")); got.Status != "in_progress" {
			t.Errorf("claimed: %+v", got)
		}
		of("twice").ran("0") // it is the caller's already
		of("unknown").ran("1").says(`"code":`)
		of("wrong").ran("2").says(`"code":`)
		of("nothing").ran("2").says("command_usage")
		of("verify1").ran("1").says("taste")
		of("verify2").ran("0")
		of("checkpoint").ran("0").says(`"id"`)
		of("artifact").ran("0").says("report.txt")
		of("remember").ran("0")
		of("recall").ran("0").says("4711")
		of("spawn").ran("0")
		of("wait").ran("0").says("hi from below").says(`"completed"`)
		of("close").ran("0")
		of("inner").ran("0").says("first.out") // relative to the folder of the call
		var calls struct {
			Items []struct{ Tool, Outcome string }
		}
		h.API("GET", "/workspaces/"+ws.ID+"/tool-calls?limit=200", nil, &calls)
		for _, c := range calls.Items {
			if c.Outcome == "running" {
				t.Errorf("%s still runs", c.Tool)
			}
		}
	})
}

// mcpAgent is an agent that speaks MCP: the test writes what it says to a pipe in the worktree, and reads what it is answered there.
type mcpAgent struct {
	t       *testing.T
	h       *testkit.Instance
	session testkit.Session
	in      *os.File
	out     string
	last    int
}

func startMCPAgent(t *testing.T, h *testkit.Instance, ws testkit.Workspace) *mcpAgent {
	t.Helper()
	in := filepath.Join(ws.Path, "mcp.in")
	must(t, syscall.Mkfifo(in, 0o600))
	must(t, os.Chmod(in, 0o666)) //nolint:gosec // the agent is another user where it is isolated
	a := &mcpAgent{t: t, h: h, out: filepath.Join(ws.Path, "mcp.out")}
	a.session = h.Run(ws.ID, "sh", "-c", "exec parawork mcp <mcp.in >mcp.out")
	var err error
	if a.in, err = os.OpenFile(in, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.in.Close()
		if t.Failed() {
			t.Logf("the agent's terminal: %s", h.Output(a.session.ID, 0))
		}
	})
	a.call("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "tester", "version": "1"}}).result(nil)
	a.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return a
}

func (a *mcpAgent) write(message map[string]any) {
	a.t.Helper()
	b, err := json.Marshal(message)
	must(a.t, err)
	_, err = a.in.Write(append(b, '\n'))
	must(a.t, err)
}

// send sends a request and does not wait for its answer.
func (a *mcpAgent) send(method string, params any) (id int) {
	a.t.Helper()
	a.last++
	a.write(map[string]any{"jsonrpc": "2.0", "id": a.last, "method": method, "params": params})
	return a.last
}

// mcpAnswer is an answer of JSON-RPC.
type mcpAnswer struct {
	t      *testing.T
	ID     *int
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    struct {
			Code      string
			MayBeDone bool `json:"may_be_done"`
		}
	}
}

func (a mcpAnswer) result(into any) {
	a.t.Helper()
	if a.Error != nil {
		a.t.Fatalf("the request failed: %+v", *a.Error)
	}
	if into != nil {
		must(a.t, json.Unmarshal(a.Result, into))
	}
}

// answer waits for the answer to a request.
func (a *mcpAgent) answer(id int) (got mcpAnswer) {
	a.t.Helper()
	a.h.Wait(fmt.Sprintf("request %d is answered", id), func() bool {
		b, _ := os.ReadFile(a.out)
		for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
			var one mcpAnswer
			if json.Unmarshal(lines.Bytes(), &one) == nil && one.ID != nil && *one.ID == id {
				got = one
				return true
			}
		}
		return false
	})
	got.t = a.t
	return got
}

func (a *mcpAgent) call(method string, params any) mcpAnswer {
	a.t.Helper()
	return a.answer(a.send(method, params))
}

func (a *mcpAgent) tool(name string, args map[string]any, into any) {
	a.t.Helper()
	var r struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
	}
	a.call("tools/call", map[string]any{"name": name, "arguments": args}).result(&r)
	if r.IsError {
		a.t.Fatalf("%s: %+v", name, r.Content)
	}
	if into != nil {
		must(a.t, json.Unmarshal(r.StructuredContent, into))
	}
}

// An agent that speaks MCP keeps its connection when the server is killed: the call that was under way fails with a reason, and the next one
// works.
func TestMCPOfAnAgentOutlivesTheServer(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		p := h.Sample()
		h.API("PATCH", "/projects/"+p, map[string]any{"checks": []any{map[string]any{"name": "slow", "command": "touch began; until test -e go; do sleep 0.1; done"}}}, nil)
		ws := h.WorkspaceIn(place, p, "MCP")
		a := startMCPAgent(t, h, ws)
		var list struct{ Tools []struct{ Name string } }
		a.call("tools/list", map[string]any{}).result(&list)
		if n := len(list.Tools); n == 0 || n > 20 || !slices.ContainsFunc(list.Tools, func(l struct{ Name string }) bool { return l.Name == "task_create" }) {
			t.Errorf("%d tools: %+v", n, list.Tools)
		}
		var made taskRow
		a.tool("task_create", map[string]any{"title": "By MCP"}, &made)

		cut := a.send("tools/call", map[string]any{"name": "verify", "arguments": map[string]any{}})
		h.Wait("the check runs", func() bool { _, err := os.Stat(filepath.Join(ws.Path, "began")); return err == nil })
		ended := startScript(t, h, ws, "run cut parawork verify --json\nrun next parawork task ready --json")
		h.Wait("a command is under way, too", func() bool {
			var calls struct {
				Items []struct{ Tool, Outcome string }
			}
			h.API("GET", "/workspaces/"+ws.ID+"/tool-calls", nil, &calls)
			return len(calls.Items) == 3
		})
		h.Kill()
		got := a.answer(cut)
		if got.Error == nil || got.Error.Data.Code != "call_cut" || !got.Error.Data.MayBeDone {
			t.Errorf("the call under way: %+v, %s", got.Error, got.Result)
		}
		waiting := a.send("tools/call", map[string]any{"name": "task_claim", "arguments": map[string]any{"task": made.ID}}) // no server is there
		h.Boot()
		a.answer(waiting).result(nil)
		of := ended()
		of("cut").ran("1").says("command_cut")
		of("next").ran("0")
		var tasks struct{ Items []taskRow }
		a.tool("task_list", map[string]any{}, &tasks)
		if len(tasks.Items) != 1 || tasks.Items[0].Status != "in_progress" {
			t.Errorf("after the restart: %+v", tasks)
		}
		var calls struct {
			Items []struct{ Tool, Outcome string }
		}
		h.API("GET", "/sessions/"+a.session.ID+"/tool-calls", nil, &calls)
		outcomes := map[string]string{}
		for _, c := range calls.Items {
			outcomes[c.Tool] = c.Outcome
		}
		if outcomes["verify"] != "unknown" || outcomes["task_create"] != "done" || outcomes["task_claim"] != "done" {
			t.Errorf("the record of calls: %+v", calls.Items)
		}
		var s testkit.Session
		h.API("GET", "/sessions/"+a.session.ID, nil, &s)
		if s.State == "exited" || s.State == "failed" || s.State == "lost" {
			t.Errorf("the agent: %+v", s)
		}
	})
}

// Agents of one project share its list of tasks, whatever they are and wherever they work: each sees what the others add, and one of those
// who claim a task gets it.
func TestAgentsShareTasks(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h := testkit.Start(t)
		p := h.Sample()
		ws := h.WorkspaceIn(place, p, "Shared")
		a := startMCPAgent(t, h, ws)
		made := make([]taskRow, 6)
		script := "run list parawork task list --json\n"
		for i := range made {
			a.tool("task_create", map[string]any{"title": "Wanted"}, &made[i])
			script += "run claim" + made[i].ID + " parawork task claim " + made[i].ID + " --json\n"
		}
		claims := make([]int, len(made))
		ended := startScript(t, h, ws, script+`run note parawork task create "From the shell" --discovered-from `+made[0].ID)
		for i := len(made) - 1; i >= 0; i-- { // they meet in the middle
			claims[i] = a.send("tools/call", map[string]any{"name": "task_claim", "arguments": map[string]any{"task": made[i].ID}})
		}
		of := ended()
		if got := decodeLine[struct{ Items []taskRow }](of("list").ran("0")); len(got.Items) != len(made) {
			t.Errorf("the shell sees %+v", got)
		}
		of("note").ran("0")
		for i, m := range made {
			var r struct{ IsError bool }
			a.answer(claims[i]).result(&r)
			if got := of("claim" + m.ID); r.IsError != (got.exit == "0") {
				t.Errorf("%s: the agent was refused: %v; the shell ended with %s: %s", m.ID, r.IsError, got.exit, got.err)
			}
		}
		var tasks struct{ Items []taskRow }
		a.tool("task_list", map[string]any{}, &tasks)
		if len(tasks.Items) != len(made)+1 {
			t.Errorf("the agent sees %+v", tasks)
		}
	})
}
