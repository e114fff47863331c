package testkit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// killedTool is a tool in whose calls the server is killed: before it does anything, at points of its own, and after it has done everything.
// Each call is the retry of the one before.
type killedTool struct {
	name          string
	args          map[string]any
	before, after func() string // says what is wrong with the state before a call, and after it
	between       []toolDeath
}

// toolDeath is a death of the server between the steps of a tool.
type toolDeath struct {
	at   failpoint.Point
	left func() string
}

// The server is killed in the middle of each tool that changes something: before it has done anything, between its steps, and after it has
// done everything. The agent's connection stays, and its answer says that the call may have been done; the state is the one before or the one
// after; the record of calls says why nothing is known; and a retry succeeds.
func TestKilledInTheMiddleOfEachTool(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	p := h.Sample()
	h.API("PATCH", "/projects/"+p, map[string]any{"checks": []any{map[string]any{"name": "taste", "command": "echo run >> checked"}}}, nil)
	ws := h.Workspace(p, "Tools")
	a := startMCPAgent(t, h, ws)
	on := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(ws.Path, name))
		return string(b)
	}
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(ws.Path, name), []byte(text), 0o666)) } //nolint:gosec // the agent is another user where it is isolated

	var task taskRow
	a.tool("task_create", map[string]any{"title": "Known"}, &task)
	other := taskRow{}
	a.tool("task_create", map[string]any{"title": "Other"}, &other)
	write("one", "1\n")
	write("two", "2\n")
	var marked struct{ ID string }
	a.tool("checkpoint_create", map[string]any{"note": "start"}, &marked)
	write("one", "changed\n")
	write("two", "changed\n")
	write("report.txt", strings.Repeat("a line of the report\n", 50_000))

	// These read by the API: a call of a tool would die.
	type shown struct {
		ID, Title, Status, Name, Note, Text, Key, SHA256, State string
		Size                                                    int64
		Priority                                                int
		BlockedBy                                               []string `json:"blocked_by"`
	}
	list := func(path string) []shown {
		t.Helper()
		var all struct{ Items []shown }
		h.API("GET", path, nil, &all)
		return all.Items
	}
	count := func(path string, want int, is func(shown) bool) func() string {
		return func() string {
			t.Helper()
			n := 0
			all := list(path)
			for _, it := range all {
				if is(it) {
					n++
				}
			}
			if n != want {
				return fmt.Sprintf("%d instead of %d in %s: %+v", n, want, path, all)
			}
			return ""
		}
	}
	fine := func(problem string) {
		t.Helper()
		if problem != "" {
			t.Error(problem)
		}
	}
	tasks := "/teams/" + h.Team + "/tasks?status=open,in_progress,blocked,closed&limit=100"
	artifacts, memory, checkpoints, subagents := "/workspaces/"+ws.ID+"/artifacts", "/projects/"+p+"/memory", "/workspaces/"+ws.ID+"/checkpoints", "/workspaces/"+ws.ID+"/subagents"
	titled := func(title string) func(shown) bool { return func(s shown) bool { return s.Title == title } }
	known := func(is func(shown) bool) func(shown) bool {
		return func(s shown) bool { return s.ID == task.ID && is(s) }
	}
	status := func(want string) func(shown) bool { return known(func(s shown) bool { return s.Status == want }) }
	whole := func(s shown) bool {
		return s.Name == "report.txt" && s.Size == 50_000*21
	}
	spawned := func(s shown) bool { return s.Name == "helper" }
	restored := func(want bool) func() string {
		return func() string {
			if is := on("one") == "1\n" && on("two") == "2\n"; is != want {
				return fmt.Sprintf("restored: %v; one: %q, two: %q", is, on("one"), on("two"))
			}
			return ""
		}
	}
	ran := func(want bool) func() string {
		return func() string {
			if is := on("checked") != ""; is != want {
				return fmt.Sprintf("the check ran: %v", is)
			}
			return ""
		}
	}

	var tools []killedTool
	cut := func(name string, args map[string]any, before, after func() string, between ...toolDeath) {
		tools = append(tools, killedTool{name, args, before, after, between})
	}
	cut("task_create", map[string]any{"title": "New"}, count(tasks, 0, titled("New")), count(tasks, 1, titled("New")))
	claimed := func(s shown) bool { return s.ID == other.ID && s.Status == "in_progress" }
	cut("task_claim", map[string]any{"task": other.ID}, count(tasks, 0, claimed), count(tasks, 1, claimed))
	cut("task_update", map[string]any{"task": task.ID, "title": "Renamed"}, count(tasks, 1, titled("Known")), count(tasks, 1, titled("Renamed")))
	cut("task_close", map[string]any{"task": task.ID, "reason": "done"}, count(tasks, 1, status("open")), count(tasks, 1, status("closed")))
	cut("remember", map[string]any{"text": "The port is 4711", "key": "port"}, count(memory, 0, func(s shown) bool { return s.Key == "port" }),
		count(memory, 1, func(s shown) bool { return s.Key == "port" }))
	cut("artifact_save", map[string]any{"path": "report.txt"}, count(artifacts, 0, whole), count(artifacts, 1, whole),
		toolDeath{failpoint.ArtifactCopied, count(artifacts, 0, whole)}, toolDeath{failpoint.ArtifactPut, count(artifacts, 0, whole)})
	noted := func(s shown) bool { return s.Note == "mid" }
	cut("checkpoint_create", map[string]any{"note": "mid"}, count(checkpoints, 0, noted), count(checkpoints, 1, noted),
		toolDeath{failpoint.CheckpointTaken, count(checkpoints, 0, noted)})
	cut("checkpoint_restore", map[string]any{"id": marked.ID, "paths": []string{"one", "two"}}, restored(false), restored(true),
		toolDeath{failpoint.SnapshotRestoring, restored(false)}) // the retry does the rest
	cut("verify", map[string]any{}, ran(false), ran(true), toolDeath{failpoint.CheckStarted, func() string {
		h.Wait("the check that was started is over", func() bool { return ran(true)() == "" })
		return ""
	}})
	cut("subagent_spawn", map[string]any{"name": "helper", "agent": "command", "task": "echo x >> helped"}, count(subagents, 0, spawned), count(subagents, 2, spawned),
		toolDeath{failpoint.SubagentStored, func() string {
			h.Wait("the subagent that has a row is started, once", func() bool { return on("helped") == "x\n" })
			return count(subagents, 1, spawned)()
		}})

	parts := func() []os.DirEntry {
		t.Helper()
		all, err := os.ReadDir(filepath.Join(h.DataDir(), "artifacts", "incoming"))
		must(t, err)
		return all
	}
	points := []failpoint.Point{failpoint.ToolBegun.Times(len(tools))}
	var acts, left []func()
	calls := 0
	send := func(tool killedTool) (answered func()) {
		t.Helper()
		calls++
		id := a.send("tools/call", map[string]any{"name": tool.name, "arguments": tool.args})
		return func() {
			t.Helper()
			if got := a.answer(id); got.Error == nil || got.Error.Data.Code != "call_cut" || !got.Error.Data.MayBeDone {
				t.Errorf("%s was answered with %+v, %s", tool.name, got.Error, got.Result)
			}
		}
	}
	die := func(answered ...func()) {
		t.Helper()
		h.Dies()
		for _, check := range answered {
			check()
		}
	}
	// All tools are there at once before they begin, and when they are done.
	acts = append(acts, func() {
		var answered []func()
		for _, tool := range tools {
			answered = append(answered, send(tool))
		}
		die(answered...)
	})
	left = append(left, func() {
		for _, tool := range tools {
			fine(tool.before())
		}
	})
	for _, tool := range tools {
		for _, d := range tool.between {
			points = append(points, d.at)
			acts = append(acts, func() {
				die(send(tool))
				if d.at == failpoint.ArtifactCopied && len(parts()) != 1 {
					t.Errorf("the death left %v of the artifact", parts())
				}
			})
			left = append(left, func() { fine(d.left()) })
		}
	}
	points = append(points, failpoint.ToolDone.Times(len(tools)))
	acts = append(acts, func() {
		var answered []func()
		for i, tool := range tools {
			answered = append(answered, send(tool))
			if i+1 < len(tools) { // the last one is the end
				h.Wait(tool.name+" is done", func() bool { return tool.after() == "" })
			}
		}
		die(answered...)
	})
	left = append(left, func() {
		for _, tool := range tools {
			fine(tool.after())
		}
	})
	for _, at := range failpoint.OfTools {
		if !slices.ContainsFunc(points, func(p failpoint.Point) bool { return p == at || p == at.Times(len(tools)) }) {
			t.Errorf("%s is not tried", at)
		}
	}
	next := 0
	h.DieInTurn(points, func(failpoint.Point) {
		if next > 0 {
			left[next-1]()
		}
		next++
		acts[next-1]()
	})
	left[next-1]()

	// Each is tried again, now with success.
	retried := 0
	for _, tool := range tools {
		if tool.name != "task_update" && tool.name != "task_close" { // a closed task stays closed
			a.tool(tool.name, tool.args, nil)
			retried++
		}
	}
	fine(count(artifacts, 1, whole)()) // the same content again is the same artifact
	fine(count(memory, 1, func(s shown) bool { return s.Key == "port" })())
	fine(restored(true)())
	h.Wait("each subagent ran once", func() bool { return on("helped") == "x\nx\nx\n" })
	if left := parts(); len(left) != 0 {
		t.Errorf("half-written artifacts: %v", left)
	}

	var recorded struct {
		Items []struct{ Tool, Outcome, Cause string }
	}
	h.Wait("all calls are recorded", func() bool {
		h.API("GET", "/sessions/"+a.session.ID+"/tool-calls?limit=200", nil, &recorded)
		return len(recorded.Items) == calls+retried+3
	})
	unknown := 0
	for _, c := range recorded.Items {
		switch {
		case c.Outcome == "unknown" && strings.Contains(c.Cause, "server stopped"):
			unknown++
		case c.Outcome != "done":
			t.Errorf("the record of calls: %+v", c)
		}
	}
	if unknown != calls {
		t.Errorf("%d calls of %d are unknown: %+v", unknown, calls, recorded.Items)
	}
}
