package testkit_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

// built is a build of an image as the API answers it.
type built struct {
	ID, State, Tag string
	Reason         string `json:"state_reason"`
}

// An image that one team built is reached by no name, no id and no Dockerfile of another's.
func TestImagesOfAnotherTeam(t *testing.T) {
	t.Parallel()
	d, err := testdocker.Start()
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"docker":{"host":%q,"image":%q}}`, d.Host, testdocker.Image))
	engine := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "docker", append([]string{"-H", d.Host}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	project := func(name, dockerfile string) string {
		root := filepath.Join(h.Dir, name)
		must(t, os.CopyFS(root, os.DirFS(executortest.GitRoot(t))))
		must(t, os.WriteFile(filepath.Join(root, "Dockerfile"), []byte(dockerfile), 0o644))
		executortest.Git(t, root, "add", "-A")
		executortest.Git(t, root, "commit", "-q", "-m", "an image")
		return h.Project(map[string]any{"name": name, "source": map[string]string{"kind": "path", "path": root}})
	}
	build := func(project string) (b built) {
		t.Helper()
		h.API("POST", "/projects/"+project+"/image-builds", map[string]any{"source": "Dockerfile"}, &b)
		_, log, err := h.Do("GET", "/image-builds/"+b.ID+"/log", nil)
		must(t, err)
		h.API("GET", "/image-builds/"+b.ID, nil, &b)
		t.Logf("%s\n%s", project, log)
		return b
	}
	theirs := project("theirs", "FROM "+testdocker.Image+"\nCOPY a.txt /secret\n")
	secret := build(theirs)
	if secret.State != "ready" {
		t.Fatalf("build %+v", secret)
	}
	id := strings.TrimPrefix(engine("image", "inspect", "--format", "{{.Id}}", secret.Tag), "sha256:")
	engine("tag", secret.Tag, "innocent:1")
	engine("tag", testdocker.Image, "tools:1")

	// Another team. It is the owner's too: what a project may use is not a question of who asks.
	var team struct{ Slug string }
	h.API("POST", "/teams", map[string]string{"name": "Quay"}, &team)
	first := h.Team
	h.Team = team.Slug
	mine := project("mine", "FROM "+testdocker.Image+"\nRUN cat /etc/hostname\n")
	choose := func(name string) error {
		return h.Try("PATCH", "/projects/"+mine, map[string]any{"image": map[string]string{"name": name}}, nil)
	}
	for name, code := range map[string]string{id[:2]: "image_id", id[:12]: "image_id", id: "image_id", "sha256:" + id: "image_id", "sha256:" + id[:9]: "image_id",
		secret.Tag: "image_of_another_project", "innocent:1": "image_of_another_project", "docker.io/library/innocent:1": "image_of_another_project",
		id[:2] + ":latest": "image_missing", "tools:1": "image_not_allowed", testdocker.Image: ""} {
		err := choose(name)
		if p, _ := err.(*testkit.Problem); code == "" && err != nil || code != "" && (p == nil || p.Code != code) { //nolint:errorlint // Try returns it bare
			t.Errorf("choosing %q: %v, want %q", name, err, code)
		}
	}
	half, rest := secret.Tag[:12], secret.Tag[12:]
	for i, text := range []string{"FROM " + id[:2] + "\n", "FROM sha256:" + id + "\n", "FROM innocent:1\n", "ARG P=" + half + "\nFROM ${P}" + rest + "\n",
		"ARG P\nFROM ${P:-" + half + "}" + rest + "\n", "ARG P=x\nFROM ${P:+" + half + "}" + rest + "\n", "FROM \\\n # a comment\n  innocent:1\n",
		"FROM " + testdocker.Image + "\nCOPY --from=" + id[:12] + " /secret /\n", "FROM " + testdocker.Image + "\nCOPY --from=innocent:1 /secret /\n",
		"# escape=`\nFROM `\ninnocent:1\n", "FROM " + testdocker.Image + " AS a\nONBUILD COPY --from=innocent:1 /secret /\nFROM a\n",
		"FROM " + testdocker.Image + "\nRUN --mount=type=bind,from=innocent:1,target=/x cat /x/secret\n", "FROM tools:1\n"} {
		p := project(fmt.Sprintf("try%d", i), text)
		if b := build(p); b.State != "failed" {
			t.Errorf("built from %q: %+v", text, b)
		}
	}

	// What a name means can change after it was chosen: the container is made from what was judged, or not at all.
	must(t, choose(testdocker.Image))
	engine("tag", secret.Tag, testdocker.Image)
	var ws testkit.Workspace
	h.API("POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": mine, "name": "Taken", "executor": "docker"}, &ws)
	h.Cleanup(ws.ID)
	h.Wait("the workspace is refused", func() bool {
		h.API("GET", "/workspaces/"+ws.ID, nil, &ws)
		return ws.State != "creating"
	})
	if ws.State != "failed" || !strings.Contains(ws.StateReason, "built for another project") {
		t.Errorf("a workspace of a name that was moved to another team's image: %s %s", ws.State, ws.StateReason)
	}

	// Its own project uses it by every name it has.
	h.Team = first
	h.API("PATCH", "/projects/"+theirs, map[string]any{"image": map[string]string{"name": "innocent:1"}}, nil)
	own := h.WorkspaceIn("docker", theirs, "Own")
	var c command
	h.API("POST", "/workspaces/"+own.ID+"/exec", map[string]any{"command": "cat /secret", "timeout_ms": 60000}, &c)
	if c.ExitCode == nil || *c.ExitCode != 0 || c.Stdout == "" {
		t.Errorf("in its own image: %+v", c)
	}
}

// What a Dockerfile runs reaches what the project's sandboxes reach, and nothing else of this machine's network.
func TestABuildGoesOutThroughTheGate(t *testing.T) {
	t.Parallel()
	d, err := testdocker.Start()
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	l, err := net.Listen("tcp", outside+":0")
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from outside") })}
	go func() { _ = srv.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = srv.Close() })
	at := l.Addr().String()
	host, port, err := net.SplitHostPort(at)
	must(t, err)
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"network":{"allowPrivate":[%q]},"docker":{"host":%q,"image":%q}}`, at, d.Host, testdocker.Image))
	root := filepath.Join(h.Dir, "gated")
	must(t, os.CopyFS(root, os.DirFS(executortest.GitRoot(t))))
	ask := func(url string) string {
		return `exec 3<>/dev/tcp/${p%:*}/${p#*:}; printf "GET ` + url + ` HTTP/1.0\r\n\r\n" >&3; cat <&3; `
	}
	must(t, os.WriteFile(filepath.Join(root, "Dockerfile"), []byte("FROM "+testdocker.Image+"\nSHELL [\"/bin/bash\", \"-c\"]\n"+
		"RUN cat /proc/net/dev; p=${HTTP_PROXY#http://}; "+ask("http://"+at+"/")+ask("http://127.0.0.3:1/")+"\n"+
		"RUN (exec 3<>/dev/tcp/"+host+"/"+port+") && echo past \"\"the gate || echo wal\"\"led\n"), 0o644))
	executortest.Git(t, root, "add", "-A")
	executortest.Git(t, root, "commit", "-q", "-m", "an image")
	project := h.Project(map[string]any{"source": map[string]string{"kind": "path", "path": root}})
	build := func() (b built, log string) {
		h.API("POST", "/projects/"+project+"/image-builds", map[string]any{"source": "Dockerfile"}, &b)
		_, out, err := h.Do("GET", "/image-builds/"+b.ID+"/log", nil)
		must(t, err)
		h.API("GET", "/image-builds/"+b.ID, nil, &b)
		return b, string(out)
	}
	b, log := build()
	if b.State != "ready" || !strings.Contains(log, "data: hello from outside") || !strings.Contains(log, "403") || !strings.Contains(log, "walled") || strings.Contains(log, "past the gate") || strings.Contains(log, "eth0") {
		t.Errorf("build %+v:\n%s", b, log)
	}
	h.API("PATCH", "/projects/"+project, map[string]any{"network": map[string]string{"mode": "none"}}, nil)
	executortest.Git(t, root, "commit", "-q", "--allow-empty", "-m", "again")
	if b, log := build(); b.State != "failed" {
		t.Errorf("a project without a network: %+v:\n%s", b, log)
	}
	out, err := exec.CommandContext(t.Context(), "docker", "-H", d.Host, "ps", "-aq").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("left behind: %v %s", err, out)
	}
}
