package testkit_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

type apiSandbox struct {
	ID, Key, State string
	WorkspaceID    string `json:"workspace_id"`
	EndsAt         int64  `json:"ends_at"`
}

// Scripts find one sandbox by its key, however many ask at once, and use it for commands, files and code.
func TestSandboxesWithoutARepository(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ask := map[string]any{"key": "talk", "purpose": "execution", "executor": "local"}
	var got [3]apiSandbox
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			if err := h.Try("POST", "/teams/"+h.Team+"/sandboxes", ask, &got[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got[0].ID == "" || got[0] != got[1] && got[0].ID != got[1].ID || got[1].ID != got[2].ID {
		t.Fatalf("three requests with one key: %+v", got)
	}
	at := "/sandboxes/" + got[0].ID
	var c struct {
		Stdout   string
		ExitCode int `json:"exit_code"`
	}
	h.API("POST", at+"/exec", map[string]any{"command": []string{"cat"}, "stdin": "hello"}, &c)
	if c.Stdout != "hello" || c.ExitCode != 0 {
		t.Errorf("a command with input: %+v", c)
	}
	if h.API("POST", at+"/exec", map[string]any{"command": "echo out; exit 3"}, &c); c.Stdout != "out\n" || c.ExitCode != 3 {
		t.Errorf("a line for the shell: %+v", c)
	}
	_, sse, err := h.Do("POST", at+"/exec", strings.NewReader(`{"command":"echo streamed"}`), "Content-Type", "application/json", "Accept", "text/event-stream")
	if err != nil || !strings.Contains(string(sse), "streamed") {
		t.Errorf("a stream: %v\n%s", err, sse)
	}
	if r, b, err := h.Do("PUT", at+"/files?path=in/a.txt", strings.NewReader("data"), "Content-Type", "application/octet-stream"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("writing a file: %v %s", err, b)
	}
	if _, b, err := h.Do("GET", at+"/files?path=in/a.txt", nil); err != nil || string(b) != "data" {
		t.Errorf("reading a file: %v %s", err, b)
	}
	var run codeRun
	if h.API("POST", at+"/code", map[string]any{"language": "shell", "code": "cat in/a.txt"}, &run); run.Stdout != "data" {
		t.Errorf("code: %+v", run)
	}
	h.Refused(400, "", "GET", at+"/files?path=../x", nil)
	var later apiSandbox
	if h.API("POST", at+"/extend", map[string]any{"seconds": 86400}, &later); later.EndsAt <= got[0].EndsAt {
		t.Errorf("extended: %d, then %d", got[0].EndsAt, later.EndsAt)
	}
	var w struct {
		ProjectID string `json:"project_id"`
	}
	h.API("GET", "/workspaces/"+got[0].WorkspaceID, nil, &w)
	h.Refused(409, "project_of_sandboxes", "PATCH", "/projects/"+w.ProjectID, map[string]any{"setup_script": "echo mine"})
	var seen struct{ Items []struct{ ID string } }
	for _, list := range []string{"/workspaces", "/inbox", "/trash", "/workspaces?project=" + w.ProjectID} {
		if h.API("GET", "/teams/"+h.Team+list, nil, &seen); len(seen.Items) != 0 {
			t.Errorf("%s shows a sandbox as work: %+v", list, seen.Items)
		}
	}
	h.API("DELETE", at, nil, nil)
	h.Refused(404, "not_found", "GET", at, nil)
	repo := filepath.Join(h.DataDir(), "projects", w.ProjectID, "empty")
	if left, err := exec.Command("git", "-C", repo, "for-each-ref", "refs/heads/sandbox/").CombinedOutput(); err != nil || len(left) > 0 {
		t.Errorf("branches that an ended sandbox left: %s, %v", left, err)
	}
	if left, err := exec.Command("git", "-C", repo, "worktree", "list").CombinedOutput(); err != nil || strings.Contains(string(left), got[0].WorkspaceID) {
		t.Errorf("a worktree that an ended sandbox left: %s, %v", left, err)
	}
}

func (d *death) obtain() {
	var sb apiSandbox
	_ = d.Try("POST", "/teams/"+d.Team+"/sandboxes", map[string]any{"key": "k", "purpose": "execution"}, &sb)
	d.ws.ID = sb.WorkspaceID
}

func (d *death) obtained() {
	d.obtain()
	if live := d.sandboxes(); len(live) != 1 || live[0].WorkspaceID != d.ws.ID || live[0].State != "running" {
		d.t.Errorf("live sandboxes: %+v", live)
	}
}

func (d *death) endSandbox() {
	for _, sb := range d.sandboxes() {
		_ = d.Try("DELETE", "/sandboxes/"+sb.ID, nil, nil)
	}
}

func (d *death) sandboxEnded() {
	if live := d.sandboxes(); d.ws.ID == "" || len(live) != 0 {
		d.t.Errorf("live sandboxes: %+v", live)
	}
	d.Wait("nothing of the sandbox is left", func() bool {
		return d.Try("GET", "/workspaces/"+d.ws.ID, nil, nil) != nil
	})
}

func (d *death) sandboxes() []apiSandbox {
	var all struct{ Items []apiSandbox }
	d.API("GET", "/teams/"+d.Team+"/sandboxes", nil, &all)
	return all.Items
}
