package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// repository makes a repository of n files below the instance's folder.
func repository(t *testing.T, h *testkit.Instance, name string, n int) string {
	t.Helper()
	dir := filepath.Join(h.Dir, name)
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("d%d/f%d.txt", i%60, i))
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(strings.Repeat(fmt.Sprintf("line of %d\n", i), 50)), 0o644))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// kill -9 of the server while git writes a worktree: that git ends with it, the next start removes all it made, and trying
// again does not meet it.
func TestCreationCutByAKilledServer(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	dir := repository(t, h, "many", 6000)
	project := h.Project(map[string]any{"source": map[string]string{"kind": "path", "path": dir}})
	for round := range 3 {
		var ws testkit.Workspace
		h.API("POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": project, "name": fmt.Sprintf("Cut %d", round)}, &ws)
		at := "/workspaces/" + ws.ID
		h.Wait("files are being written", func() bool {
			h.API("GET", at, nil, &ws)
			if ws.State != "creating" {
				t.Skipf("the creation was over before it could be cut: %s", ws.State)
			}
			found, _ := filepath.Glob(ws.Path + "/d*")
			return len(found) > 0
		})
		h.Kill()
		h.Boot()
		h.API("GET", at, nil, &ws)
		if ws.State == "ready" {
			t.Logf("round %d: the creation was over before it could be cut", round)
			h.Cleanup(ws.ID)
			continue
		}
		if ws.State != "failed" || strings.Contains(ws.StateReason, "could be removed") {
			t.Errorf("round %d: %s: %s", round, ws.State, ws.StateReason)
		}
		if left, _ := filepath.Glob(h.DataDir() + "/worktrees/*"); len(left) != round {
			t.Errorf("round %d: folders in the data folder: %v", round, left)
		}
		h.API("POST", at+"/retry", nil, nil)
		h.Wait("the second try ends", func() bool {
			h.API("GET", at, nil, &ws)
			return ws.State == "ready" || ws.State == "failed"
		})
		if ws.State != "ready" {
			t.Fatalf("round %d: the second try: %s", round, ws.StateReason)
		}
		h.Cleanup(ws.ID)
	}
}
