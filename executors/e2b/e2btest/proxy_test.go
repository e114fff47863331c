package e2btest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func TestTheProxyWantsToKnowWhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(nil)
	for name, c := range map[string]struct {
		host, id, port string
		status         int
		words          string
	}{
		"headers at an address":     {"", b.SandboxID, "49983", 204, ""},
		"headers at localhost":      {"localhost", b.SandboxID, "49983", 204, ""},
		"headers at sandbox.":       {"sandbox.e2b.app", b.SandboxID, "49983", 204, ""},
		"the host alone":            {"49983-" + b.SandboxID + ".e2b.app", "", "", 204, ""},
		"the host beats headers":    {"49983-inothing.e2b.app", b.SandboxID, "49983", 502, "not found"},
		"no headers":                {"", "", "", 400, "missing header"},
		"one header":                {"", b.SandboxID, "", 400, "missing header"},
		"the other header":          {"", "", "49983", 400, "missing header"},
		"a host of nothing":         {"e2b.app", b.SandboxID, "49983", 400, "Invalid host"},
		"a host without a port":     {"abc-" + b.SandboxID + ".e2b.app", "", "", 400, "Invalid sandbox port"},
		"a port beyond":             {"", b.SandboxID, "70000", 400, "Invalid sandbox port"},
		"an id of another alphabet": {"", "../x", "49983", 400, "Invalid sandbox ID"},
		"nobody":                    {"", "inothing", "49983", 502, "The sandbox was not found"},
		"a closed port":             {"", b.SandboxID, "8080", 502, "port is not open"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.SandboxURL()+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		if c.id != "" {
			req.Header.Set("E2b-Sandbox-Id", c.id)
		}
		if c.port != "" {
			req.Header.Set("E2b-Sandbox-Port", c.port)
		}
		if a, err := do(req); err != nil || a.status != c.status || !strings.Contains(string(a.body), c.words) {
			t.Errorf("%s: %d %s, %v", name, a.status, a.body, err)
		}
	}
}

func TestPortsOfASandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	open := r.create(nil)
	private := r.create(m{"network": m{"allowPublicTraffic": false}})
	if private.TrafficAccessToken == nil || open.TrafficAccessToken != nil {
		t.Fatalf("%+v, %+v", open, private)
	}
	const listen = `use IO::Socket; $s = IO::Socket::INET->new(Listen=>5, LocalAddr=>"127.0.0.1", LocalPort=>8080, ReuseAddr=>1) or die; print "up\n"; $|=1; STDOUT->flush;
while ($c = $s->accept) { while (<$c>) { last if /^\r?$/ } print $c "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"; close $c }`
	ask := func(b *box, token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", r.SandboxURL()+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "8080-" + b.SandboxID + ".e2b.app"
		if token != "" {
			req.Header.Set("E2b-Traffic-Access-Token", token)
		}
		a, err := do(req)
		if err != nil {
			t.Fatal(err)
		}
		return a.status, string(a.body)
	}
	for _, b := range []*box{open, private} {
		s, _ := b.start(m{"process": m{"cmd": "/usr/bin/perl", "args": []string{"-e", listen}}, "stdin": false})
		s.until("up")
	}
	if status, body := ask(open, ""); status != 200 || body != "hi" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(private, ""); status != 403 {
		t.Errorf("without a token: %d", status)
	}
	if status, body := ask(private, *private.TrafficAccessToken); status != 200 || body != "hi" {
		t.Errorf("%d %s", status, body)
	}
}

func TestAutoResume(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	b := r.create(m{"autoPause": true, "autoResume": m{"enabled": true}})
	r.Expire(b.SandboxID)
	wrong := b.request("GET", "/metrics", nil)
	wrong.Header.Set("X-Access-Token", "ea_wrong")
	b.send(http.StatusForbidden, wrong)
	b.send(http.StatusOK, b.request("GET", "/metrics", nil))
	if b.state() != "running" {
		t.Errorf("it is %s", b.state())
	}
	r.call(http.StatusNoContent, "POST", "/sandboxes/"+b.SandboxID+"/pause", m{"memory": false})
	b.send(http.StatusBadGateway, b.request("GET", "/metrics", nil))
}

func TestHTTP2WithPriorKnowledge(t *testing.T) {
	t.Parallel()
	b := newRig(t, e2btest.Config{}).create(nil)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	c := http.Client{Transport: &http.Transport{Protocols: p}}
	res, err := c.Do(b.request("GET", "/health", nil))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusNoContent || res.ProtoMajor != 2 {
		t.Errorf("%s %s", res.Status, res.Proto)
	}
	c.CloseIdleConnections()
}
