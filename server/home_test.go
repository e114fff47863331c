package server

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
)

// Long work of git is seen and ended by those who may see its workspace: of a private one by its owner alone.
func TestGitWorkIsAsPrivateAsItsWorkspace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	prj, ws := p.ids["project"], p.ids["workspace"]
	h.withRepository(t, prj, "FROM scratch\n")
	project, err := h.cfg.Workspaces.Records.Project(tenant.All(t.Context(), "a test"), prj)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(project.GitDir)
	executortest.Git(t, root, "branch", "b")
	// A remote that takes a connection and never says a word.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	executortest.Git(t, root, "remote", "add", "origin", "git://"+l.Addr().String()+"/x")

	ask := func(who, method, path, body string) reply {
		return h.do(method, "/api/v1"+path, body, bearer(p.tokens[who])...)
	}
	var st api.MergeStatus
	if r := ask("viewer", "GET", "/workspaces/"+ws+"/merge-status", ""); r.StatusCode != http.StatusOK {
		t.Fatalf("standing: %d %s", r.StatusCode, r.body)
	} else if r.into(t, &st); st.Base != "main" || !st.UpToDate || st.Remote == "" {
		t.Errorf("%+v", st)
	}
	if r := ask("viewer", "GET", "/workspaces/"+ws+"/merge-status?fetch=true", ""); r.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer has the remote asked: %d", r.StatusCode)
	}
	if r := ask("owner", "PATCH", "/workspaces/"+ws, `{"private":true}`); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	pushed := make(chan reply, 1)
	go func() { pushed <- ask("owner", "POST", "/workspaces/"+ws+"/push", `{}`) }()
	list := func(who string) (l api.GitWorkList) {
		r := ask(who, "GET", "/projects/"+prj+"/git-work", "")
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", who, r.StatusCode, r.body)
		}
		r.into(t, &l)
		return l
	}
	var work api.GitWorkList
	for end := time.Now().Add(30 * time.Second); len(work.Items) == 0 || work.Items[0].Waiting; work = list("owner") {
		if time.Now().After(end) {
			t.Fatal("the push is not listed")
		}
		time.Sleep(5 * time.Millisecond) // the interval of looking
	}
	k := work.Items[0]
	if k.Kind != api.GitWorkKindPush || k.Workspace == nil || k.Workspace.Id != ws || k.ByName != "owner" {
		t.Errorf("%+v", k)
	}
	for _, who := range []string{"admin", "member", "viewer"} {
		if l := list(who); len(l.Items) != 0 {
			t.Errorf("%s sees it: %+v", who, l)
		}
	}
	end := `{"work_id":"` + k.Id + `"}`
	if r := ask("member", "POST", "/projects/"+prj+"/git-work/cancel", end); r.StatusCode != http.StatusNotFound {
		t.Errorf("a member ends it: %d %s", r.StatusCode, r.body)
	}
	if r := ask("viewer", "POST", "/projects/"+prj+"/git-work/cancel", end); r.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer ends it: %d %s", r.StatusCode, r.body)
	}
	if r := ask("owner", "POST", "/projects/"+prj+"/git-work/cancel", end); r.StatusCode != http.StatusNoContent {
		t.Errorf("its owner cannot end it: %d %s", r.StatusCode, r.body)
	}
	if r := <-pushed; r.StatusCode != http.StatusConflict || r.code() != "cancelled" {
		t.Errorf("the push answered %d %s", r.StatusCode, r.body)
	}
	if l := list("owner"); len(l.Items) != 0 {
		t.Errorf("it is still there: %+v", l)
	}
}
