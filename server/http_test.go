package server

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/ui"
)

func TestHealthTellsThePhase(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	open := h.server.phase.Load()
	h.serve()
	h.server.phase.Store(open)
	check := func(status int, want string) {
		t.Helper()
		r := h.do("GET", "/api/v1/health", "")
		if r.StatusCode != status || !strings.Contains(string(r.body), `"status":"`+want+`"`) || !strings.Contains(string(r.body), `"version":"test"`) {
			t.Errorf("health: %d %s, want %d %s", r.StatusCode, r.body, status, want)
		}
		if r := h.do("HEAD", "/api/v1/health", ""); r.StatusCode != status {
			t.Errorf("HEAD health: %d, want %d", r.StatusCode, status)
		}
	}
	check(503, "starting")
	for _, path := range []string{"/api/v1/me", "/api/v1/setup"} {
		if r := h.do("GET", path, ""); r.StatusCode != 503 || r.code() != "starting" || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s while starting: %d %s", path, r.StatusCode, r.body)
		}
	}
	h.server.Open()
	check(200, "ok")
	h.server.phase.Store(phaseStopping)
	check(503, "draining")
	if r := h.do("GET", "/api/v1/me", ""); r.StatusCode != 503 || r.code() != "stopping" {
		t.Errorf("while stopping: %d %s", r.StatusCode, r.body)
	}
	if h.server.Open(); h.server.ready() == nil {
		t.Error("a server that stops was opened again")
	}
}

func TestAnswersThatAreNoOperations(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	problem := func(r reply, status int, code string) {
		t.Helper()
		if r.StatusCode != status || r.code() != code || r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(r.body), `"request_id":"req_`) {
			t.Errorf("%s: %d %q %s, want %d %s", r.Request.URL, r.StatusCode, r.Header.Get("Content-Type"), r.body, status, code)
		}
	}
	problem(h.do("GET", "/api/v1/nothing", ""), 404, "route_not_found")
	problem(h.do("GET", "/api/v1/", ""), 404, "route_not_found")
	problem(h.do("GET", "/api", ""), 404, "route_not_found")
	problem(h.do("GET", "/api/v2/me", ""), 404, "route_not_found")
	r := h.do("PATCH", "/api/v1/health", "")
	problem(r, 405, "method_not_allowed")
	if r.Header.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
	problem(h.do("GET", "/api/v1/me", ""), 401, "signed_out")
	problem(h.do("GET", "/api/v1/me", "", "Authorization", "Bearer pw_user_nonsense"), 401, "invalid_token")
	problem(h.do("GET", "/api/v1/me", "", "Authorization", "Basic YTpi"), 401, "invalid_token")
	problem(h.do("GET", "/api/v1/me", "", "Host", "evil.example"), 403, "host_not_allowed")
	problem(h.do("GET", "/", "", "Host", "evil.example"), 403, "host_not_allowed")
	if r := h.do("GET", "/p/whatever", ""); string(r.body) != "the web app" {
		t.Errorf("the web app: %s", r.body)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	h.serve()
	for _, path := range []string{"/api/v1/health", "/api/v1/me", "/api/v1/nothing"} {
		r := h.do("GET", path, "")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Strict-Transport-Security": ""} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
	if r := h.do("GET", "/api/v1/health", "", "X-Forwarded-Proto", "https"); r.Header.Get("Strict-Transport-Security") == "" {
		t.Error("no HSTS over https")
	}
	if r := h.do("GET", "/api/v1/health", "", "X-Request-Id", "proxy-12345678"); r.Header.Get("X-Request-Id") != "proxy-12345678" {
		t.Errorf("the trusted proxy's request id became %q", r.Header.Get("X-Request-Id"))
	}
	if r := h.do("GET", "/api/v1/health", "", "X-Request-Id", "forged id\tx=1"); strings.Contains(r.Header.Get("X-Request-Id"), "forged") {
		t.Error("a request id of any form was taken")
	}
}

// Every route there is, those that do not exist and those that refuse included, answers with the headers that keep browsers safe.
func TestASVS_3_4_HeadersOfEveryRoute(t *testing.T) {
	t.Parallel()
	web, err := ui.New(ui.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, func(c *Config) { c.UI, c.PublicURL = web, "https://pw.example.com" })
	h.server.Open()
	type ask struct{ method, path, host string }
	asks := []ask{{"GET", "/", ""}, {"GET", "/harbour/w/PW-1", ""}, {"GET", "/watch", ""}, {"GET", "/assets/none.js", ""}, {"POST", "/", ""}, {"GET", "/icon.svg", ""}, {"GET", "/../etc/passwd", ""},
		{"GET", "/api", ""}, {"GET", "/api/", ""}, {"GET", "/api/v1/nothing", ""}, {"TRACE", "/api/v1/me", ""}, {"GET", "/metrics", ""}, {"GET", "/", "evil.example"}, {"GET", "/api/v1/me", "evil.example"}}
	for _, r := range h.server.echo.Routes() {
		asks = append(asks, ask{r.Method, strings.NewReplacer(":team", "harbour", ":id", "x_1").Replace(r.Path), ""})
	}
	if len(asks) < 100 {
		t.Fatalf("only %d routes", len(asks))
	}
	for _, a := range asks {
		r := httptest.NewRequestWithContext(t.Context(), a.method, "https://pw.example.com"+a.path, nil)
		if a.host != "" {
			r.Host = a.host
		}
		rec := httptest.NewRecorder()
		h.server.echo.ServeHTTP(rec, r)
		got := rec.Header()
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Strict-Transport-Security": "max-age=31536000", "Permissions-Policy": unneeded} {
			if got.Get(name) != want {
				t.Errorf("%v: %s is %q", a, name, got.Get(name))
			}
		}
		csp := got.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") && !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "base-uri 'none'") || strings.Contains(csp, "unsafe-eval") {
			t.Errorf("%v: the policy is %q", a, csp)
		}
		if ofAPI(a.path) && !strings.HasPrefix(a.path, "/api/docs") && !strings.HasSuffix(a.path, "/openapi.yaml") && (got.Get("Cache-Control") != "no-store") { // those two are the same for everybody
			t.Errorf("%v: may be kept: %q", a, got.Get("Cache-Control"))
		}
		if got.Get("X-Request-Id") == "" || got.Get("Server") != "" || got.Get("X-Powered-By") != "" || got.Get("Access-Control-Allow-Credentials") != "" || got.Get("Access-Control-Allow-Origin") != forPagesElsewhere(a.path) {
			t.Errorf("%v: %v", a, got)
		}
		if kind := got.Get("Content-Type"); rec.Body.Len() > 0 && kind == "" {
			t.Errorf("%v: a body without a type", a)
		}
	}
}

