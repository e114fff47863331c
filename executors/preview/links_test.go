package preview_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/workspaces"
)

const team = "team_links"

func TestALinkShowsOnePortUntilItEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.links = newLinks(t)
	h.p = h.start()
	at := host(5173, mine)
	l, way, err := h.p.Share(t.Context(), preview.Link{TeamID: team, WorkspaceID: mine, Port: 5173, Name: "Bo", CreatedBy: "maker", ExpiresAt: h.now.Add(time.Hour).UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	for _, elsewhere := range []string{host(8000, mine), host(5173, other)} {
		if r := h.ask("GET", elsewhere, "/"+way); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
			t.Errorf("the link at %s: %d", elsewhere, r.StatusCode)
		}
	}
	enter := func() string {
		c := h.ask("GET", at, "/"+way).Cookies()
		if len(c) != 1 || c[0].MaxAge > 3600 {
			t.Fatal(c)
		}
		return c[0].Name + "=" + c[0].Value
	}
	cookie := enter()
	if r := h.ask("GET", at, "/", "Cookie", cookie, "Sec-Fetch-User", "?1"); r.StatusCode != 200 {
		t.Errorf("by the link: %d", r.StatusCode)
	}
	if h.wakes[0] {
		t.Error("a stranger woke the sandbox")
	}
	list := func(ws string) []preview.Link {
		all, err := h.p.Links(t.Context(), ws)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if mine, theirs := list(mine), list(other); len(mine) != 1 || mine[0] != l || len(theirs) != 0 {
		t.Errorf("links %v, of another workspace %v", mine, theirs)
	}
	h.p = h.start() // the server starts again
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie outlived the server: %d", r.StatusCode)
	}
	cookie = enter()
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != 200 {
		t.Errorf("by the link, after a restart: %d", r.StatusCode)
	}
	if err := h.p.Unshare(t.Context(), l.ID); err != nil {
		t.Fatal(err)
	}
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/"+way); r.StatusCode != http.StatusForbidden {
		t.Errorf("a revoked link: %d", r.StatusCode)
	}
	_, way, err = h.p.Share(t.Context(), preview.Link{TeamID: team, WorkspaceID: mine, Port: 5173, CreatedBy: "maker", ExpiresAt: h.now.Add(time.Hour).UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	cookie = enter()
	h.later(61 * time.Minute)
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized || len(list(mine)) != 0 {
		t.Errorf("after it expired: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/"+way); r.StatusCode != http.StatusForbidden {
		t.Errorf("an expired link: %d", r.StatusCode)
	}
	_, way, err = h.p.Share(t.Context(), preview.Link{TeamID: team, WorkspaceID: mine, Port: 5173, CreatedBy: "maker", ExpiresAt: h.now.Add(24 * time.Hour).UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	cookie = h.ask("GET", at, "/"+way).Cookies()[0].String()
	h.refuse("maker")
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after its maker lost the right: %d", r.StatusCode)
	}
}

// newLinks is the storage of links, with the workspace mine.
func newLinks(t *testing.T) preview.LinkStore {
	t.Helper()
	db := storetest.SQLite(t)
	if _, err := db.Exec(t.Context(), `INSERT INTO teams (id, slug, name, created_at) VALUES (?, 'links', 'Links', 1)`, team); err != nil {
		t.Fatal(err)
	}
	rows := store.NewWorkspaces(db)
	if err := rows.InsertProject(t.Context(), workspaces.Project{ID: "prj_1", TeamID: team, Name: "p", State: workspaces.ProjectReady, CreatedBy: "maker"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.InsertWorkspace(t.Context(), workspaces.Workspace{ID: mine, TeamID: team, ProjectID: "prj_1", Name: "w", Branch: "b", State: workspaces.Ready, CreatedBy: "maker"}); err != nil {
		t.Fatal(err)
	}
	return toolstore.NewPortLinks(db)
}
