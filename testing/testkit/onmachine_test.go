package testkit_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// The main job on a member's own machine, by the programs people run: shell, command, file, change, diff, commit, merge, preview.
func TestMainJobOnAMachine(t *testing.T) {
	t.Parallel()
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		onMachine(t, "--dangerous")
	})
}

func onMachine(t *testing.T, flags ...string) {
	h := testkit.Start(t)
	m := h.Connect("Work Laptop", flags...)
	project := h.Sample()
	ws := h.WorkspaceOn(m, project, "Say hello")
	var shown struct {
		Executor   string
		RunnerID   string `json:"runner_id"`
		RunnerName string `json:"runner_name"`
	}
	h.API("GET", "/workspaces/"+ws.ID, nil, &shown)
	if shown.Executor != "runner" || shown.RunnerID != m.ID || shown.RunnerName != "Work Laptop" {
		t.Errorf("the workspace says it lives in %+v", shown)
	}

	var sh testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "cols": 90, "rows": 20}, &sh)
	term := h.Attach(sh.ID, "from=0")
	must(t, term.Type("printf 'hello\\n' > greeting.txt; rm README.md; stty size; pwd; echo do''ne\r"))
	must(t, term.See("done"))
	_, out := term.Bytes()
	if !strings.Contains(string(out), "20 90") || !strings.Contains(string(out), m.Home) {
		t.Errorf("the shell is not on the machine: %q", out)
	}
	h.Wait("the changes come by themselves", func() bool {
		var c testkit.Changes
		h.API("GET", "/workspaces/"+ws.ID+"/changes", nil, &c)
		_, added := c.Find("greeting.txt")
		_, removed := c.Find("README.md")
		return added && removed
	})
	h.Wait("the file is synced", func() bool {
		b, err := os.ReadFile(filepath.Join(ws.Path, "greeting.txt"))
		return err == nil && string(b) == "hello\n"
	})
	if _, diff, err := h.Do("GET", "/workspaces/"+ws.ID+"/diff?path=greeting.txt", nil); err != nil || !strings.Contains(string(diff), "\n+hello\n") {
		t.Errorf("diff: %v\n%s", err, diff)
	}
	var ran struct{ State, Stdout string }
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "cat greeting.txt"}, &ran)
	if ran.State != "completed" || ran.Stdout != "hello\n" {
		t.Errorf("a command: %+v", ran)
	}
	if page := preview(t, h, ws); page != "served on the machine" {
		t.Errorf("the preview: %q", page)
	}
	var commit struct{ Commit string }
	h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Say hello", "paths": []string{"greeting.txt"}}, &commit)
	if len(commit.Commit) < 40 {
		t.Errorf("commit: %+v", commit)
	}
	var merged struct{ Merged bool }
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "squash", "message": "Hello"}, &merged)
	if !merged.Merged {
		t.Fatal("it was not merged")
	}
	var sandbox struct {
		RunnerID string `json:"runner_id"`
		State    string
		Machine  struct {
			Name, OS, Mode string
			Online         bool
		}
	}
	h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &sandbox)
	if sandbox.RunnerID != m.ID || sandbox.State != "running" || !sandbox.Machine.Online || sandbox.Machine.Name != "Work Laptop" {
		t.Errorf("sandbox: %+v", sandbox)
	}
}

