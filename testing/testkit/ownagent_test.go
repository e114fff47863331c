package testkit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// ownAgent boots an instance with an account of Parawork's own agent at the scripted model.
func ownAgent(t *testing.T, extra ...string) (h *testkit.Instance, model, key string) {
	t.Helper()
	h = testkit.Start(t, append(extra, modelsHere)...)
	model, key = scripted(t), "sk-ant-api03-"+strings.Repeat("fghij-kl", 5)
	h.API("PUT", "/me/agent-accounts/parawork", map[string]any{"kind": "api_key", "api_key": key, "base_url": model}, nil)
	return h, model, key
}

// calls are the tool calls of a step.
func calls(name string, input any) []any { return []any{map[string]any{"name": name, "input": input}} }

// A model and a key are enough: the agent works in the sandbox without a program or a key there, asks before it changes something, and is
// counted and recorded like any other.
func TestOwnAgent(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		h, _, key := ownAgent(t)
		ws := h.WorkspaceIn(place, h.Sample(), "Own agent")
		prompt := script(t,
			map[string]any{"text": "I look.", "tools": calls("run_command", map[string]any{"command": "echo made by the agent > made.txt"}), "usage": map[string]int{"in": 100, "out": 7}},
			says("All done.", 120, 5, 50, 0))
		var s struct{ ID string }
		h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parawork", "prompt": prompt}, &s)
		w := &work{t: t, h: h, id: s.ID}
		w.reaches("waiting")
		var open struct {
			Items []struct{ ID, Title, Source string }
		}
		h.API("GET", "/sessions/"+s.ID+"/questions", nil, &open)
		if len(open.Items) != 1 || open.Items[0].Source != "agent" || !strings.Contains(open.Items[0].Title, "echo made by the agent") {
			t.Fatalf("the question: %+v", open.Items)
		}
		if _, err := os.Stat(filepath.Join(ws.Path, "made.txt")); err == nil {
			t.Error("the command ran before a person allowed it")
		}
		h.API("POST", "/sessions/"+s.ID+"/answer", map[string]any{"question_id": open.Items[0].ID, "option_ids": []string{"allow"}}, nil)
		w.reaches("idle")
		if b, err := os.ReadFile(filepath.Join(ws.Path, "made.txt")); err != nil || string(b) != "made by the agent\n" {
			t.Errorf("made.txt: %q %v", b, err)
		}
		w.waits("the terminal shows the conversation", func() bool {
			screen := w.screen()
			return strings.Contains(screen, "I look.") && strings.Contains(screen, "run_command") && strings.Contains(screen, "All done.")
		})
		got := w.spent()
		if got.Input != 220 || got.Output != 12 || got.CacheRead != 50 || got.Requests != 2 || got.Source != "gateway" {
			t.Errorf("counted: %+v", got)
		}
		var talk struct{ Items []map[string]any }
		h.API("GET", "/sessions/"+s.ID+"/conversation", nil, &talk)
		kinds := ""
		for _, it := range talk.Items {
			kinds += fmt.Sprint(it["kind"], " ")
			if usage, ok := it["usage"].(map[string]any); ok && fmt.Sprint(usage["cost_nano_usd"]) == "<nil>" {
				t.Errorf("an answer without its cost: %v", usage)
			}
		}
		if !strings.HasPrefix(kinds, "prompt text usage tool text usage") {
			t.Errorf("the conversation: %s", kinds)
		}
		var thread struct{ ID string }
		h.API("GET", "/sessions/"+s.ID+"/thread", nil, &thread)
		const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
		var sent struct {
			Parts []struct{ Kind, Name, Text, Media string }
		}
		h.API("POST", "/threads/"+thread.ID+"/messages", map[string]any{"text": script(t, says("Asked by a script.", 120, 5, 50, 0)),
			"attachments": []any{map[string]any{"name": "a.png", "data": pixel}, map[string]any{"name": "numbers.csv", "data": "YSxiCjEsMgo="}}}, &sent)
		if len(sent.Parts) != 3 || sent.Parts[1].Kind != "image" || sent.Parts[1].Media == "" || sent.Parts[2].Kind != "file" {
			t.Fatalf("attached: %+v", sent.Parts)
		}
		placed, err := filepath.Glob(filepath.Join(ws.Path, ".parawork/attachments/*-numbers.csv"))
		if err != nil || len(placed) != 1 || !strings.Contains(sent.Parts[2].Text, filepath.Base(placed[0])) {
			t.Errorf("placed: %q %v", placed, err)
		}
		var changes struct{ Items []struct{ Path string } }
		h.API("GET", "/workspaces/"+ws.ID+"/changes", nil, &changes)
		for _, c := range changes.Items {
			if strings.Contains(c.Path, "attachments") {
				t.Errorf("an attachment is a change: %s", c.Path)
			}
		}
		w.waits("the answer to a prompt of the API", func() bool { return strings.Contains(w.screen(), "Asked by a script.") })
		unseen(t, h, key)
	})
}

// Whatever moment the server is killed at, the turn goes on and ends with the same files, and a call that may have been done is not repeated.
func TestOwnAgentGoesOnAfterKills(t *testing.T) {
	h, _, _ := ownAgent(t)
	ws := h.WorkspaceIn("local", h.Sample(), "Killed")
	var steps []map[string]any
	for i := range 12 {
		steps = append(steps, map[string]any{"text": fmt.Sprintf("Step %d.", i), "tools": calls("run_command", map[string]any{"command": fmt.Sprintf("sleep 0.1; echo %d >> log.txt", i)})})
	}
	steps = append(steps, map[string]any{"text": "The end."})
	var s struct{ ID string }
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parawork", "prompt": script(t, steps...), "permissions": "all", "confirm_no_boundary": true}, &s)
	w := &work{t: t, h: h, id: s.ID}
	lines := func() []string {
		b, _ := os.ReadFile(filepath.Join(ws.Path, "log.txt"))
		return strings.Fields(string(b))
	}
	for _, n := range []int{2, 5, 9} {
		w.waits("the agent works", func() bool { return len(lines()) >= n })
		h.Kill()
		h.Boot()
	}
	w.waits("the turn has ended", func() bool { return strings.Contains(w.screen(), "The end.") })
	w.reaches("idle")
	seen := map[string]int{}
	for _, l := range lines() {
		if seen[l]++; seen[l] > 1 {
			t.Errorf("step %s was done twice", l)
		}
	}
	if len(seen) < 12-3 { // the model reads that a call that was cut is unknown; the script does not repeat it
		t.Errorf("done: %v", lines())
	}
}