// forPagesElsewhere is which pages of other origins may ask at a path: those of MCP's clients where OAuth takes no cookie, and else none.
func forPagesElsewhere(path string) string {
	path = strings.TrimPrefix(path, rest.Base)
	if strings.HasPrefix(path, "/.well-known/oauth-") || path == "/oauth/register" || path == "/oauth/token" || path == "/oauth/revoke" {
		return "*"
	}
	return ""
}

// Requests that the trusted proxy did not pass on cannot choose their address, or the limits of logins would count nothing.
func TestASVS_4_1_3_ForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		proxies []netip.Prefix
		xff     string
		want    string
	}{
		"not configured":        {nil, "6.6.6.6", "127.0.0.1"},
		"from the proxy":        {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, "6.6.6.6", "6.6.6.6"},
		"through two":           {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}, "1.1.1.1, 6.6.6.6, 10.0.0.9", "6.6.6.6"},
		"private, not a proxy":  {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, "1.1.1.1, 192.168.1.1", "192.168.1.1"},
		"another is configured": {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "6.6.6.6", "127.0.0.1"},
	} {
		s := bare(t, func(c *Config) { c.TrustedProxies = tc.proxies })
		r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "127.0.0.1:5"
		r.Header.Set("X-Forwarded-For", tc.xff)
		if got := s.Meta(&rest.Call{Request: r}).IP; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	token := h.people(t).tokens["owner"]
	post := func(path, body string, header ...string) reply {
		t.Helper()
		return h.do("POST", "/api/v1"+path, body, append(bearer(token), header...)...)
	}
	for name, tc := range map[string]struct {
		body, kind string
		status     int
		code       string
	}{
		"right":             {`{"name":"a"}`, "application/json", 201, ""},
		"with a charset":    {`{"name":"a"}`, "application/json; charset=utf-8", 201, ""},
		"a newer client":    {`{"name":"a","colour":"red"}`, "application/json", 201, ""},
		"none":              {"", "application/json", 400, "body_missing"},
		"a form":            {"name=a", "application/x-www-form-urlencoded", 400, "not_json"},
		"text":              {`{"name":"a"}`, "text/plain", 400, "not_json"},
		"cut":               {`{"name":"a"`, "application/json", 400, "invalid_json"},
		"two":               {`{"name":"a"}{"name":"b"}`, "application/json", 400, "invalid_json"},
		"another type":      {`{"name":{"a":1}}`, "application/json", 400, "invalid_json"},
		"a list":            {`["a"]`, "application/json", 400, "invalid_json"},
		"NUL":               {`{"name":"a\u0000b"}`, "application/json", 400, "invalid_text"},
		"an escaped escape": {`{"name":"a\\u0000b"}`, "application/json", 201, ""},
		"too large":         {`{"name":"` + strings.Repeat("x", maxJSON) + `"}`, "application/json", 413, "body_too_large"},
	} {
		if r := post("/me/tokens", tc.body, "Content-Type", tc.kind); r.StatusCode != tc.status || r.code() != tc.code {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	// Without a length it is counted while it comes.
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.url+"/api/v1/me/tokens", struct{ *strings.Reader }{strings.NewReader(`{"name":"` + strings.Repeat("x", maxJSON) + `"}`)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a chunked body that is too large: %d", resp.StatusCode)
	}
	for path, field := range map[string]string{"/teams/harbour/projects?limit=x": "limit"} {
		if r := h.do("GET", "/api/v1"+path, "", bearer(token)...); r.StatusCode != 400 || !strings.Contains(string(r.body), field) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := h.do("GET", "/api/v1/teams/harbour/workspaces?show=none", "", bearer(token)...); r.StatusCode != 400 {
		t.Errorf("show=none: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/teams/harbour/workspaces?cursor=nonsense", "", bearer(token)...); r.StatusCode != 400 || r.code() != "invalid_cursor" {
		t.Errorf("cursor=nonsense: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/teams/harbour/workspaces?project_id=%00%ff", "", bearer(token)...); r.StatusCode != 200 || !strings.Contains(string(r.body), `"items":[]`) {
		t.Errorf("a hostile project_id: %d %s", r.StatusCode, r.body)
	}
}
