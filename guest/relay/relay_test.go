package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/relay"
	"github.com/parawork/parawork/internal/proxycopy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a little proxy on a socket: it connects to anything but refused.example, and to what connect says.
type gate struct {
	socket   string
	forwards string
	srv      *http.Server
	mu       sync.Mutex
	asked    []string
}

func newGate(t *testing.T, socket string) *gate {
	t.Helper()
	g := &gate{socket: socket}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g.srv = &http.Server{Handler: g}
	done := make(chan struct{})
	go func() { defer close(done); _ = g.srv.Serve(l) }()
	t.Cleanup(func() { _ = g.srv.Close(); <-done })
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == guest.ForwardsPath {
		_, _ = io.WriteString(w, g.forwards)
		return
	}
	g.mu.Lock()
	g.asked = append(g.asked, r.Method+" "+r.Host)
	g.mu.Unlock()
	if strings.HasPrefix(r.Host, "refused.example") || g.forwards != "" {
		http.Error(w, "refused.example:22 is not allowed", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodConnect {
		_, _ = io.WriteString(w, "plain "+r.URL.String())
		return
	}
	out, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	proxycopy.Both(conn.(*net.UnixConn), out.(*net.TCPConn), proxycopy.Options{})
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "egress")
}

// run opens a relay at a port of its own.
func run(t *testing.T, cfg relay.Config) *relay.Relay {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	r, err := relay.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestProgramsGetOut(t *testing.T) {
	g := newGate(t, socketPath(t))
	r := run(t, relay.Config{Socket: g.socket})
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret page") }))
	defer site.Close()
	proxy, err := url.Parse(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := site.Client()
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxy)
	defer client.CloseIdleConnections()
	for _, address := range []string{site.URL, "http://plain.example/x"} {
		resp, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if s := string(body); s != "secret page" && s != "plain http://plain.example/x" {
			t.Errorf("%s: %q", address, body)
		}
	}
}

// A program that has sent all it has still hears the whole answer.
func TestTheEndOfOneDirectionIsPassedOn(t *testing.T) {
	g := newGate(t, socketPath(t))
	r := run(t, relay.Config{Socket: g.socket})
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		c, err := far.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "read %d bytes", len(all))
	}()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	early, err := relay.Ask(conn, far.Addr().String())
	if err != nil || len(early) != 0 {
		t.Fatalf("%q, %v", early, err)
	}
	sent := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "read 1048576 bytes" {
		t.Errorf("%q, %v", answer, err)
	}
}

// A server that restarts is away for a moment: what programs ask meanwhile waits.
func TestAServerThatIsAwayIsWaitedFor(t *testing.T) {
	socket := socketPath(t)
	r := run(t, relay.Config{Socket: socket})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET http://plain.example/later HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	newGate(t, socket)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(answer), "plain http://plain.example/later") {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestAServerThatStaysAwayIsReported(t *testing.T) {
	r := run(t, relay.Config{Socket: socketPath(t), DialIn: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 503 ") {
		t.Errorf("%q, %v", answer, err)
	}
}

// A model server on the machine's own loopback is found inside at the same place.
func TestPortsOfTheServersLoopback(t *testing.T) {
	g := newGate(t, socketPath(t))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	g.forwards = fmt.Sprintf(`{"ports":[%d]}`, port)
	run(t, relay.Config{Socket: g.socket})
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close() // it is enough that the gate was asked: here the address outside is the relay itself
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // nothing tells that a port has opened but asking
	}
	for {
		g.mu.Lock()
		asked := strings.Join(g.asked, "\n")
		g.mu.Unlock()
		if strings.Contains(asked, "CONNECT "+at) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gate was asked for %q", asked)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestConnect(t *testing.T) {
	g := newGate(t, socketPath(t))
	env := func(name string) string { return map[string]string{guest.EnvGate: g.socket}[name] }
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		c, err := far.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "SSH-2.0-test\r\n")
		all, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(all))
	}()
	host, port, _ := net.SplitHostPort(far.Addr().String())
	var out bytes.Buffer
	if err := relay.Connect(t.Context(), []string{host, port}, env, strings.NewReader("hello"), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "SSH-2.0-test\r\nHELLO" {
		t.Errorf("%q", out.String())
	}
	err = relay.Connect(t.Context(), []string{"refused.example", "22"}, env, strings.NewReader(""), &out)
	if err == nil || err.Error() != "refused.example:22 is not allowed" {
		t.Errorf("a refusal is reported as %v", err)
	}
	for _, args := range [][]string{{"x"}, {"x", "0"}, {"x", "70000"}, {"", "1"}, {"a\r\nb", "1"}, {"u@h", "22"}} {
		if err := relay.Connect(t.Context(), args, env, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
