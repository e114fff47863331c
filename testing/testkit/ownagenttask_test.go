package testkit_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkit"
)

// longTask is a prompt for a task of 30 steps, and the files that are there when it was done: edits, a check that fails and then passes, a
// subagent, and a conversation that is summarized. What a killed server leaves open is done again, as a careful model does it.
func longTask(t *testing.T) (prompt string, files map[string]string) {
	t.Helper()
	step := func(tools ...any) map[string]any {
		repeat := []string{"unknown whether it was done"}
		if len(tools) > 1 { // it reads before it edits, which has to be one server
			repeat = append(repeat, "have not read it")
		}
		return map[string]any{"tools": tools, "usage": map[string]int{"in": 100, "out": 10}, "repeat": repeat}
	}
	call := func(name string, input any) any { return map[string]any{"name": name, "input": input} }
	write := func(path, content string) any {
		return call("file_write", map[string]any{"path": path, "content": content})
	}
	read := func(path string) any { return call("file_read", map[string]any{"path": path}) }
	run := func(line string) any { return call("run_command", map[string]any{"command": line}) }

	const parts = 8
	check := "for i in 1 2 3 4 5 6 7 8; do grep -q done parts/$i.txt || { echo part $i is not done; exit 1; }; done\n"
	files = map[string]string{"check.sh": check, "by-subagent.txt": "made below\n", "last.txt": "last, twice changed\n"}
	steps := []map[string]any{step(call("glob", map[string]any{"pattern": "**/*"}), call("grep", map[string]any{"pattern": "hello"})), step(read("README.md"))}
	for i := 1; i <= parts; i++ {
		steps = append(steps, step(write(fmt.Sprintf("parts/%d.txt", i), fmt.Sprintf("part %d\n", i))))
		files[fmt.Sprintf("parts/%d.txt", i)] = fmt.Sprintf("part %d is done\n", i)
		files["all.txt"] += fmt.Sprintf("part %d is done\n", i)
	}
	steps = append(steps, step(write("check.sh", check)), step(run("sh check.sh")))
	for i := 1; i <= parts; i++ {
		p := fmt.Sprintf("parts/%d.txt", i)
		steps = append(steps, step(read(p), call("file_edit", map[string]any{"path": p, "old": fmt.Sprintf("part %d\n", i), "new": fmt.Sprintf("part %d is done\n", i)})))
	}
	below := script(t, step(write("by-subagent.txt", "made below\n")), map[string]any{"text": "I made a file."})
	steps = append(steps, step(run("sh check.sh")),
		step(call("subagent_spawn", map[string]any{"name": "below", "task": below})),
		step(call("subagent_wait", map[string]any{})))
	full := step(read("all-of-it-is-long"))
	full["usage"] = map[string]int{"in": 390_000, "out": 10}
	rest := script(t,
		step(write("last.txt", "last\n")),
		step(read("last.txt"), call("file_multi_edit", map[string]any{"path": "last.txt", "edits": []any{
			map[string]any{"old": "last\n", "new": "last, changed\n"}, map[string]any{"old": "changed", "new": "twice changed"}}})),
		step(run("cat parts/*.txt > all.txt")),
		step(read("all.txt")),
		step(run("sh check.sh")),
		map[string]any{"text": "The whole task is done."})
	steps = append(steps, full, map[string]any{"text": "Most is done. What is left: " + rest, "usage": map[string]int{"in": 390_000, "out": 100}})
	return script(t, steps...), files
}

// A long task ends with the same files however often the server is killed meanwhile, and at whatever moment: PARAWORK_TEST_KILLS says how
// often. The agent speaks Anthropic Messages in one workspace, and OpenAI Responses in another.
func TestOwnAgentTaskGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	needsBubblewrap(t)
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("PARAWORK_TEST_KILLS"), "4"))
	must(t, err)
	h, _, _ := ownAgent(t)
	prompt, files := longTask(t)
	project := h.Sample()
	for round := 0; round == 0 || kills > 0; round++ {
		var all []*taskWork
		for _, api := range []string{"messages", "responses"} {
			all = append(all, startTask(t, h, "bubblewrap", project, fmt.Sprintf("%s %d", api, round), prompt, "--api", api))
		}
		for kills > 0 && !slices.ContainsFunc(all, (*taskWork).over) {
			time.Sleep(rand.N(900 * time.Millisecond)) // any moment
			h.Kill()
			h.Boot()
			kills--
		}
		for _, w := range all {
			w.ends(files)
		}
	}
}

// taskWork is a session that works on a task.
type taskWork struct {
	*work
	ws testkit.Workspace
}

func startTask(t *testing.T, h *testkit.Instance, place, project, name, prompt string, args ...string) *taskWork {
	t.Helper()
	ws := h.WorkspaceIn(place, project, name)
	var s struct{ ID string }
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parawork", "prompt": prompt, "args": args, "permissions": "all", "confirm_no_boundary": place == "local"}, &s)
	return &taskWork{&work{t: t, h: h, id: s.ID}, ws}
}

// over reports whether the agent has ended its turn.
func (w *taskWork) over() bool {
	state, _ := w.now()
	return state == "idle" && strings.Contains(w.screen(), "\nThe whole task is done.")
}

// ends waits for the end and compares the files.
func (w *taskWork) ends(want map[string]string) {
	w.t.Helper()
	w.waits("the whole task is done", w.over)
	got := map[string]string{}
	for _, it := range w.h.Changes(w.ws.ID).Items {
		b, err := os.ReadFile(filepath.Join(w.ws.Path, it.Path))
		must(w.t, err)
		got[it.Path] = string(b)
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("%s ended with %v,\nnot with %v", w.ws.Name, got, want)
	}
}
