package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/memory"
)

// People read, add and delete a project's facts over the API; other teams and viewers cannot, and nobody finds a session's facts.
func TestMemoryByTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path := "/api/v1/projects/" + p.ids["project"] + "/memory"
	member, viewer, outsider := bearer(p.tokens["member"]), bearer(p.tokens["viewer"]), bearer(p.tokens["outsider"])
	texts := func(query string) string {
		t.Helper()
		var all api.MemoryList
		h.do("GET", path+query, "", viewer...).into(t, &all)
		var out []string
		for _, f := range all.Items {
			out = append(out, f.Text)
		}
		return strings.Join(out, " | ")
	}
	of := memory.Fact{ID: "mem_session", TeamID: p.team.ID, ProjectID: p.ids["project"], SessionID: p.ids["session"], Text: "of a session", UserID: "usr_other", CreatedAt: 2}
	if err := toolstore.NewMemory(h.db).Remember(t.Context(), of, 10); err != nil {
		t.Fatal(err)
	}
	h.do("DELETE", "/api/v1/memory/"+p.ids["memory"], "", member...)
	var old, made api.Memory
	h.do("POST", path, `{"text":"make old","key":"build"}`, member...).into(t, &old)
	h.do("POST", path, `{"text":" make new ","key":"build","tags":["tools"],"expires_in_days":2}`, member...).into(t, &made)
	if made.Text != "make new" || made.CreatedBy.Name != "member" || made.ExpiresAt == nil || *made.ExpiresAt-made.CreatedAt != 2*24*3600*1000 {
		t.Errorf("%+v", made)
	}
	if got := texts(""); got != "make new" {
		t.Errorf("after a key was replaced: %q", got)
	}
	for i := range 3 {
		h.do("POST", path, fmt.Sprintf(`{"text":"fact %d"}`, i), member...).into(t, &old)
	}
	if got := texts("?q=tools"); got != "make new" {
		t.Errorf("by a tag: %q", got)
	}
	seen, cursor := map[string]bool{}, ""
	for range 4 {
		var one api.MemoryList
		h.do("GET", path+"?limit=1"+cursor, "", viewer...).into(t, &one)
		if len(one.Items) != 1 || seen[one.Items[0].Id] {
			t.Fatalf("page of one after %d: %+v", len(seen), one)
		}
		if seen[one.Items[0].Id] = true; one.NextCursor != nil {
			cursor = "&cursor=" + *one.NextCursor
		} else if len(seen) != 4 {
			t.Errorf("the list ends after %d", len(seen))
		}
	}
	for _, c := range []struct {
		method, path, body string
		who                []string
		status             int
		code               string
	}{
		{"POST", path, `{"text":" "}`, member, http.StatusBadRequest, "memory_text_invalid"},
		{"POST", path, `{"text":"x","key":"` + strings.Repeat("k", 101) + `"}`, member, http.StatusBadRequest, "memory_invalid"},
		{"POST", path, `{"text":"x","tags":[""]}`, member, http.StatusBadRequest, "memory_invalid"},
		{"POST", path, `{"text":"x","expires_in_days":-1}`, member, http.StatusBadRequest, "memory_invalid"},
		{"POST", path, `{"text":"x"}`, viewer, http.StatusForbidden, "forbidden"},
		{"GET", path, "", outsider, http.StatusNotFound, "not_found"},
		{"DELETE", "/api/v1/memory/" + made.Id, "", viewer, http.StatusForbidden, "forbidden"},
		{"DELETE", "/api/v1/memory/" + made.Id, "", outsider, http.StatusNotFound, "not_found"},
		{"DELETE", "/api/v1/memory/" + of.ID, "", member, http.StatusNotFound, "not_found"},
		{"DELETE", "/api/v1/memory/" + made.Id, "", member, http.StatusNoContent, ""},
		{"DELETE", "/api/v1/memory/" + made.Id, "", member, http.StatusNotFound, "not_found"},
	} {
		if r := h.do(c.method, c.path, c.body, c.who...); r.StatusCode != c.status || c.code != "" && r.code() != c.code {
			t.Errorf("%s %s %.40s: %d %s, want %d %s", c.method, c.path, c.body, r.StatusCode, r.body, c.status, c.code)
		}
	}
	if got := texts("?q=make"); got != "" {
		t.Errorf("after deleting: %q", got)
	}
}
