package testkit_test

import (
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// The program on a member's machine is killed at every point it has: what was asked for is done once, or can be asked for again, and
// nothing half-made or half-ended stays there.
func TestMachineKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, p := range failpoint.OnMachine {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			h := testkit.Start(t, testkit.Local)
			m := h.Connect("Laptop", "--dangerous")
			project := h.Sample()
			kept := func(what string) []string {
				t.Helper()
				found, err := filepath.Glob(filepath.Join(m.Home, ".parawork", "runner", "*", "*", what, "*"))
				must(t, err)
				return found
			}
			if p == failpoint.BoxEnding || p == failpoint.BoxGone {
				ws := h.WorkspaceOn(m, project, "Ends")
				must(t, h.Attach(h.Run(ws.ID, "sh", "-c", "echo up; read x").ID, "from=0").See("up"))
				m.DieAt(p, func() { go func() { _ = h.Try("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil) }() })
				m.Online()
				h.Wait("nothing of the sandbox is left on the machine", func() bool {
					_ = h.Try("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil) // the first may have been answered that it failed
					return len(kept("journal")) == 0 && len(kept("workspaces")) == 0 && len(kept("sandboxes")) == 0
				})
				return
			}
			var ws testkit.Workspace
			m.DieAt(p, func() {
				h.API("POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": project, "name": "Begins", "executor": "runner", "runner_id": m.ID}, &ws)
				h.Cleanup(ws.ID)
			})
			m.Online()
			h.Wait("the workspace is ready, or can be tried again", func() bool {
				h.API("GET", "/workspaces/"+ws.ID, nil, &ws)
				if ws.State == "failed" {
					h.API("POST", "/workspaces/"+ws.ID+"/retry", nil, nil)
				}
				return ws.State == "ready"
			})
			must(t, h.Attach(h.Run(ws.ID, "sh", "-c", "echo up; read x").ID, "from=0").See("up"))
			h.Wait("one sandbox is on the machine", func() bool {
				return len(kept("journal")) == 1 && len(kept("workspaces")) == 1 && len(kept("sandboxes")) == 1
			})
		})
	}
}