// A machine that goes away keeps its work: what runs there goes on and is caught up with. Who does not wait goes on elsewhere from what came
// home last, and what the machine did meanwhile is kept beside that.
func TestAMachineGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	m := h.Connect("Work Laptop", "--dangerous")
	ws := h.WorkspaceOn(m, h.Sample(), "Go on")
	var sh testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell", "cols": 90, "rows": 20}, &sh)
	term := h.Attach(sh.ID, "from=0")
	must(t, term.Type("echo one > one.txt; until test -e go; do sleep 0.05; done; for i in 1 2 3; do echo while-away-$i; done\r"))
	h.Wait("the first file is synced", func() bool {
		_, err := os.Stat(filepath.Join(ws.Path, "one.txt"))
		return err == nil
	})
	tree := ""
	must(t, filepath.WalkDir(m.Home, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "one.txt" {
			tree = filepath.Dir(path)
		}
		return nil
	}))
	if tree == "" {
		t.Fatal("the worktree is not on the machine")
	}
	place := func() (blocked bool, warning, executor string) {
		var w struct {
			Executor string
			Blocked  bool   `json:"place_blocked"`
			Warning  string `json:"place_warning"`
		}
		h.API("GET", "/workspaces/"+ws.ID, nil, &w)
		return w.Blocked, w.Warning, w.Executor
	}

	m.Kill()
	m.Offline()
	h.Wait("the workspace says so", func() bool {
		blocked, warning, _ := place()
		return blocked && strings.Contains(warning, "Work Laptop is offline since")
	})
	must(t, os.WriteFile(filepath.Join(tree, "go"), nil, 0o644)) // what runs there goes on
	h.Refused(503, "runner_offline", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell"})
	m.Boot()
	m.Online()
	again := h.Attach(sh.ID, "from=0")
	must(t, again.See("while-away-3"))
	if _, out := again.Bytes(); strings.Count(string(out), "\nwhile-away-2") != 1 {
		t.Errorf("what was printed meanwhile: %q", out)
	}

	m.Kill()
	m.Offline()
	must(t, os.WriteFile(filepath.Join(tree, "late.txt"), []byte("late\n"), 0o644))
	h.Wait("it goes on elsewhere", func() bool {
		return h.Try("PATCH", "/workspaces/"+ws.ID, map[string]any{"executor": "local"}, nil) == nil
	})
	if blocked, warning, executor := place(); blocked || executor != "local" {
		t.Errorf("it lives in %q: %q", executor, warning)
	}
	var ran struct{ State, Stdout string }
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "cat one.txt; ls late.txt"}, &ran)
	if !strings.HasPrefix(ran.Stdout, "one\n") || strings.Contains(ran.Stdout, "late.txt") {
		t.Errorf("it goes on from %+v", ran)
	}
	m.Boot()
	m.Online()
	h.Wait("what the machine did meanwhile is kept", func() bool {
		var log struct{ Items []struct{ Kind, Text string } }
		h.API("GET", "/workspaces/"+ws.ID+"/activity", nil, &log)
		for _, e := range log.Items {
			if e.Kind == "workspace.left_kept" {
				return strings.Contains(e.Text, ws.Branch+"-on-work-laptop")
			}
		}
		return false
	})
	kept := h.Workspace(ws.ProjectID, "Look") // the repository is the same
	var seen struct{ Stdout string }
	h.API("POST", "/workspaces/"+kept.ID+"/exec", map[string]any{"command": "git show " + ws.Branch + "-on-work-laptop:late.txt"}, &seen)
	if seen.Stdout != "late\n" {
		t.Errorf("it holds %q", seen.Stdout)
	}
	h.Wait("it is ended there", func() bool {
		_, err := os.Stat(tree)
		return os.IsNotExist(err)
	})
}

// preview visits a program of a workspace's place, as a browser does.
func preview(t *testing.T, h *testkit.Instance, ws testkit.Workspace) string {
	t.Helper()
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"background": true, "timeout_ms": 600_000, "argv": []string{"node", "-e",
		"require('http').createServer((_, answer) => answer.end('served on the machine')).listen(0, '127.0.0.1')"}}, nil)
	var port string
	h.Wait("the program's port is seen", func() bool {
		var ports struct{ Items []struct{ Port int } }
		h.API("GET", "/workspaces/"+ws.ID+"/ports", nil, &ports)
		if len(ports.Items) == 1 {
			port = strconv.Itoa(ports.Items[0].Port)
		}
		return port != ""
	})
	var opened struct{ URL string }
	h.API("POST", "/workspaces/"+ws.ID+"/ports/"+port+"/open", nil, &opened)
	u, err := url.Parse(opened.URL)
	must(t, err)
	visit := func(path, cookie string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+path, http.NoBody)
		must(t, err)
		req.Host = u.Host
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	in := visit(u.RequestURI(), "")
	if in.StatusCode != http.StatusSeeOther || len(in.Cookies()) != 1 {
		t.Fatalf("with the ticket: %d %v", in.StatusCode, in.Header)
	}
	b, err := io.ReadAll(visit("/", in.Cookies()[0].Name+"="+in.Cookies()[0].Value).Body)
	must(t, err)
	return string(b)
}
