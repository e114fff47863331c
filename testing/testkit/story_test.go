package testkit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testkit"
	"github.com/parawork/parawork/testing/testmodel"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testkit.Cleanup()
	testmodel.Cleanup()
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The main job: sample project, workspace, shell, change, diff, commit, merge, delete, restore.
func TestMainJob(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		mainJob(t, testkit.Start(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		mainJob(t, testkit.Start(t, fmt.Sprintf(`"database":{"url":%q}`, storetest.PostgresURL(t))))
	})
}

func mainJob(t *testing.T, h *testkit.Instance) {
	project := h.Sample()
	ws := h.Workspace(project, "Say hello")
	if ws.Key != "PW-1" || !strings.HasPrefix(ws.Branch, "parawork/say-hello") {
		t.Errorf("got key %q, branch %q", ws.Key, ws.Branch)
	}
	for _, s := range ws.Steps {
		if s.State != "done" && s.State != "skipped" {
			t.Errorf("step %s is %s: %s", s.Name, s.State, s.Detail)
		}
	}

	var sh testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "cols": 90, "rows": 20}, &sh)
	term := h.Attach(sh.ID, "from=0")
	must(t, term.Type("printf 'hello\\n' > greeting.txt; rm README.md; stty size; echo do''ne\r"))
	must(t, term.See("done"))
	if _, out := term.Bytes(); !strings.Contains(string(out), "20 90") {
		t.Errorf("stty size is not 20 90 in %q", out)
	}

	h.Wait("the changes come by themselves", func() bool {
		var c testkit.Changes
		h.API("GET", "/workspaces/"+ws.ID+"/changes", nil, &c)
		_, added := c.Find("greeting.txt")
		_, removed := c.Find("README.md")
		return added && removed
	})
	c := h.Changes(ws.ID)
	if g, _ := c.Find("greeting.txt"); g.Status != "untracked" || g.Additions != 1 || g.Binary {
		t.Errorf("greeting.txt: %+v", g)
	}
	if r, _ := c.Find("README.md"); r.Status != "deleted" || r.Deletions == 0 {
		t.Errorf("README.md: %+v", r)
	}
	if _, diff, err := h.Do("GET", "/workspaces/"+ws.ID+"/diff?path=greeting.txt", nil); err != nil || !strings.Contains(string(diff), "\n+hello\n") {
		t.Errorf("diff: %v\n%s", err, diff)
	}

	// Only the chosen file is committed.
	var commit struct {
		Commit string
		Author string
	}
	h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Say hello", "paths": []string{"greeting.txt"}}, &commit)
	if commit.Author == "" || len(commit.Commit) < 40 {
		t.Errorf("commit: %+v", commit)
	}
	c = h.Changes(ws.ID)
	if g, ok := c.Find("greeting.txt"); !ok || !g.Committed {
		t.Errorf("after the commit greeting.txt is %+v", g)
	}
	if r, ok := c.Find("README.md"); !ok || r.Committed {
		t.Errorf("after the commit README.md is %+v", r)
	}

	var m struct {
		Merged   bool
		Commit   string
		Files    int
		Warnings []string
	}
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "merge", "dry_run": true}, &m)
	if m.Merged || m.Files != 1 || len(m.Warnings) == 0 {
		t.Errorf("dry run: %+v (want one file, and a warning of the uncommitted deletion)", m)
	}
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "squash", "message": "Hello"}, &m)
	if !m.Merged {
		t.Fatalf("merge: %+v", m)
	}
	next := h.Workspace(project, "Look")
	if b, err := os.ReadFile(filepath.Join(next.Path, "greeting.txt")); err != nil || string(b) != "hello\n" {
		t.Errorf("a new workspace has %q, %v", b, err)
	}

	// Deleting takes nothing away that cannot come back.
	must(t, os.WriteFile(filepath.Join(ws.Path, "draft.txt"), []byte("not committed\n"), 0o644))
	var loss struct {
		Count    int `json:"uncommitted_count"`
		Sessions int `json:"running_sessions"`
	}
	h.API("GET", "/workspaces/"+ws.ID+"/loss", nil, &loss)
	if loss.Count != 2 || loss.Sessions != 1 {
		t.Errorf("loss: %+v, want 2 files and 1 session", loss)
	}
	h.API("DELETE", "/workspaces/"+ws.ID, nil, nil)
	if _, err := os.Stat(ws.Path); !os.IsNotExist(err) {
		t.Errorf("the worktree is still there: %v", err)
	}
	if s := h.Ended(sh.ID); s.State != "exited" {
		t.Errorf("the shell is %s: %s", s.State, s.StateReason)
	}
	h.API("POST", "/workspaces/"+ws.ID+"/restore", nil, nil)
	var back testkit.Workspace
	h.Wait("the workspace is back", func() bool {
		h.API("GET", "/workspaces/"+ws.ID, nil, &back)
		return back.State == "ready"
	})
	if b, err := os.ReadFile(filepath.Join(back.Path, "draft.txt")); err != nil || string(b) != "not committed\n" {
		t.Errorf("the draft came back as %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(back.Path, "README.md")); !os.IsNotExist(err) {
		t.Error("the uncommitted deletion did not come back")
	}
}

