package egress_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
)

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, no := range []string{"127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
		"2002:7f00:1::", "2001:db8::1", "2001::1", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "::7f00:1", "::ffff:0:7f00:1",
		"64:ff9b:1::1", "100::1", "5f00::1", "fec0::1", "4000::1", "fe80::1%eth0"} {
		if egress.Public(netip.MustParseAddr(no)) {
			t.Errorf("%s counts as public", no)
		}
	}
	for _, yes := range []string{"1.1.1.1", "8.8.8.8", "140.82.112.3", "2606:4700:4700::1111", "::ffff:1.1.1.1"} {
		if !egress.Public(netip.MustParseAddr(yes)) {
			t.Errorf("%s does not count as public", yes)
		}
	}
}

func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	hit := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer inside.Close()
	u, err := url.Parse(inside.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := egress.New(egress.Config{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		resp, err := c.Get("http://" + host + ":" + u.Port() + "/")
		if err == nil {
			resp.Body.Close()
			t.Fatalf("%s was reached", host)
		}
		if !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: %v", host, err)
		}
		if !strings.Contains(egress.Words(err), "does not reach out to") {
			t.Errorf("in words: %s", egress.Words(err))
		}
	}
	if hit {
		t.Error("a request arrived")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Errorf("followed to %s", r.URL)
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer s.Close()
	c := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	resp, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	strict := egress.New(egress.Config{})
	lan := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for _, tc := range []struct {
		c         *egress.Client
		url, code string
	}{
		{strict, "https://example.com/hook?x=1", ""},
		{strict, "http://example.com/hook", "invalid_url"},
		{strict, "https://127.0.0.1/", "url_not_public"},
		{strict, "https://[::1]/", "url_not_public"},
		{strict, "https://169.254.169.254/latest", "url_not_public"},
		{strict, "https://user:pass@example.com/", "invalid_url"},
		{strict, "https://example.com/#x", "invalid_url"},
		{strict, "file:///etc/passwd", "invalid_url"},
		{strict, "https:opaque", "invalid_url"},
		{strict, "", "invalid_url"},
		{lan, "http://10.1.2.3/hook", ""},
		{lan, "http://hooks.lan/", ""},
		{lan, "https://192.168.0.1/", "url_not_public"},
	} {
		if got := fault.CodeOf(tc.c.Check(tc.url)); got != tc.code {
			t.Errorf("%s: got %q, want %q", tc.url, got, tc.code)
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	g := egress.Guard{Own: func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("127.0.0.1")}
	}}
	for _, s := range []string{"10.0.0.0/8", "127.0.0.1:11434", "[fd00::]:8080", "[fd12::/16]:1", "192.168.1.7"} {
		e, err := egress.ParseException(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		g.Allow = append(g.Allow, e)
	}
	for ap, may := range map[string]bool{"1.1.1.1:443": true, "8.8.4.4:443": false, "10.9.9.9:22": true, "10.0.0.5:22": false, "11.0.0.1:22": true, "127.0.0.1:11434": true, "127.0.0.1:11435": false,
		"127.0.0.2:11434": false, "[::ffff:127.0.0.1]:11434": true, "[fd00::]:8080": true, "[fd00::]:81": false, "[fd12::9]:1": true, "[fd12::9]:2": false,
		"192.168.1.7:9": true, "192.168.1.8:9": false, "169.254.169.254:80": false, "[::1]:11434": false} {
		if err := g.Check(netip.MustParseAddrPort(ap)); (err == nil) != may || err != nil && !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: %v", ap, err)
		}
	}
	for _, s := range []string{"", "x", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "10.0.0.0/33", "localhost:80", "fe80::1%eth0", "127.1:80"} {
		if e, err := egress.ParseException(s); err == nil {
			t.Errorf("%q was taken for %v", s, e)
		}
	}
	if p := g.Allow[1].Loopback(); p != 11434 || g.Allow[0].Loopback() != 0 || g.Allow[4].Loopback() != 0 {
		t.Errorf("loopback port %d", p)
	}
}

func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	var own egress.Own
	if got := own.Addrs(); len(got) == 0 || !slices.Contains(got, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v", got)
	}
}
