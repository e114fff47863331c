package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// The real program comes and goes, is given another name and another key, and is let go for good.
func TestAMachinesLife(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	m := h.Connect("Work Laptop", "--dangerous")
	path := "/runners/" + m.ID
	if r := m.Look(); r.Mode != "direct" || !r.Available {
		t.Errorf("%+v", r)
	}
	m.Terminate()
	if r := m.Look(); r.State != "offline" || r.OfflineAt == 0 || r.OfflineReason == "" { // at once, and in words
		t.Errorf("%+v", r)
	}
	m.Boot()
	m.Online()
	h.API("PATCH", path, map[string]string{"name": "Old Laptop"}, nil)
	if r := m.Look(); r.Name != "Old Laptop" {
		t.Errorf("%+v", r)
	}

	// Another key: the old one is worth nothing from that moment on, and the line in the answer brings the machine back as itself.
	var made struct {
		Token    string
		RunnerID string `json:"runner_id"`
	}
	h.API("POST", path+"/regenerate", nil, &made)
	m.Ended()
	if log := m.Log(); made.RunnerID != m.ID || !strings.Contains(log, "Somebody requested a new key for it") {
		t.Errorf("%+v\n%s", made, log)
	}
	m.Boot("--token", made.Token)
	m.Online()
	var all struct{ Items []testkit.Runner }
	if h.API("GET", "/teams/"+h.Team+"/runners", nil, &all); len(all.Items) != 1 || all.Items[0].ID != m.ID {
		t.Errorf("%+v", all)
	}

	h.API("DELETE", path, nil, nil)
	m.Ended()
	if log := m.Log(); !strings.Contains(log, "revoked") {
		t.Errorf("the log says:\n%s", log)
	}
	if h.API("GET", "/teams/"+h.Team+"/runners", nil, &all); len(all.Items) != 0 {
		t.Errorf("%+v", all)
	}
	var got []string
	h.Wait("the last connection's end is stored", func() bool {
		var history struct{ Items []struct{ Reason string } }
		h.API("GET", path+"/history", nil, &history)
		got = nil
		for _, c := range history.Items {
			got = append(got, c.Reason)
		}
		return len(got) == 0 || got[0] != ""
	})
	for i, want := range []string{"revoked", "new key", ""} {
		if i >= len(got) || got[i] == "" || !strings.Contains(got[i], want) {
			t.Errorf("history %q", got)
			break
		}
	}
}

// A machine that leaves with --remove is listed as leaving, has its work synced, and leaves nothing behind.
func TestAMachineThatGoesForGoodBringsItsWorkHome(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	m := h.Connect("Borrowed Laptop", "--dangerous", "--remove")
	ws := h.WorkspaceOn(m, h.Sample(), "Work there")
	var done struct {
		State  string
		Stderr string
	}
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"argv": []string{"sh", "-c", "echo precious > kept.txt"}}, &done)
	if done.State != "completed" {
		t.Fatalf("%+v", done)
	}
	there := func() []string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(m.Home, ".parawork", "runner", "*", "*", "workspaces", "*"))
		must(t, err)
		return all
	}
	if all := there(); len(all) != 1 || filepath.Base(all[0]) != ws.ID {
		t.Errorf("there: %q", all)
	}
	m.Terminate()
	m.Gone()
	if r := m.Look(); r.State != "offline" {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(ws.Path, "kept.txt")); err != nil || string(b) != "precious\n" {
		t.Errorf("not synced: %q %v\n%s", b, err, m.Log())
	}
	if left := there(); len(left) != 0 {
		t.Errorf("left there: %q", left)
	}
}
