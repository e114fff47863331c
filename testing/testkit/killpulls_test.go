package testkit_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/testing/testkit"
)

// somewhere is where the test itself kills the server.
const somewhere failpoint.Point = ""

type pullView struct {
	Number       int64
	State, Error string
	HeadCommit   string `json:"head_commit"`
	MergedCommit string `json:"merged_commit"`
}

// A server that is killed, one time after the other, while it pushes a branch, opens a pull request and has it merged: what the forge has is
// found again, nothing is opened twice, and what was merged there is fetched.
func TestKilledWithAPullRequest(t *testing.T) {
	t.Parallel()
	kinds := []string{testforge.Gitea}
	if *everyplace {
		kinds = []string{testforge.GitHub, testforge.GitLab, testforge.Gitea, testforge.Forgejo}
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			killedWithAPullRequest(t, kind)
		})
	}
}

const (
	forgeRepo  = "acme/app"
	forgeToken = "a-long-token-of-mika-0123456789"
)

// startForge is a forge with one repository, and what makes a server trust it.
func startForge(t *testing.T, kind string) (f *testforge.Forge, env []string) {
	t.Helper()
	f, err := testforge.New(kind, t.TempDir())
	must(t, err)
	t.Cleanup(f.Close)
	f.Know(testforge.Token{Value: forgeToken, User: "mika", Scopes: []string{"repo", "checks", "api", "write:repository", "write:issue"}})
	_, err = f.MakeRepo(forgeRepo)
	must(t, err)
	_, err = f.Put(forgeRepo, "main", "README.md", "# App\n")
	must(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, f.Certificate(), 0o600))
	return f, []string{"SSL_CERT_FILE=" + ca, "GIT_SSL_CAINFO=" + ca}
}

// reachForge is the part of config.json that lets a server reach it.
const reachForge = `"outgoing":{"allow":["127.0.0.0/8"]}`

// forgeProject clones the forge's repository.
func forgeProject(h *testkit.Instance, f *testforge.Forge) string {
	p := h.Project(map[string]any{"name": "app", "source": map[string]string{"kind": "url",
		"url": strings.Replace(f.URL, "https://", "https://mika:"+forgeToken+"@", 1) + "/" + forgeRepo + ".git"}})
	h.API("PATCH", "/projects/"+p, map[string]any{"forge": map[string]string{"kind": f.Kind}}, nil)
	return p
}

func killedWithAPullRequest(t *testing.T, kind string) {
	f, env := startForge(t, kind)
	h := testkit.StartWith(t, testkit.With{Env: env}, reachForge)
	p := forgeProject(h, f)
	work := func(name string) testkit.Workspace {
		t.Helper()
		ws := h.Workspace(p, name)
		must(t, os.WriteFile(filepath.Join(ws.Path, name+".txt"), []byte(name+"\n"), 0o600))
		h.API("POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "Add " + name}, nil)
		return ws
	}
	one, two := work("one"), work("two")
	at := func(ws testkit.Workspace) string { return "/workspaces/" + ws.ID + "/pull-request" }
	open := func(ws testkit.Workspace) error { return h.Try("POST", at(ws), map[string]any{"title": ws.Name}, nil) }
	known := func(ws testkit.Workspace) (v pullView) {
		t.Helper()
		h.Wait("the pull request of "+ws.Name+" is known", func() bool {
			v = pullView{}
			return h.Try("GET", at(ws), nil, &v) == nil && v.HeadCommit != ""
		})
		return v
	}
	merge := func(ws testkit.Workspace) error {
		v := known(ws)
		return h.Try("POST", at(ws)+"/merge", map[string]any{"strategy": "squash", "expected_head": v.HeadCommit}, nil)
	}
	pulls := func(ws testkit.Workspace) (out []testforge.Pull) {
		for _, p := range f.Pulls(forgeRepo) {
			if p.Head == ws.Branch {
				out = append(out, p)
			}
		}
		return out
	}
	// home: the workspace is marked as merged as what the forge made, and the base here is that, or has it.
	home := func(ws testkit.Workspace) {
		t.Helper()
		all := pulls(ws)
		if len(all) != 1 || all[0].State != "merged" {
			t.Fatalf("the forge has %+v", all)
		}
		h.Wait("the merge of "+ws.Name+" is fetched", func() bool {
			var w testkit.Workspace
			h.API("GET", "/workspaces/"+ws.ID, nil, &w)
			v := known(ws)
			return w.MergedCommit == all[0].MergedSha && v.State == "merged" && v.Error == ""
		})
		var line struct{ Items []struct{ Kind string } }
		h.API("GET", "/workspaces/"+ws.ID+"/activity?limit=200", nil, &line)
		reported := 0
		for _, i := range line.Items {
			if i.Kind == "merge" {
				reported++
			}
		}
		if reported != 1 {
			t.Errorf("the merge of %s is reported %d times", ws.Name, reported)
		}
		next := h.Workspace(p, "After "+ws.Name)
		if b, err := os.ReadFile(filepath.Join(next.Path, ws.Name+".txt")); err != nil || string(b) != ws.Name+"\n" {
			t.Errorf("a new workspace has %q of it, %v", b, err)
		}
	}
	tried := map[failpoint.Point]bool{}
	steps := []struct {
		at failpoint.Point
		do func()
	}{
		{somewhere, func() { // half a push: some of it is sent
			f.Behave(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
					return false
				}
				_, _ = io.CopyN(io.Discard, r.Body, 100)
				must(t, syscall.Kill(h.Pid(), syscall.SIGKILL))
				panic(http.ErrAbortHandler)
			})
			_ = open(one)
		}},
		{failpoint.PushSent, func() {
			f.Behave(nil)
			if got := f.Ref(forgeRepo, one.Branch); got != "" || len(pulls(one)) != 0 {
				t.Fatalf("half a push made %s, %+v", got, pulls(one))
			}
			_ = h.Try("POST", "/workspaces/"+two.ID+"/push", map[string]any{}, nil)
		}},
		{failpoint.PullOpened, func() {
			if f.Ref(forgeRepo, two.Branch) == "" {
				t.Error("the branch was not pushed")
			}
			h.API("POST", "/workspaces/"+two.ID+"/push", map[string]any{}, nil)
			_ = open(one)
		}},
		{failpoint.PullMerged, func() {
			if len(pulls(one)) != 1 {
				t.Fatalf("the forge has %+v", pulls(one))
			}
			known(one) // by itself
			must(t, open(one))
			if all := pulls(one); len(all) != 1 {
				t.Errorf("it was opened again: %+v", all)
			}
			_ = merge(one)
		}},
		{failpoint.PullKept, func() { home(one); _ = open(two) }},
		{failpoint.PullAwaited, func() { _ = merge(two) }},
		{failpoint.PullHome, func() {}}, // it dies as soon as it fetches
	}
	var points []failpoint.Point
	for _, s := range steps {
		points, tried[s.at] = append(points, s.at), true
	}
	for _, p := range failpoint.OfPulls {
		if !tried[p] {
			t.Errorf("%s is not tried", p)
		}
	}
	h.DieInTurn(points, func(failpoint.Point) { steps[0].do(); steps = steps[1:] })
	home(two)
}
