package server

import (
	"net/http"
	"testing"
)

func TestJournalOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
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
