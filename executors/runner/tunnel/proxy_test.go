package tunnel_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/runner/tunnel"
)

// join carries bytes between two connections until both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(a, b); _ = a.Close() })
	both.Go(func() { _, _ = io.Copy(b, a); _ = b.Close() })
	both.Wait()
}

// connectProxy is a proxy that lets people with a login through.
func connectProxy(login string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		if login != "" && r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(login)) {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if strings.HasPrefix(r.Host, "forbidden.test") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = there.Close()
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		join(here, there)
	})
}

// socksProxy speaks as much of SOCKS 5 (RFC 1928) as a client without a login needs.
func socksProxy(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		head := make([]byte, 2)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, r, int64(head[1])); err != nil {
			return
		}
		_, _ = c.Write([]byte{5, 0})
		ask := make([]byte, 4)
		if _, err := io.ReadFull(r, ask); err != nil || ask[3] != 1 { // an IPv4 address
			return
		}
		to := make([]byte, 6)
		if _, err := io.ReadFull(r, to); err != nil {
			return
		}
		there, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: to[:4], Port: int(to[4])<<8 | int(to[5])})
		if err != nil {
			return
		}
		_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		join(c, there)
	}
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(c) })
		}
	})
	return "socks5://" + l.Addr().String()
}

func reach(t *testing.T, d *door, cfg tunnel.DialConfig) {
	t.Helper()
	c, err := tunnel.Dial(t.Context(), cfg)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tunnel.Serve(ctx, c, machine()) }()
	l := d.link(t)
	if got := ask(t, l, "GET", "/v1/hello", nil); got != "hello " {
		t.Errorf("got %q", got)
	}
	cancel()
	<-served
	<-l.Done()
}

// trusted writes the certificate of a server into a file, as an authority.
func trusted(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestThroughProxies(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	srv := httptest.NewTLSServer(d)
	defer srv.Close()
	open := httptest.NewServer(connectProxy(""))
	defer open.Close()
	closed := httptest.NewServer(connectProxy("ada:secret"))
	defer closed.Close()
	secure := httptest.NewTLSServer(connectProxy("ada:secret"))
	defer secure.Close()
	roots, err := tunnel.Roots(trusted(t, srv)) // all servers of httptest have the same certificate
	if err != nil {
		t.Fatal(err)
	}
	by := func(proxy string) tunnel.DialConfig {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		cfg := d.dial(srv.URL)
		cfg.RootCAs, cfg.Proxy = roots, http.ProxyURL(u)
		return cfg
	}
	with := func(proxy string) string { return strings.Replace(proxy, "://", "://ada:secret@", 1) }
	for _, proxy := range []string{open.URL, with(closed.URL), with(secure.URL), socksProxy(t)} {
		reach(t, d, by(proxy))
	}
	nobody := httptest.NewServer(nil)
	nobody.Close()
	for proxy, want := range map[string]string{
		closed.URL:       "wants a login",
		nobody.URL:       "Nobody answers",
		"gopher://x.y:1": "has an unsupported scheme",
	} {
		if _, err := tunnel.Dial(t.Context(), by(proxy)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", proxy, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("it tells the password: %v", err)
		}
	}
	cfg := by(open.URL)
	cfg.URL = "https://forbidden.test"
	if _, err := tunnel.Dial(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "answered 403") {
		t.Errorf("got %v", err)
	}
}

func TestAuthoritiesOfOnesOwn(t *testing.T) {
	d := newDoor(newKeys(t))
	srv := httptest.NewTLSServer(d)
	defer srv.Close()
	if _, err := tunnel.Dial(t.Context(), d.dial(srv.URL)); err == nil || !strings.Contains(err.Error(), "--ca") {
		t.Errorf("a certificate nobody vouches for: %v", err)
	}
	if _, err := tunnel.Dial(t.Context(), d.dial(strings.Replace(srv.URL, "https:", "http:", 1))); err == nil || !strings.Contains(err.Error(), "answered 400") {
		t.Errorf("http where https is spoken: %v", err)
	}
	t.Setenv("SSL_CERT_FILE", trusted(t, srv))
	roots, err := tunnel.Roots("")
	if err != nil {
		t.Fatal(err)
	}
	cfg := d.dial(srv.URL)
	cfg.RootCAs = roots
	reach(t, d, cfg)
	if _, err := tunnel.Roots(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tunnel.Roots(empty); err == nil {
		t.Error("a file without certificates was taken")
	}
}
