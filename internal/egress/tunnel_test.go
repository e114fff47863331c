package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/internal/egress"
)

// echo is a server that says back what it hears; its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func open(t *testing.T, cfg egress.TunnelConfig) *egress.Tunnel {
	t.Helper()
	tunnel, err := egress.OpenTunnel(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tunnel.Close)
	return tunnel
}

// only allows one address, with its port, of what is not public.
func only(t *testing.T, address string) egress.Guard {
	t.Helper()
	e, err := egress.ParseException(address)
	if err != nil {
		t.Fatal(err)
	}
	return egress.Guard{Allow: []egress.Exception{e}}
}

// through has Connect carry text to an address, and returns what comes back.
func through(t *testing.T, tunnel, address, text string) (string, error) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = egress.Connect(t.Context(), []string{host, port}, func(string) string { return tunnel }, strings.NewReader(text), &out)
	return out.String(), err
}

func TestTunnelCarriesWhatIsAllowed(t *testing.T) {
	t.Parallel()
	at := echo(t)
	tunnel := open(t, egress.TunnelConfig{Guard: only(t, at)})
	text := strings.Repeat("0123456789abcdef", 50_000)
	if got, err := through(t, tunnel.URL(), at, text); err != nil || got != text {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if tunnel.Refused() != "" {
		t.Errorf("refused %s", tunnel.Refused())
	}
	// Through curl's way too: CONNECT with the secret in the proxy's address.
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer web.Close()
	tunnel = open(t, egress.TunnelConfig{Guard: only(t, web.Listener.Addr().String())})
	proxy, err := url.Parse(tunnel.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := web.Client()
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
	resp, err := client.Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
}

// ASVS 1.3.6: an address inside is refused after its name was resolved, whatever leads there.
func TestASVS_1_3_6_TunnelRefusesWhatIsInside(t *testing.T) {
	t.Parallel()
	at := echo(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	tunnel := open(t, egress.TunnelConfig{Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "inside.example":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		case "both.example":
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")}, nil
		case "mapped.example":
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, nil
		case "rebinds.example": // public when it is judged, inside when it is asked again
			if asked.Add(1) > 1 {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
		}
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}})
	for _, host := range []string{"127.0.0.1", "localhost.localdomain", "::1", "inside.example", "both.example", "mapped.example", "rebinds.example", "169.254.169.254", "10.0.0.1", "0.0.0.0", "2130706433", "0x7f.1"} {
		if got, err := through(t, tunnel.URL(), net.JoinHostPort(host, port), "x"); err == nil || got != "" {
			t.Errorf("%s was reached: %q", host, got)
		}
	}
	if tunnel.Refused() != "127.0.0.1" {
		t.Errorf("refused %q", tunnel.Refused())
	}
	if asked.Load() != 1 {
		t.Errorf("the name was resolved %d times for one connection", asked.Load())
	}
}

// Only who knows the secret goes through, and only by CONNECT.
func TestTunnelIsNobodyElses(t *testing.T) {
	t.Parallel()
	at := echo(t)
	tunnel := open(t, egress.TunnelConfig{Guard: only(t, at)})
	u, err := url.Parse(tunnel.URL())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(request string) string {
		t.Helper()
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "%s\r\n\r\n", request)
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	if got := ask("CONNECT " + at + " HTTP/1.1\r\nHost: " + at); !strings.Contains(got, " 407 ") {
		t.Errorf("no secret: %s", got)
	}
	if got := ask("CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\nProxy-Authorization: Basic cGFyYXdvcms6d3Jvbmc="); !strings.Contains(got, " 407 ") {
		t.Errorf("a wrong secret: %s", got)
	}
	wrong := strings.Replace(tunnel.URL(), "@", "x@", 1)
	if _, err := through(t, wrong, at, "x"); err == nil {
		t.Error("a wrong secret went through")
	}
	proxied := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}}
	resp, err := proxied.Get("http://" + at + "/")
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("a plain request: %d", resp.StatusCode)
		}
	}
	if got := ask(strings.Repeat("A", 9000)); strings.Contains(got, " 200 ") {
		t.Errorf("a long head: %s", got)
	}
	tunnel.Close()
	if _, err := through(t, tunnel.URL(), at, "x"); err == nil {
		t.Error("a closed tunnel carries")
	}
}

// Behind the server's own proxy names are judged as far as they resolve here, and the proxy connects.
func TestTunnelThroughTheServersOwnProxy(t *testing.T) {
	t.Parallel()
	at := echo(t)
	far := open(t, egress.TunnelConfig{Guard: only(t, at)}) // stands for the company's proxy
	up, err := url.Parse(far.URL())
	if err != nil {
		t.Fatal(err)
	}
	tunnel := open(t, egress.TunnelConfig{Proxy: func(*url.URL) (*url.URL, error) { return up, nil }, Guard: only(t, at)})
	u, err := url.Parse(tunnel.URL())
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req, err := http.NewRequest(http.MethodConnect, "http://"+at, nil)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	req.SetBasicAuth(u.User.Username(), password)
	_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-%s: %s\r\n\r\nping", at, at, "Authorization", req.Header.Get("Authorization"))
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "ping" {
		t.Errorf("%q %v", got, err)
	}
	strict := open(t, egress.TunnelConfig{Proxy: func(*url.URL) (*url.URL, error) { return up, errors.New("none") }})
	if _, err := through(t, strict.URL(), at, "x"); err == nil || strict.Refused() == "" {
		t.Errorf("the proxy leads inside: %v", err)
	}
}
