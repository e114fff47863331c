package preview_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/preview"
)

func TestALinkShowsOnePortUntilItEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := host(5173, mine)
	l, way, err := h.p.Share(preview.Link{WorkspaceID: mine, Port: 5173, Name: "Bo", CreatedBy: "u", ExpiresAt: h.now.Add(time.Hour)}, "maker")
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
	if list := h.p.Links(mine); len(list) != 1 || list[0].ID != l.ID || len(h.p.Links(other)) != 0 {
		t.Errorf("links %v", list)
	}
	h.p.Unshare(l.ID)
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/"+way); r.StatusCode != http.StatusForbidden {
		t.Errorf("a revoked link: %d", r.StatusCode)
	}
	_, way, err = h.p.Share(preview.Link{WorkspaceID: mine, Port: 5173, ExpiresAt: h.now.Add(time.Hour)}, "maker")
	if err != nil {
		t.Fatal(err)
	}
	cookie = enter()
	h.later(61 * time.Minute)
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized || len(h.p.Links(mine)) != 0 {
		t.Errorf("after it expired: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/"+way); r.StatusCode != http.StatusForbidden {
		t.Errorf("an expired link: %d", r.StatusCode)
	}
	_, way, err = h.p.Share(preview.Link{WorkspaceID: mine, Port: 5173, ExpiresAt: h.now.Add(24 * time.Hour)}, "maker")
	if err != nil {
		t.Fatal(err)
	}
	cookie = h.ask("GET", at, "/"+way).Cookies()[0].String()
	h.refuse("maker")
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after its maker lost the right: %d", r.StatusCode)
	}
}
