package server

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestPrometheusReadsTheCounters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ws := "/api/v1/workspaces/" + p.ids["workspace"]
	if r := h.do("PATCH", ws, `{"executor":"fake"}`, bearer(p.tokens["member"])...); r.StatusCode != 200 {
		t.Fatalf("naming its place: %d %s", r.StatusCode, r.body)
	}
	if run := h.do("POST", ws+"/exec", `{"command":"true"}`, bearer(p.tokens["member"])...); run.StatusCode != 200 {
		t.Fatalf("a command: %d %s", run.StatusCode, run.body)
	}
	for _, path := range []string{"/metrics", "/api/v1/metrics"} {
		r := h.do("GET", path, "", bearer(p.tokens["operator"])...)
		if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
			t.Fatalf("%s: %d %s", path, r.StatusCode, r.body)
		}
		for _, want := range []string{`parawork_sandboxes_created_total{executor="fake",purpose="execution"} 1`, `parawork_sandboxes_active{executor="fake",purpose="execution"} 1`,
			`parawork_command_start_seconds_count{executor="fake"} 1`, `parawork_sandbox_create_seconds_bucket{executor="fake",le="+Inf"} 1`,
			`parawork_budget_limit_dollars 500`, `parawork_build_info{version="test"} 1`, `parawork_pool_sandboxes{state="ready"} 0`, `parawork_runners{state="online"} 0`, "go_goroutines"} {
			if !strings.Contains(string(r.body), want) {
				t.Errorf("%s lacks %s", path, want)
			}
		}
		for _, secret := range []string{p.team.Slug, p.ids["workspace"], "usr_"} {
			if strings.Contains(string(r.body), secret) {
				t.Errorf("%s names %q", path, secret)
			}
		}
	}
}

// Who may read the counters: operators, and programs of this machine where nothing stands before the server.
func TestWhoMayReadTheCounters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	p := h.people(t)
	behind := newHarness(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	behind.server.Open()
	open := newHarness(t, func(c *Config) { c.Loopback = false })
	open.server.Open()
	public := newHarness(t, func(c *Config) { c.PublicURL = "https://parawork.example.com" })
	public.server.Open()
	local := newHarness(t, func(c *Config) { c.PublicURL = "http://localhost:8080" })
	local.server.Open()
	prometheus := []string{"User-Agent", "Prometheus/3.5", "Accept", "text/plain", "Accept-Encoding", "gzip", "X-Prometheus-Scrape-Timeout-Seconds", "10"}
	for name, c := range map[string]struct {
		h      *harness
		peer   string
		host   string
		header []string
		want   int
	}{
		"this machine":                 {h, "127.0.0.1:5", "127.0.0.1:8080", nil, 200},
		"this machine, IPv6":           {h, "[::1]:5", "localhost:8080", nil, 200},
		"Prometheus":                   {h, "127.0.0.1:5", "127.0.0.1:8080", prometheus, 200},
		"one's own machine, by name":   {local, "127.0.0.1:5", "localhost:8080", prometheus, 200},
		"a proxy that says nothing":    {public, "127.0.0.1:5", "127.0.0.1:8080", nil, 401}, // as nginx does without proxy_set_header
		"one that names its client":    {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"Cf-Connecting-Ip", "8.8.8.8"}, 401},
		"one that closes each time":    {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"Connection", "close"}, 401},
		"a server for other machines":  {open, "127.0.0.1:5", "127.0.0.1:8080", nil, 401},
		"a proxy before it":            {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"X-Forwarded-For", "8.8.8.8"}, 401},
		"another proxy":                {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"Forwarded", "for=8.8.8.8"}, 401},
		"an empty forwarding header":   {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"X-Real-IP", ""}, 401},
		"a browser's page":             {h, "127.0.0.1:5", "127.0.0.1:8080", []string{"Sec-Fetch-Site", "same-origin"}, 401},
		"trusted proxies":              {behind, "127.0.0.1:5", "127.0.0.1:8080", nil, 401},
		"another machine":              {open, "10.0.0.9:5", "127.0.0.1:8080", nil, 401},
		"a name that leads here":       {open, "127.0.0.1:5", "parawork.example.com", nil, 401},
		"a member of this machine":     {h, "127.0.0.1:5", "127.0.0.1:8080", bearer(p.tokens["member"]), 403},
		"a wrong token":                {h, "127.0.0.1:5", "127.0.0.1:8080", bearer("pw_user_nobody"), 401},
		"an operator behind the proxy": {h, "127.0.0.1:5", "127.0.0.1:8080", append([]string{"X-Forwarded-For", "8.8.8.8"}, bearer(p.tokens["operator"])...), 200},
	} {
		for _, path := range []string{"/metrics", "/api/v1/metrics"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.peer, c.host
			for i := 0; i+1 < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			c.h.server.echo.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s of %s: %d, not %d: %.200s", path, name, w.Code, c.want, w.Body)
			}
		}
	}
}

// Dashboards and alerts name metrics: every one the server has is on the pages about them, and the pages name no others.
func TestPagesNameEveryMetric(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	has := map[string]bool{}
	for _, c := range []prometheus.Collector{&placeCollector{s: h.server}, &gatewayCollector{s: h.server}} {
		ch := make(chan *prometheus.Desc)
		go func() { c.Describe(ch); close(ch) }()
		for d := range ch {
			has[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1]] = true
		}
	}
	says := map[string]bool{}
	for _, page := range []string{"../docs/metrics.md", "../docs/gateway.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(parawork_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
			says[name[1]] = true
		}
	}
	if len(has) < 20 {
		t.Errorf("only %d metrics", len(has))
	}
	if !maps.Equal(has, says) {
		t.Errorf("the server has %q, the pages say %q", slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(says)))
	}
}
