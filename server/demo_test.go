package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
)

// Visitors need no login, their cookie opens their own sandbox alone, and pages of other sites cannot use it.
func TestTheDemo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.demo.Store(true)
	h.serve()
	r := h.do("POST", "/api/v1/demo/sandboxes", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if r.StatusCode != http.StatusForbidden || r.code() != "cross_origin" {
		t.Errorf("from another site: %d %s", r.StatusCode, r.body)
	}
	r = h.do("POST", "/api/v1/demo/sandboxes", "")
	var sb api.DemoSandbox
	if r.into(t, &sb); r.StatusCode != http.StatusCreated || len(r.Cookies()) != 1 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || !strings.HasPrefix(c.Name, "__Host-") || strings.Contains(string(r.body), c.Value) {
		t.Errorf("the cookie %v", c)
	}
	mine := []string{"Cookie", c.Name + "=" + c.Value}
	var d api.Demo
	if h.do("GET", "/api/v1/demo", "", mine...).into(t, &d); d.Sandbox == nil || d.Sandbox.Id != sb.Id {
		t.Errorf("the visitor's own: %+v", d)
	}
	if r := h.do("POST", "/api/v1/demo/sandboxes", "", mine...); r.StatusCode != http.StatusOK {
		t.Errorf("again: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("POST", "/api/v1/demo/sandboxes", ""); r.StatusCode != http.StatusTooManyRequests || r.code() != "demo_address_sandboxes" || r.Header.Get("Retry-After") == "" {
		t.Errorf("another one: %d %s", r.StatusCode, r.body)
	}
	at := "/api/v1/demo/sandboxes/" + sb.Id
	if r := h.do("POST", at+"/code", `{"language":"python","code":"1"}`); r.StatusCode != http.StatusNotFound || r.code() != "demo_sandbox_ended" {
		t.Errorf("code without the cookie: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("DELETE", at, ""); r.StatusCode != http.StatusNoContent {
		t.Errorf("ended by a stranger: %d", r.StatusCode)
	}
	if r := h.do("DELETE", "/api/v1/demo/sandboxes/asb_other", "", mine...); r.StatusCode != http.StatusNoContent || len(r.Cookies()) != 0 {
		t.Errorf("a page that still shows an ended sandbox takes the cookie of the next one: %d %v", r.StatusCode, r.Cookies())
	}
	p := h.people(t)
	for _, path := range []string{"/sandboxes/" + sb.Id, "/teams/demo", "/teams/demo/sandboxes"} {
		if r := h.do("GET", "/api/v1"+path, "", bearer(p.tokens["owner"])...); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s as a member of a team: %d %s", path, r.StatusCode, r.body)
		}
	}
	if h.do("GET", "/api/v1/demo", "", mine...).into(t, &d); d.Sandbox == nil {
		t.Fatal("a stranger ended it")
	}
	if r := h.do("DELETE", at, "", mine...); len(r.Cookies()) != 2 || r.Cookies()[0].MaxAge >= 0 {
		t.Errorf("the cookie of a sandbox that was ended: %v", r.Cookies())
	}
	d = api.Demo{}
	if h.do("GET", "/api/v1/demo", "", mine...).into(t, &d); d.Sandbox != nil {
		t.Error("it did not end")
	}
}

func TestNoDemoUnlessItIsOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.Demo = nil })
	h.serve()
	for _, ask := range []string{"GET /demo", "POST /demo/sandboxes", "DELETE /demo/sandboxes/asb_1", "POST /demo/sandboxes/asb_1/code"} {
		method, path, _ := strings.Cut(ask, " ")
		if r := h.do(method, "/api/v1"+path, "{"); r.StatusCode != http.StatusNotFound || r.code() != "not_found" {
			t.Errorf("%s: %d %s", ask, r.StatusCode, r.body)
		}
	}
}