// Conflicts are listed and nothing is half merged.
func TestMergeConflict(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	project := h.Sample()
	one, two := h.Workspace(project, "One"), h.Workspace(project, "Two")
	for _, ws := range []testkit.Workspace{one, two} {
		must(t, os.WriteFile(filepath.Join(ws.Path, "README.md"), []byte(ws.Name+"\n"), 0o644))
		h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": ws.Name}, nil)
	}
	var m struct {
		Merged    bool
		Conflicts []struct{ Path, Kind string }
	}
	h.API("POST", "/workspaces/"+one.ID+"/merge", map[string]any{"strategy": "rebase"}, &m)
	if !m.Merged {
		t.Fatalf("first merge: %+v", m)
	}
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		for _, dry := range []bool{true, false} {
			h.API("POST", "/workspaces/"+two.ID+"/merge", map[string]any{"strategy": strategy, "dry_run": dry}, &m)
			if m.Merged || len(m.Conflicts) != 1 || m.Conflicts[0].Path != "README.md" {
				t.Errorf("%s (dry run %v): %+v", strategy, dry, m)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(two.Path, "README.md"))
	if err != nil || string(b) != "Two\n" {
		t.Errorf("the workspace's file is %q, %v", b, err)
	}
}

// A session that ends says how and why.
func TestHowSessionsEnd(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, testkit.Local)
	ws := h.Workspace(h.Sample(), "Ends")
	for _, tc := range []struct {
		name  string
		argv  []string
		state string
		code  int
	}{
		{"zero", []string{"true"}, "exited", 0},
		{"code", []string{"sh", "-c", "echo bye; exit 7"}, "exited", 7},
	} {
		s := h.Ended(h.Run(ws.ID, tc.argv...).ID)
		if s.State != tc.state || s.ExitCode == nil || *s.ExitCode != tc.code || s.StateReason == "" {
			t.Errorf("%s: %+v", tc.name, s)
		}
	}
	if s := h.Ended(h.Run(ws.ID, "/no/such/program").ID); s.State != "failed" || s.StateReason == "" {
		t.Errorf("a program that does not exist: %+v", s)
	}
	h.Refused(400, "", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "nobody"})

	// Stop reaches what hides in a session of its own. Its pid is the one this machine counts by.
	s := h.Run(ws.ID, "sh", "-c", "setsid sleep 1000 & echo $! > pid; trap '' TERM; echo ready; while :; do sleep 1; done")
	term := h.Attach(s.ID, "from=0")
	must(t, term.See("ready"))
	pid, err := os.ReadFile(filepath.Join(ws.Path, "pid"))
	must(t, err)
	h.API("POST", "/sessions/"+s.ID+"/stop", map[string]any{"grace_ms": 200}, nil)
	if s := h.Ended(s.ID); s.State != "exited" || !strings.Contains(strings.ToLower(s.StateReason), "stopped") {
		t.Errorf("stopped: %+v", s)
	}
	h.Wait("the sleeper is gone", func() bool {
		b, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}
