//go:build linux

package testkit_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// endGuests ends the guests below a folder at once, as a machine's lost power does.
func endGuests(t *testing.T, below string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	ended := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(args, []byte("\x00serve\x00")) && bytes.Contains(args, []byte("\x00"+below+"/")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			ended++
		}
	}
	if ended == 0 {
		t.Fatal("no guest ran on the machine")
	}
}

// A machine loses its power while the server has not seen all that was done there: what ran has ended, and says so; the files are as they
// were, are worked on in the same sandbox, and are synced.
func TestMachineThatLostItsPower(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, testkit.Local)
	m := h.Connect("Laptop", "--dangerous")
	ws := h.WorkspaceOn(m, h.Sample(), "Far")
	s := h.Run(ws.ID, "sh", "-c", "echo ready; sleep 1000")
	must(t, h.Attach(s.ID, "from=0").See("ready"))
	var before, after struct{ ID, State string }
	h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &before)
	m.Kill()
	trees, err := filepath.Glob(filepath.Join(m.Home, ".parawork", "runner", "*", "*", "workspaces", "*", "tree", "*"))
	must(t, err)
	if len(trees) != 1 {
		t.Fatalf("worktrees on the machine: %q", trees)
	}
	must(t, os.WriteFile(filepath.Join(trees[0], "unseen"), []byte("work\n"), 0o644))
	endGuests(t, m.Home)
	m.Boot()
	m.Online()
	if got := h.Ended(s.ID); got.State != "lost" {
		t.Errorf("the session ended as %+v", got)
	}
	var got struct{ State, Stdout string }
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "cat unseen"}, &got)
	if got.State != "completed" || got.Stdout != "work\n" {
		t.Errorf("its file: %+v", got)
	}
	h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &after)
	if after != before || after.State != "running" {
		t.Errorf("the sandbox was %+v and is %+v", before, after)
	}
	h.Wait("the unseen changes are synced", func() bool {
		h.API("POST", "/workspaces/"+ws.ID+"/sync", nil, nil)
		b, err := os.ReadFile(filepath.Join(ws.Path, "unseen"))
		return err == nil && string(b) == "work\n"
	})
}
