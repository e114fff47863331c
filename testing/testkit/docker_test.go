package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

// The main scenario in containers: work, synced commits, a killed server, and a project image.
func TestWorkInContainers(t *testing.T) {
	t.Parallel()
	d, err := testdocker.Start("--live-restore")
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	must(t, d.Import("parawork-test-code:latest", interpreters(t)...))
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"docker":{"host":%q,"image":%q}}`, d.Host, testdocker.Image))
	root := filepath.Join(h.Dir, "repo")
	must(t, os.CopyFS(root, os.DirFS(executortest.GitRoot(t))))
	must(t, os.WriteFile(filepath.Join(root, "Dockerfile"), []byte("FROM parawork-test-code\nENV OWN=\"the project's own\"\n"), 0o644))
	executortest.Git(t, root, "add", "-A")
	executortest.Git(t, root, "commit", "-q", "-m", "an image")
	project := h.Project(map[string]any{"source": map[string]string{"kind": "path", "path": root}})
	make := func(name string) (ws testkit.Workspace) {
		t.Helper()
		h.API("POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": project, "name": name, "executor": "docker"}, &ws)
		h.Cleanup(ws.ID)
		h.Wait("the workspace is ready", func() bool {
			h.API("GET", "/workspaces/"+ws.ID, nil, &ws)
			if ws.State == "failed" {
				t.Fatalf("workspace failed: %s %+v", ws.StateReason, ws.Steps)
			}
			return ws.State == "ready"
		})
		return ws
	}
	ws := make("In a container")
	run := func(id, line string) string {
		t.Helper()
		var c command
		h.API("POST", "/workspaces/"+id+"/exec", map[string]any{"command": line, "timeout_ms": 60000}, &c)
		if c.ExitCode == nil || *c.ExitCode != 0 {
			t.Fatalf("%q: %+v", line, c)
		}
		return c.Stdout
	}
	if out := run(ws.ID, "id -u; echo $HOME; cat /proc/1/comm; cat "+h.DataDir()+"/secret.key 2>&1 || true"); !strings.Contains(out, "/home/agent\nparawork-guest\n") ||
		!strings.Contains(out, "No such file") || os.Getuid() == 0 && !strings.HasPrefix(out, "6001000") {
		t.Errorf("inside: %q", out)
	}
	var box struct {
		Executor, Isolation string
	}
	h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &box)
	if box.Executor != "docker" || !strings.HasPrefix(box.Isolation, "Container") {
		t.Errorf("sandbox %+v", box)
	}

	// The image has no interpreters but the shell: what to do is said.
	for language, want := range map[string]string{"python": "Install Python 3, or choose an image that has it.", "javascript": "Install Node.js 20 or newer, or choose an image that has it."} {
		if err := h.Try("POST", "/workspaces/"+ws.ID+"/code", map[string]any{"language": language, "code": "1"}, nil); err == nil ||
			!strings.Contains(err.Error(), "code_kernel_failed") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s in an image without it: %v", language, err)
		}
	}

	// A session goes on over the death of the server.
	s := h.Run(ws.ID, "/bin/sh", "-c", "echo begun; read -r x; echo two >> a.txt; git commit -qam 'made inside'; echo got $x")
	h.Wait("the session has begun", func() bool { return strings.Contains(string(h.Output(s.ID, 0)), "begun") })
	h.Kill()
	h.Boot()
	must(t, h.Attach(s.ID, "").Type("hello\r"))
	if end := h.Ended(s.ID); end.ExitCode == nil || *end.ExitCode != 0 {
		t.Fatalf("session %+v: %s", end, h.Output(s.ID, 0))
	}
	if out := string(h.Output(s.ID, 0)); !strings.Contains(out, "got hello") {
		t.Errorf("output %q", out)
	}
	h.Wait("the commit is fetched", func() bool {
		var commits struct{ Items []struct{ Subject string } }
		h.API("GET", "/workspaces/"+ws.ID+"/commits", nil, &commits)
		return len(commits.Items) > 0 && commits.Items[0].Subject == "made inside"
	})

	// An image of the project's own.
	h.API("PATCH", "/projects/"+project, map[string]any{"image": map[string]string{"build": "Dockerfile"}}, nil)
	var b struct {
		ID, State string
		Reason    string `json:"state_reason"`
		Tag       string
	}
	h.API("POST", "/projects/"+project+"/image-builds", map[string]any{}, &b)
	resp, log, err := h.Do("GET", "/image-builds/"+b.ID+"/log", nil)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(log), "event: end\n") || !strings.Contains(string(log), "data: Step 1/") {
		t.Errorf("log: %v %s", err, log)
	}
	h.API("GET", "/image-builds/"+b.ID, nil, &b)
	if b.State != "ready" || b.Tag == "" {
		t.Fatalf("build %+v:\n%s", b, log)
	}
	own := make("In its own image")
	if out := run(own.ID, `echo "$OWN"`); out != "the project's own\n" {
		t.Errorf("in its own image: %q", out)
	}
	runsCode(t, h, own.ID)
}

// interpreters are the paths that Python and Node.js need in an image.
func interpreters(t *testing.T) []string {
	t.Helper()
	python, node := "/usr/bin/python3", "" // not a manager of versions, which is a script
	library, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err == nil {
		node, err = exec.LookPath("node")
	}
	if err != nil {
		t.Skipf("the system's python3 and node are needed: %v", err)
	}
	return []string{python, node, strings.TrimSpace(string(library))}
}
