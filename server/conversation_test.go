package server

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/conversation"
)

func TestConversationOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "read a")
	path := "/api/v1/sessions/" + id + "/conversation"
	type item struct {
		ID, Kind, Text, Status string
		Place                  int64
		Offset                 *int64
		Usage                  *struct{ Input int64 }
	}
	type pageOf struct {
		Items      []item
		NextCursor *string `json:"next_cursor"`
		Version    int64
		Total      int
		Record     string
		Usage      struct{ Output int64 }
	}
	get := func(query string) pageOf {
		t.Helper()
		var out pageOf
		r := h.do("GET", path+query, "", bearer(p.tokens["viewer"])...)
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", query, r.StatusCode)
		}
		r.into(t, &out)
		return out
	}
	if got := get(""); got.Record != "none" || len(got.Items) != 0 {
		t.Errorf("before: %+v", got)
	}
	dir := filepath.Join(h.dir, "sessions", id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := conversation.NewWriter(filepath.Join(dir, conversation.FileName), 1<<20)
	if _, _, err := w.Append([]conversation.Item{
		{ID: "a", At: 1, Kind: conversation.Prompt, Text: "Fix the <b>login</b>"},
		{ID: "b", At: 2, Kind: conversation.Tool, Tool: "Bash", Status: conversation.OK, Output: "Login works"},
		{ID: "c", At: 3, Kind: conversation.Spent, Usage: &conversation.Usage{Input: 7, Output: 9}},
	}, func(at int64) int64 { return at - 2 }, false); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string][]string{"markdown": {"## Prompt", "```\nFix the <b>login</b>\n```", "## Tool: Bash"}, "html": {"Fix the &lt;b&gt;login&lt;/b&gt;", "</html>"}, "json": {`"text":"Fix the`, `"id":"c"`}} {
		r := h.do("GET", "/api/v1/sessions/"+id+"/export?format="+format, "", bearer(p.tokens["viewer"])...)
		for _, s := range want {
			if r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), s) {
				t.Errorf("saved as %s: %d, without %q: %s", format, r.StatusCode, s, r.body)
			}
		}
		if format == "json" && !json.Valid(r.body) {
			t.Errorf("saved as JSON: %s", r.body)
		}
	}
	got := get("?limit=2")
	if len(got.Items) != 2 || got.Items[0].ID != "b" || got.Items[0].Offset == nil || *got.Items[0].Offset != 0 || got.Items[1].Usage.Input != 7 ||
		got.NextCursor == nil || got.Version != 3 || got.Total != 3 || got.Record != "kept" || got.Usage.Output != 9 {
		t.Fatalf("%+v", got)
	}
	if older := get("?limit=2&cursor=" + url.QueryEscape(*got.NextCursor)); len(older.Items) != 1 || older.Items[0].Text != "Fix the <b>login</b>" ||
		older.Items[0].Offset != nil || older.NextCursor != nil {
		t.Errorf("older: %+v", older)
	}
	if found := get("?q=LOGIN&kinds=tool,edit"); len(found.Items) != 1 || found.Items[0].ID != "b" {
		t.Errorf("found: %+v", found)
	}
	if since := get("?since=2"); len(since.Items) != 1 || since.Items[0].ID != "c" {
		t.Errorf("since: %+v", since)
	}
	for _, bad := range []string{"?kinds=typing", "?since=-1", "?since=1&cursor=" + url.QueryEscape(*got.NextCursor), "?cursor=x"} {
		if r := h.do("GET", path+bad, "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusBadRequest && r.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, r.StatusCode)
		}
	}
	var list struct {
		Items []struct {
			SessionID string `json:"session_id"`
			Prompt    string
			Matches   []struct{ Kind, Snippet string }
		}
	}
	h.do("GET", "/api/v1/workspaces/"+p.ids["workspace"]+"/conversations?q=login", "", bearer(p.tokens["viewer"])...).into(t, &list)
	if len(list.Items) != 1 || list.Items[0].SessionID != id || len(list.Items[0].Matches) != 2 || list.Items[0].Matches[0].Snippet != "Login works" {
		t.Errorf("in the workspace: %+v", list)
	}
	// A value that was entered later is in no file, wherever the download is cut into pieces, and however the format writes it.
	const value = `a <value> to "hide"`
	if r := h.do("POST", "/api/v1/teams/"+p.team.Slug+"/secrets", `{"kind":"env","name":"LATER","value":"a <value> to \"hide\""}`, bearer(p.tokens["owner"])...); r.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	var said []conversation.Item
	for i := range 30 {
		said = append(said, conversation.Item{ID: "s" + strconv.Itoa(i), At: 4, Kind: conversation.Text, Text: strings.Repeat(value+" ", 200)})
	}
	if _, _, err := w.Append(said, func(int64) int64 { return -1 }, false); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"markdown", "html", "json"} {
		r := h.do("GET", "/api/v1/sessions/"+id+"/export?format="+format, "", bearer(p.tokens["viewer"])...)
		text := strings.ReplaceAll(html.UnescapeString(string(r.body)), `\"`, `"`)
		text = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(text)
		if n := strings.Count(text, value); n != 0 || len(text) < 100_000 {
			t.Errorf("saved as %s: %d bytes hold the value %d times", format, len(text), n)
		}
	}
	for _, path := range []string{path, "/api/v1/workspaces/" + p.ids["workspace"] + "/conversations"} {
		if r := h.do("GET", path, "", bearer(p.tokens["outsider"])...); r.StatusCode != http.StatusNotFound {
			t.Errorf("an outsider: %d", r.StatusCode)
		}
	}
}
