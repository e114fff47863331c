package server

import (
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store"
)

// hears reads events until one of the type and id comes, and returns those before it.
func hears(t *testing.T, conn *websocket.Conn, kind, id string) (before []wireEvent) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		var e wireEvent
		if err := conn.ReadJSON(&e); err != nil {
			t.Fatalf("waiting for %s %s: %v", kind, id, err)
		}
		if e.Type == kind && e.ID == id {
			return before
		}
		before = append(before, e)
	}
}

// A private workspace, and everything in it, is there for its owner alone.
func TestASVS_8_2_2_PrivateWorkspacesAreTheirOwners(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ws, ses := p.ids["workspace"], h.session(t, p, "sh", "-c", "echo ready; read x")
	at := "/api/v1/workspaces/" + ws
	ask := func(who, method, path, body string) reply { return h.do(method, path, body, bearer(p.tokens[who])...) }

	// Only who made it may keep it to themselves.
	for _, who := range []string{"admin", "member"} {
		if r := ask(who, "PATCH", at, `{"private":true}`); r.StatusCode != 403 || r.code() != "not_the_owner" {
			t.Errorf("%s: %d %s", who, r.StatusCode, r.body)
		}
	}
	if r := ask("viewer", "PATCH", at, `{"private":true}`); r.StatusCode != 403 || r.code() != "forbidden" {
		t.Errorf("a viewer: %d %s", r.StatusCode, r.body)
	}
	listen := func(who string) *websocket.Conn {
		conn, resp, err := h.dial(t, "/teams/"+p.team.Slug+"/events", withToken(p.tokens[who]))
		if err != nil {
			t.Fatalf("events: %v %v", err, resp)
		}
		return conn
	}
	ear, own := listen("member"), listen("owner")
	terminal := h.attach(t, ses, "from=0", p.tokens["member"])
	terminal.see("ready")
	mine := h.attach(t, ses, "from=0", p.tokens["owner"])
	mine.see("ready")

	r := ask("owner", "PATCH", at, `{"private":true}`)
	var w api.Workspace
	if r.into(t, &w); r.StatusCode != 200 || !w.Private || w.Owner.Name != "owner" {
		t.Fatalf("the owner: %d %s", r.StatusCode, r.body)
	}
	// Who was at a terminal in it is put out.
	if code := terminal.closed(); code != closeNotAllowed {
		t.Errorf("the terminal of a member ended with %d", code)
	}

	// One path for each kind of thing that is within a workspace, and the lists that contain workspaces.
	within := []string{at, at + "/sessions", at + "/changes", at + "/tree", at + "/activity", at + "/network", at + "/storage", at + "/search?q=x", "/api/v1/sessions/" + ses,
		"/api/v1/sessions/" + ses + "/output", "/api/v1/sessions/" + ses + "/prompts", "/api/v1/sessions/" + ses + "/questions", "/api/v1/commands/" + p.ids["command"]}
	lists := []string{"/workspaces", "/workspaces?show=all", "/inbox", "/storage", "/places", "/runners", "/runs"}
	check := func(sees ...string) {
		t.Helper()
		for _, who := range []string{"owner", "admin", "member", "viewer", "outsider", "operator"} {
			may := false
			for _, s := range sees {
				may = may || s == who
			}
			for _, path := range within {
				if got := ask(who, "GET", path, "").StatusCode; got == 404 == may {
					t.Errorf("%s gets %d of %s", who, got, path)
				}
			}
			if who == "outsider" || who == "operator" || p.tokens[who] == p.tokens["outsider"] {
				continue
			}
			for _, path := range lists {
				r := ask(who, "GET", "/api/v1/teams/"+p.team.Slug+path, "")
				if r.StatusCode != 200 {
					t.Errorf("%s gets %d of %s", who, r.StatusCode, path)
				}
				if reported := strings.Contains(string(r.body), ws); reported && !may || path == "/workspaces" && reported != may {
					t.Errorf("%s reads in %s: %s", who, path, r.body)
				}
			}
		}
		for _, who := range []string{"member", "outsider"} {
			for _, c := range [][3]string{{"DELETE", at, ""}, {"PATCH", at, `{"private":false}`}, {"POST", at + "/exec", `{"argv":["true"]}`}, {"PUT", at + "/files?path=a", "x"},
				{"POST", "/api/v1/sessions/" + ses + "/input", `{"text":"x"}`}, {"PATCH", "/api/v1/prompts/" + p.ids["prompt"], `{}`},
				{"DELETE", "/api/v1/sync-conflicts/" + p.ids["conflict"], ""}, {"POST", "/api/v1/inbox/" + ses + "-1/done", ""}} {
				if r := ask(who, c[0], c[1], c[2]); r.StatusCode != 404 {
					t.Errorf("%s: %s %s answered %d %s", who, c[0], c[1], r.StatusCode, r.body)
				}
			}
			body := `{"project_id":"` + p.ids["project"] + `","prompt":"x","agent":"shell","workspace_ids":["` + ws + `"]}`
			if r := ask(who, "POST", "/api/v1/teams/"+p.team.Slug+"/runs", body); r.StatusCode != 404 {
				t.Errorf("%s starts a run in it: %d %s", who, r.StatusCode, r.body)
			}
		}
		if _, resp, err := h.dial(t, "/sessions/"+ses+"/terminal", withToken(p.tokens["member"])); err == nil || resp == nil || resp.StatusCode != 404 {
			t.Errorf("a member at its terminal: %v %v", resp, err)
		}
	}
	check("owner")

	// Others hear once more of the workspace, that their lists are to be read again, and nothing of what happens in it from then on.
	if r := ask("owner", "PATCH", at, `{"name":"secret plans"}`); r.StatusCode != 200 {
		t.Fatalf("renaming: %d %s", r.StatusCode, r.body)
	}
	h.bus.Publish(t.Context(), events.Event{Type: "team.updated", ID: "end", TeamID: p.team.ID})
	gone := false
	for _, e := range hears(t, ear, "team.updated", "end") {
		switch {
		case e.ID == ws && e.WorkspaceID == "":
			gone = true
		case gone && (e.ID == ws || e.WorkspaceID == ws):
			t.Errorf("a member hears %+v", e)
		}
	}
	if !gone {
		t.Error("others received no event to reload their lists")
	}
	named := 0
	for _, e := range hears(t, own, "team.updated", "end") {
		if e.WorkspaceID == ws {
			named++
		}
	}
	if named < 2 {
		t.Errorf("the owner hears %d events of the workspace", named)
	}
	mine.send(upInput, []byte("\n"))
	if err := mine.until(func(op byte, _ []byte) bool { return op == 4 }); err != nil {
		t.Errorf("the owner's own terminal: %v", err)
	}

	// Whose owner has left is for owners and admins, so that nothing is lost.
	third := tenant.All(t.Context(), "a test")
	if err := store.NewAccounts(h.db).SetRole(third, p.team.ID, memberID(t, h, p, "owner"), accounts.Member); err != nil {
		t.Fatal(err)
	}
	check("owner")
	if err := store.NewAccounts(h.db).DeleteMember(third, p.team.ID, memberID(t, h, p, "owner")); err != nil {
		t.Fatal(err)
	}
	p.tokens["owner"] = p.tokens["outsider"]
	within = within[:4] // the rest needs the owner's seat
	check("admin")
	if r := ask("admin", "PATCH", at, `{"private":false}`); r.StatusCode != 200 {
		t.Fatalf("an admin opens it: %d %s", r.StatusCode, r.body)
	}
	if r := ask("viewer", "GET", at, ""); r.StatusCode != 200 {
		t.Errorf("a viewer afterwards: %d %s", r.StatusCode, r.body)
	}
}

