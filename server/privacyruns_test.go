package server

import (
	"net/url"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// What was asked for in a private workspace is as private as that, and deciding for an attempt puts away nothing that is somebody else's
// alone.
func TestASVS_8_2_2_RunsInPrivateWorkspacesAreTheirOwners(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	private := p.ids["workspace"]
	ctx := tenant.All(t.Context(), "a test")
	open := workspaces.Workspace{ID: id.New("ws"), TeamID: p.team.ID, ProjectID: p.ids["project"], Name: "open", Branch: "b-open", State: workspaces.Ready, CreatedBy: memberID(t, h, p, "member")}
	if _, err := store.NewWorkspaces(h.db).InsertWorkspace(ctx, open); err != nil {
		t.Fatal(err)
	}
	run := func(words string, ids ...string) runs.Run {
		r := runs.Run{ID: id.New("run"), TeamID: p.team.ID, ProjectID: p.ids["project"], Name: words, Prompt: words, CreatedBy: memberID(t, h, p, "owner")}
		for i, ws := range ids {
			r.Attempts = append(r.Attempts, runs.Attempt{ID: id.New("att"), RunID: r.ID, Num: i + 1, Name: "a", Agent: "shell", WorkspaceID: ws, Made: true, State: runs.Started})
		}
		if err := store.NewRuns(h.db).InsertRun(ctx, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	alone, both := run("of-secret-plans", private), run("for-everybody", private, open.ID)
	ask := func(who, method, path, body string) reply {
		return h.do(method, "/api/v1"+path, body, bearer(p.tokens[who])...)
	}
	if r := ask("owner", "PATCH", "/workspaces/"+private, `{"private":true}`); r.StatusCode != 200 {
		t.Fatalf("making it private: %d %s", r.StatusCode, r.body)
	}

	for who, may := range map[string]bool{"owner": true, "admin": false, "member": false, "viewer": false} {
		r := ask(who, "GET", "/teams/"+p.team.Slug+"/runs", "")
		if reported := strings.Contains(string(r.body), alone.Prompt); r.StatusCode != 200 || reported != may || !strings.Contains(string(r.body), both.Prompt) {
			t.Errorf("%s lists %d %s", who, r.StatusCode, r.body)
		}
		if r := ask(who, "GET", "/runs/"+alone.ID, ""); (r.StatusCode == 200) != may || !may && r.StatusCode != 404 {
			t.Errorf("%s reads %d %s", who, r.StatusCode, r.body)
		}
		if r := ask(who, "GET", "/runs/"+both.ID, ""); r.StatusCode != 200 {
			t.Errorf("%s reads what others take part in: %d %s", who, r.StatusCode, r.body)
		}
	}
	// A comparison with another workspace, or a state of it, is for who may see both.
	for _, rev := range []string{private, p.ids["snapshot"], p.ids["snapshot"] + "^"} {
		for who, may := range map[string]bool{"owner": true, "member": false} {
			r := ask(who, "GET", "/workspaces/"+open.ID+"/compare?from="+url.QueryEscape(rev), "")
			if (r.code() == "revision_not_found") == may {
				t.Errorf("%s compares with %s: %d %s", who, rev, r.StatusCode, r.body)
			}
			if r := ask(who, "GET", "/workspaces/"+open.ID+"/compare/file?path=a&rev="+url.QueryEscape(rev), ""); (r.code() == "revision_not_found") == may {
				t.Errorf("%s reads a file of %s: %d %s", who, rev, r.StatusCode, r.body)
			}
		}
	}
	// Words do not tell whether there is something to see.
	for who, rev := range map[string]string{"member": p.ids["snapshot"], "owner": "snp_nobodys"} {
		if r := ask(who, "GET", "/workspaces/"+open.ID+"/compare?from="+rev, ""); !strings.Contains(string(r.body), "no such workspace or snapshot, or you may not see it") {
			t.Errorf("%s compares with %s: %s", who, rev, r.body)
		}
	}
	keep := func(r runs.Run, i int) string { return `{"attempt_id":"` + r.Attempts[i].ID + `"}` }
	if r := ask("member", "POST", "/runs/"+alone.ID+"/keep", keep(alone, 0)); r.StatusCode != 404 {
		t.Errorf("a member decides for it: %d %s", r.StatusCode, r.body)
	}
	if r := ask("member", "POST", "/runs/"+both.ID+"/keep", keep(both, 0)); r.code() != "attempt_not_found" {
		t.Errorf("a member decides for the private one: %d %s", r.StatusCode, r.body)
	}
	if r := ask("member", "POST", "/runs/"+both.ID+"/keep", keep(both, 1)); r.StatusCode != 200 {
		t.Errorf("a member decides for the open one: %d %s", r.StatusCode, r.body)
	}
}

// A project reveals neither the name nor the existence of a private workspace: not by its count, nor by why it cannot be deleted.
func TestProjectsTellNothingOfPrivateWorkspaces(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	project := "/api/v1/projects/" + p.ids["project"]
	ask := func(who, method, path, body string) reply { return h.do(method, path, body, bearer(p.tokens[who])...) }
	if r := ask("owner", "PATCH", "/api/v1/workspaces/"+p.ids["workspace"], `{"private":true,"name":"secret plans"}`); r.StatusCode != 200 {
		t.Fatalf("making it private: %d %s", r.StatusCode, r.body)
	}
	for who, want := range map[string]int{"owner": 1, "admin": 0, "member": 0, "viewer": 0} {
		var one api.Project
		if r := ask(who, "GET", project, ""); r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", who, r.StatusCode, r.body)
		} else if r.into(t, &one); one.Workspaces != want {
			t.Errorf("%s counts %d", who, one.Workspaces)
		}
		var all api.ProjectList
		if ask(who, "GET", "/api/v1/teams/"+p.team.Slug+"/projects", "").into(t, &all); len(all.Items) != 1 || all.Items[0].Workspaces != want {
			t.Errorf("%s lists %+v", who, all.Items)
		}
	}
	if r := ask("admin", "DELETE", project, ""); r.code() != "project_has_workspaces" || strings.Contains(string(r.body), "secret plans") {
		t.Errorf("an admin deletes the project: %d %s", r.StatusCode, r.body)
	}
}
