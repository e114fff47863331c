package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/parawork/parawork/server/api"
)

func TestPortsOfASandboxAreSeenByWhoMayWorkInIt(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err = errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	ws := "/api/v1/workspaces/" + p.ids["workspace"]
	member := bearer(p.tokens["member"])
	serve := `{"background":true,"timeout_ms":600000,"argv":["node","-e","require('http').createServer((q, a) => a.end('served to ' + q.headers.host)).listen(` + port + `, '127.0.0.1')"]}`
	if r := h.do("POST", ws+"/exec", serve, member...); r.StatusCode >= 300 {
		t.Fatalf("a command: %d %s", r.StatusCode, r.body)
	}
	var ports api.Ports
	h.do("GET", ws+"/ports", "", member...).into(t, &ports)
	if !ports.Enabled || ports.Reason != "" {
		t.Errorf("on loopback: %+v", ports)
	}
	if r := h.do("POST", ws+"/ports/"+port+"/open", "", bearer(p.tokens["viewer"])...); r.StatusCode != 403 {
		t.Errorf("a viewer: %d %s", r.StatusCode, r.body)
	}
	var opened api.PortAddress
	h.do("POST", ws+"/ports/"+port+"/open", "", member...).into(t, &opened)
	u, err := url.Parse(opened.Url)
	if err != nil || !strings.HasPrefix(u.Host, port+"-"+strings.TrimPrefix(p.ids["workspace"], "ws_")+".localhost:") {
		t.Fatalf("address %q, %v", opened.Url, err)
	}
	visit := func(path, cookie string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = u.Host
		if cookie != "" {
			req.Header.Set("Cookie", cookie)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if r := visit("/api/v1/me", ""); r.StatusCode != 401 || strings.Contains(r.Header.Get("Content-Type"), "json") {
		t.Errorf("the origin of a port answers for the app: %d %v", r.StatusCode, r.Header)
	}
	in := visit(u.RequestURI(), "")
	if in.StatusCode != http.StatusSeeOther || len(in.Cookies()) != 1 {
		t.Fatalf("with the ticket: %d %v", in.StatusCode, in.Header)
	}
	cookie := in.Cookies()[0].Name + "=" + in.Cookies()[0].Value
	var page *http.Response
	eventually(t, "the program serves", func() bool {
		page = visit("/", cookie)
		return page.StatusCode != http.StatusBadGateway
	})
	if b, err := io.ReadAll(page.Body); string(b) != "served to localhost:"+port {
		t.Errorf("the page: %d %q, %v", page.StatusCode, b, err)
	}
	// A script sends a token instead, which ends with the API token it was asked for with.
	var script api.PortAccess
	h.do("GET", ws+"/ports/"+port, "", member...).into(t, &script)
	byToken := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.url+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = script.Host
		for name, value := range script.Headers {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if code, b := byToken(); code != 200 || b != "served to localhost:"+port {
		t.Errorf("a script: %d %s", code, b)
	}
	for _, bad := range []string{"0", "65536"} {
		if r := h.do("GET", ws+"/ports/"+bad, "", member...); r.StatusCode < 400 || r.StatusCode >= 500 {
			t.Errorf("port %s: %d", bad, r.StatusCode)
		}
	}
	// A link is made by who may share, shows the port to who has no login, and leaves entries in the audit.
	var link api.CreatedPortLink
	h.do("POST", ws+"/port-links", `{"port":`+port+`,"name":"Bo"}`, member...).into(t, &link)
	if shared, err := url.Parse(link.Url); err != nil || shared.Host != u.Host {
		t.Fatalf("the link %q, %v", link.Url, err)
	} else if c := visit(shared.RequestURI(), "").Cookies(); len(c) != 1 {
		t.Error("the link lets nobody in")
	} else if r := visit("/", c[0].Name+"="+c[0].Value); r.StatusCode != 200 {
		t.Errorf("by the link: %d", r.StatusCode)
	} else if r := h.do("DELETE", ws+"/port-links/"+link.Id, "", member...); r.StatusCode != 204 {
		t.Errorf("revoking it: %d %s", r.StatusCode, r.body)
	} else if r := visit("/", c[0].Name+"="+c[0].Value); r.StatusCode != 401 {
		t.Errorf("by a revoked link: %d", r.StatusCode)
	}
	if r := h.do("POST", ws+"/port-links", `{"port":`+port+`}`, bearer(p.tokens["viewer"])...); r.StatusCode != 403 {
		t.Errorf("a viewer shares: %d", r.StatusCode)
	}
	// The cookie of a port signs nobody in, and the app's own name serves no port.
	if r := h.do("GET", "/api/v1/me", "", "Cookie", cookie); r.StatusCode != 401 {
		t.Errorf("the app with a port's cookie: %d", r.StatusCode)
	}
	closed := strconv.Itoa(1)
	h.do("POST", ws+"/ports/"+closed+"/open", "", member...).into(t, &opened)
	if u, err = url.Parse(opened.Url); err != nil {
		t.Fatal(err)
	}
	in = visit(u.RequestURI(), "")
	if r := visit("/", in.Cookies()[0].Name+"="+in.Cookies()[0].Value); r.StatusCode != http.StatusBadGateway {
		t.Errorf("a port nobody listens at: %d", r.StatusCode)
	}
}

func TestWithoutADomainOfTheirOwnPortsAreNotSeenFromElsewhere(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.Loopback = false })
	h.serve()
	p := h.people(t)
	ws := "/api/v1/workspaces/" + p.ids["workspace"]
	var ports api.Ports
	h.do("GET", ws+"/ports", "", bearer(p.tokens["member"])...).into(t, &ports)
	if ports.Enabled || !strings.Contains(ports.Reason, "preview.baseDomain") {
		t.Errorf("%+v", ports)
	}
	if r := h.do("POST", ws+"/ports/3000/open", "", bearer(p.tokens["member"])...); r.code() != "preview_off" {
		t.Errorf("opening one: %d %s", r.StatusCode, r.body)
	}
}