func memberID(t *testing.T, h *harness, p cast, name string) string {
	t.Helper()
	u, err := h.accounts.UserByEmail(t.Context(), name+"@example.com")
	if err != nil {
		t.Fatal(err)
	}
	return u.ID
}

// A workspace may be private from its first moment; what viewers see has no costs.
func TestWorkspacesArePrivateFromTheBeginning(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	at := "/api/v1/teams/" + p.team.Slug
	var project api.Project
	r := h.do("POST", at+"/projects", `{"name":"sample","source":{"kind":"sample"}}`, bearer(p.tokens["owner"])...)
	if r.into(t, &project); r.StatusCode != 201 {
		t.Fatalf("a project: %d %s", r.StatusCode, r.body)
	}
	r = h.do("POST", at+"/workspaces", `{"project_id":"`+project.Id+`","name":"quiet","private":true}`, bearer(p.tokens["member"])...)
	var w api.Workspace
	if r.into(t, &w); r.StatusCode != 201 || !w.Private || w.CostNano == nil {
		t.Fatalf("created: %d %s", r.StatusCode, r.body)
	}
	for who, want := range map[string]int{"member": 200, "owner": 404, "admin": 404, "viewer": 404} {
		if r := h.do("GET", "/api/v1/workspaces/"+w.Id, "", bearer(p.tokens[who])...); r.StatusCode != want {
			t.Errorf("%s: %d", who, r.StatusCode)
		}
	}
	var seen api.Workspace
	h.do("GET", "/api/v1/workspaces/"+p.ids["workspace"], "", bearer(p.tokens["viewer"])...).into(t, &seen)
	if seen.Id == "" || seen.CostNano != nil {
		t.Errorf("a viewer sees the costs of %+v", seen)
	}
}
