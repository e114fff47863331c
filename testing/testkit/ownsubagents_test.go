package testkit_test

import (
	"fmt"
	"strings"
	"testing"
)

// Parawork's own agent has eight of its kind work at once, in a mode that changes nothing, and ends its turn: each result comes to it as a
// message, once, although the server is killed meanwhile.
func TestOwnAgentsSubagents(t *testing.T) {
	toolPlaces(t, func(t *testing.T, place string) {
		const many = 8
		h, _, _ := ownAgent(t)
		ws := h.WorkspaceIn(place, h.Sample(), "Subagents")
		var spawns []any
		for i := range many {
			task := script(t, map[string]any{"tools": calls("glob", map[string]any{"pattern": "*"})}, map[string]any{"text": fmt.Sprintf("Part %d is fine.", i)})
			spawns = append(spawns, map[string]any{"name": "subagent_spawn", "input": map[string]any{"name": fmt.Sprintf("part %d", i), "task": task, "mode": "ask"}})
		}
		var s struct{ ID string }
		h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parawork",
			"prompt": script(t, map[string]any{"tools": spawns}, map[string]any{"text": "They work."})}, &s)
		w := &work{t: t, h: h, id: s.ID}
		type subagent struct {
			Status, Result, Mode, Error string
			SessionID                   string `json:"session_id"`
		}
		tree := func() (items []subagent) {
			var out struct{ Items []subagent }
			h.API("GET", "/sessions/"+s.ID+"/subagents", nil, &out)
			return out.Items
		}
		w.waits("all were started", func() bool { return len(tree()) == many })
		h.Kill()
		h.Boot()
		var thread struct{ ID string }
		h.API("GET", "/sessions/"+s.ID+"/thread", nil, &thread)
		given := func() (n int) {
			var v struct {
				Messages []struct {
					Role  string
					Parts []struct{ Text string }
				}
			}
			h.API("GET", "/threads/"+thread.ID+"?limit=500", nil, &v)
			seen := map[string]int{}
			for _, m := range v.Messages {
				if m.Role == "user" && len(m.Parts) > 0 && strings.HasPrefix(m.Parts[0].Text, "The subagent part ") {
					if seen[m.Parts[0].Text[:len("The subagent part 0")]]++; !strings.Contains(m.Parts[0].Text, " is fine.") {
						t.Errorf("given: %s", m.Parts[0].Text)
					}
				}
			}
			for part, times := range seen {
				if times != 1 {
					t.Errorf("%s was given %d times", part, times)
				}
			}
			return len(seen)
		}
		w.waits("all results were given", func() bool { return given() == many })
		for _, a := range tree() {
			if a.Status != "completed" || a.Mode != "ask" || !strings.HasPrefix(a.Result, "Part ") {
				t.Errorf("%+v", a)
			}
		}
		w.reaches("idle")
	})
}
