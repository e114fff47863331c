package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestJournalOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; read a")
	k := h.attach(t, id, "from=0", p.tokens["owner"])
	k.see("ready")
	path := "/api/v1/sessions/" + id + "/journal"
	var page struct {
		Items []struct {
			Seq, At, Offset int64
			Kind            string
			Data            map[string]any
		}
		Next *int64
	}
	r := h.do("GET", path+"?kinds=size,seat&limit=2", "", bearer(p.tokens["viewer"])...)
	r.into(t, &page)
	if len(page.Items) != 2 || page.Items[0].Kind != "size" || page.Items[0].Data["cols"] != 80.0 || page.Items[1].Data["role"] != "writer" || page.Next != nil {
		t.Fatalf("page %+v", page)
	}
	for _, bad := range []string{"?kinds=typing", "?limit=0", "?limit=9999", "?from=-1"} {
		if r := h.do("GET", path+bad, "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusBadRequest && r.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
	if r := h.do("GET", path, "", bearer(p.tokens["outsider"])...); r.StatusCode != http.StatusNotFound {
		t.Errorf("an outsider: %d", r.StatusCode)
	}
}

func TestSearchOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", `printf 'an old \033[31mnee\033[0mdle\n'; read a`)
	h.attach(t, id, "from=0", p.tokens["owner"]).see("dle")
	var session struct {
		WorkspaceID string `json:"workspace_id"`
	}
	h.do("GET", "/api/v1/sessions/"+id, "", bearer(p.tokens["owner"])...).into(t, &session)
	path := "/api/v1/workspaces/" + session.WorkspaceID + "/search"
	var found struct {
		Items []struct {
			SessionID  string `json:"session_id"`
			Line       string
			Start, End int
		}
		NextCursor *string `json:"next_cursor"`
	}
	h.do("GET", path+"?q=OLD%20needle", "", bearer(p.tokens["viewer"])...).into(t, &found)
	if len(found.Items) != 1 || found.Items[0].SessionID != id || found.Items[0].Line != "an old needle" || found.Items[0].Start != 3 || found.NextCursor != nil {
		t.Fatalf("found %+v", found)
	}
	h.do("GET", path+"?q=OLD&case=true", "", bearer(p.tokens["viewer"])...).into(t, &found)
	if len(found.Items) != 0 {
		t.Fatalf("found %+v", found)
	}
	for _, bad := range []string{"", "?q=", "?q=(&regex=true", "?q=a&limit=0", "?q=a&cursor=x"} {
		if r := h.do("GET", path+bad, "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusBadRequest && r.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
	if r := h.do("GET", path+"?q=a", "", bearer(p.tokens["outsider"])...); r.StatusCode != http.StatusNotFound {
		t.Errorf("an outsider: %d", r.StatusCode)
	}
}

func TestReplayOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; read a")
	h.attach(t, id, "from=0", p.tokens["owner"]).see("ready")
	path := "/api/v1/sessions/" + id
	for format, want := range map[string][2]string{"raw": {".log", "ready\r\n"}, "text": {".txt", "ready\n"}, "asciicast": {".cast", `"o","ready\r\n"]` + "\n"}} {
		r := h.do("GET", path+"/export?format="+format, "", bearer(p.tokens["viewer"])...)
		if !strings.HasSuffix(string(r.body), strings.TrimSpace(want[1])) || !strings.HasSuffix(r.Header.Get("Content-Disposition"), want[0]+`"`) {
			t.Errorf("%s: %q, %s", format, r.body, r.Header.Get("Content-Disposition"))
		}
	}
	r := h.do("GET", path+"/moment?at=5", "", bearer(p.tokens["viewer"])...)
	if r.Header.Get("X-Parawork-Offset") != "5" || r.Header.Get("X-Parawork-Cols") != "80" || !strings.Contains(string(r.body), "ready") {
		t.Errorf("moment: %v %q", r.Header, r.body)
	}
	var timing struct {
		End        int64
		At, Offset []int64
		Exact      bool
	}
	h.do("GET", path+"/timing", "", bearer(p.tokens["viewer"])...).into(t, &timing)
	if timing.End != 7 || len(timing.At) == 0 || len(timing.At) != len(timing.Offset) || !timing.Exact {
		t.Errorf("timing %+v", timing)
	}
	for _, bad := range []string{"/export?format=gif", "/moment", "/moment?at=99", "/timing?limit=1"} {
		if r := h.do("GET", path+bad, "", bearer(p.tokens["owner"])...); r.StatusCode < 400 || r.StatusCode >= 500 {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
}

func TestStorageOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; read a")
	h.attach(t, id, "from=0", p.tokens["owner"]).see("ready")
	var team struct {
		Bytes, Printed int64
		Caps           struct {
			MaxSessionBytes int64 `json:"max_session_bytes"`
		}
		Workspaces []struct {
			ID, Key  string
			Sessions int
			Bytes    int64
		}
	}
	// Viewers see what was printed a moment before it is on disk.
	eventually(t, "what was printed is on disk", func() bool {
		h.do("GET", "/api/v1/teams/"+p.ids["team"]+"/storage", "", bearer(p.tokens["viewer"])...).into(t, &team)
		return team.Bytes >= 7
	})
	if len(team.Workspaces) != 1 || team.Workspaces[0].Sessions == 0 || team.Workspaces[0].Key == "" || team.Bytes < 7 || team.Printed != 7 {
		t.Fatalf("team %+v", team)
	}
	var ws struct {
		Bytes    int64
		Sessions []struct{ ID string }
	}
	h.do("GET", "/api/v1/workspaces/"+team.Workspaces[0].ID+"/storage", "", bearer(p.tokens["viewer"])...).into(t, &ws)
	if len(ws.Sessions) == 0 || ws.Sessions[0].ID != id || ws.Bytes < 7 {
		t.Fatalf("workspace %+v", ws)
	}
}
