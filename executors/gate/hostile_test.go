package gate_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/gate"
)

// flows reports whether bytes still come through a tunnel to the page that does not end.
func flows(c net.Conn) bool {
	_, err := io.ReadFull(c, make([]byte, 64))
	return err == nil
}

// drip opens a tunnel to a page that does not end.
func (w *world) drip(dir, target string) net.Conn {
	w.t.Helper()
	c, code, words := w.connect(dir, target)
	if code != 200 {
		w.t.Fatalf("%s: %d %s", target, code, words)
	}
	if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		w.t.Fatal(err)
	}
	if !flows(c) {
		w.t.Fatalf("%s: nothing comes", target)
	}
	return c
}

func TestNarrowingEndsWhatIsNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	stays, goes := w.drip(dir, "public.example:443"), w.drip(dir, "other.example:443")
	neighbour := w.drip(w.open("sbx_2", open), "other.example:443")
	page, err := w.client(dir).Get("http://other.example/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	w.g.Update("ws_sbx_1", allow("public.example"))
	if _, err := io.Copy(io.Discard, goes); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Logf("the tunnel ended with %v", err)
	} else if err != nil {
		t.Error("a tunnel to a host that is not allowed any more goes on")
	}
	if _, err := io.Copy(io.Discard, page.Body); err == nil {
		t.Error("a page of a host that is not allowed any more came to a good end")
	}
	if !flows(stays) || !flows(neighbour) {
		t.Error("what is still allowed was ended, or a neighbour's")
	}
	if code, _ := w.get(w.client(dir), "http://other.example/x"); code != 403 {
		t.Errorf("a new request: %d", code)
	}
	w.g.Update("ws_sbx_1", executors.Network{Mode: executors.NetworkNone})
	if _, err := io.Copy(io.Discard, stays); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("without a network a tunnel goes on")
	}
}

// The gate needs no notification when a list grows: it asks before it refuses.
func TestAListThatHasGrown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := 0
	w := newWorld(t, func(c *gate.Config) {
		c.Fresh = func(_ context.Context, workspaceID string) (executors.Network, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if workspaceID != "ws_sbx_1" {
				return executors.Network{}, errors.New("another workspace")
			}
			return allow("public.example", "other.example"), nil
		}
	})
	dir := w.open("sbx_1", allow("public.example"))
	if _, code, words := w.connect(dir, "other.example:443"); code != 200 {
		t.Errorf("%d %s", code, words)
	}
	for range 20 {
		if _, code, _ := w.connect(dir, "evil.example:443"); code != 403 {
			t.Errorf("%d", code)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if asked != 1 {
		t.Errorf("asked %d times within moments", asked)
	}
}

// The folder is what sandboxes have mounted: a new server listens in the same one.
func TestARestartedServerListensAtTheSamePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	before, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := w.drip(dir, "public.example:443")
	w.stop()
	if _, err := io.Copy(io.Discard, tunnel); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a tunnel goes on without a server")
	}
	w.start()
	if !w.g.Has("sbx_1") || w.g.Has("sbx_2") || w.g.Has("../gates") {
		t.Error("Has")
	}
	again := w.open("sbx_1", open)
	after, err := os.Stat(again)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("another folder: %v", err)
	}
	w.drip(again, "public.example:443")
	if got := w.open("sbx_1", allow("other.example")); got != again {
		t.Errorf("opened again at %s", got)
	}
	if _, code, _ := w.connect(again, "public.example:443"); code != 403 {
		t.Errorf("the second ticket does not count: %d", code)
	}
}

func TestTheEndOfASandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *gate.Config) {
		c.Known = func(context.Context) ([]string, error) { return []string{"sbx_asleep"}, nil }
		c.SweepEvery = time.Millisecond
	})
	dir := w.open("sbx_1", open)
	tunnel := w.drip(dir, "public.example:443")
	w.g.Close("sbx_1")
	w.g.Close("sbx_1")
	w.g.Close("../../etc")
	if _, err := io.Copy(io.Discard, tunnel); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a tunnel outlives its sandbox")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) || w.g.Has("sbx_1") {
		t.Errorf("the folder is still there: %v", err)
	}
	// What a server that died left is found; what belongs to a sandbox that lives, or is no sandbox's, stays.
	gates := filepath.Dir(dir)
	for _, name := range []string{"sbx_gone", "sbx_asleep"} {
		if err := os.MkdirAll(filepath.Join(gates, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	live := w.open("sbx_live", open)
	for deadline := time.Now().Add(time.Minute); w.g.Has("sbx_gone"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a folder nobody knows is never removed")
		}
	}
	if !w.g.Has("sbx_asleep") || !w.g.Has("sbx_live") {
		t.Error("the sweep took too much")
	}
	w.drip(live, "public.example:443")
}

func TestFoldersAndSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *gate.Config) { c.Dir = filepath.Join(c.Dir, strings.Repeat("long-", 30)) })
	dir := w.open("sbx_1", open)
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700 | os.ModeDir, dir: 0o755 | os.ModeDir, socket(dir): 0o666 | os.ModeSocket} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	for _, id := range []string{"", "../x", "a/b", "a.b", strings.Repeat("x", 65)} {
		if _, err := w.g.Open(t.Context(), executors.Ticket{SandboxID: id}); err == nil {
			t.Errorf("%q was taken", id)
		}
	}
	if _, err := gate.New(gate.Config{Dir: "gates"}); err == nil {
		t.Error("a relative folder was taken")
	}
}

// raw sends bytes as they are and returns what comes back until the end.
func (w *world) raw(dir, head string) string {
	w.t.Helper()
	c := w.knock(dir)
	_, _ = io.WriteString(c, head) // the gate may hang up half-way
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	for head, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                                          "400",
		"POST /v1/forwards HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":                         "400",
		"CONNECT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                                      "400",
		"CONNECT public.example:443 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello":                                "400",
		"CONNECT public.example:443 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":                   "400",
		"GET https://public.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                    "501",
		"GET ftp://public.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                      "501",
		"GET http://u:p@public.example/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                 "400",
		"GET http://2130706433/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                         "400",
		"GET http://public.example/ HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\n\r\n":            "501",
		"GET http://public.example/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                               "400",
		"GET http://public.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":                "400",
		"GET http://public.example/ HTTP/1.1\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 40) + "\r\n": "431",
		"GET http://public.example/" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n":                      "431",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03rubbish of TLS\r\n\r\n":                                              "400",
		"SSH-2.0-OpenSSH_9.2\r\n\r\n": "400",
		"GET http://public.example/last HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: Basic eDp5\r\nConnection: close\r\n\r\n": "200",
	} {
		got := w.raw(dir, head)
		if !strings.HasPrefix(got, "HTTP/1.1 "+want) && !strings.HasPrefix(got, "HTTP/1.0 "+want) {
			t.Errorf("%.80q: %.200q", head, got)
		}
		if want == "200" && !strings.Contains(got, "GET public.example/last") || strings.Contains(got, "leaked") {
			t.Errorf("%.80q: %q", head, got)
		}
	}
	if _, dialed := w.asked(); len(dialed) != 1 {
		t.Errorf("dialed %q", dialed)
	}
}

func TestSlowCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *gate.Config) { c.HeadIn = 50 * time.Millisecond })
	dir := w.open("sbx_1", open)
	for _, start := range []string{"", "CONNECT pub", "GET http://public.example/ HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		c := w.knock(dir)
		_, _ = io.WriteString(c, start)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q holds the door open", start)
		}
	}
	// A tunnel is not subject to the time a head may take.
	c := w.drip(dir, "public.example:443")
	time.Sleep(100 * time.Millisecond) // time is what this is about
	if !flows(c) {
		t.Error("a tunnel was ended like a slow caller")
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *gate.Config) { c.MaxBoxConns, c.MaxConns = 4, 6 })
	dir, neighbour := w.open("sbx_1", open), w.open("sbx_2", open)
	var held []net.Conn
	for range 4 {
		held = append(held, w.drip(dir, "public.example:443"))
	}
	if got := w.raw(dir, ""); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("the fifth: %q", got)
	}
	w.drip(neighbour, "public.example:443")
	w.drip(neighbour, "public.example:443")
	if got := w.raw(neighbour, ""); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("over the cap of all: %q", got)
	}
	for _, c := range held {
		c.Close()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c := w.knock(dir)
		_, _ = io.WriteString(c, "CONNECT public.example:443 HTTP/1.1\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
		if err == nil && resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("slots are not given back: %v %v", resp, err)
		}
	}
}

func TestQuietTunnelsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *gate.Config) { c.Idle = 100 * time.Millisecond })
	dir := w.open("sbx_1", open)
	quiet, code, _ := w.connect(dir, "public.example:443")
	if code != 200 {
		t.Fatal(code)
	}
	if _, err := io.Copy(io.Discard, quiet); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a quiet tunnel stays")
	}
}

// A program that says all at once, head and first bytes, loses none of them.
func TestEarlyBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.open("sbx_1", open)
	got := w.raw(dir, "CONNECT public.example:80 HTTP/1.1\r\nHost: x\r\n\r\nGET /early HTTP/1.0\r\nHost: early.example\r\n\r\n")
	if !strings.Contains(got, "GET early.example/early") {
		t.Errorf("%q", got)
	}
}

// corporate is a proxy the server itself goes out through.
func corporate(t *testing.T, w *world) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("me:s3cret")) {
			rw.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			_, _ = io.WriteString(rw, "far page "+r.URL.String())
			return
		}
		if strings.HasPrefix(r.Host, "forbidden") {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nhello from "+r.Host) // it speaks first
	}))
	t.Cleanup(s.Close)
	return s
}

func TestThroughTheServersOwnProxy(t *testing.T) {
	t.Parallel()
	var up *url.URL
	w := newWorld(t, func(c *gate.Config) {
		c.Upstream = func(u *url.URL) (*url.URL, error) {
			if strings.HasPrefix(u.Host, "direct.") {
				return nil, nil
			}
			return up, nil
		}
	})
	w.names["direct.example"] = []string{"93.184.216.34"}
	w.names["inside.example"] = []string{"10.0.0.1"}
	s := corporate(t, w)
	up, _ = url.Parse(s.URL)
	up.User = url.UserPassword("me", "s3cret")
	dir := w.open("sbx_1", open)
	c, code, words := w.connect(dir, "unknown.here.example:443")
	if code != 200 {
		t.Fatalf("%d %s", code, words)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello from unknown.here.example:443" {
		t.Errorf("%q, %v", b, err)
	}
	client := w.client(dir)
	if code, body := w.get(client, "http://unknown.here.example/x?y"); code != 200 || body != "far page http://unknown.here.example/x?y" {
		t.Errorf("%d %q", code, body)
	}
	for _, target := range []string{"inside.example:443", "127.0.0.1:443"} {
		if _, code, _ := w.connect(dir, target); code != 403 {
			t.Errorf("%s: %d", target, code)
		}
		if code, _ := w.get(client, "http://"+strings.TrimSuffix(target, ":443")+"/"); code != 403 {
			t.Errorf("http %s: %d", target, code)
		}
	}
	if _, code, words := w.connect(dir, "forbidden.example:443"); code != 502 || !strings.Contains(words, "403 Forbidden") || strings.Contains(words, "s3cret") {
		t.Errorf("%d %s", code, words)
	}
	w.drip(dir, "direct.example:443")
	if _, dialed := w.asked(); len(dialed) != 1 {
		t.Errorf("dialed %q", dialed)
	}
	s.Close()
	if _, code, words := w.connect(dir, "later.example:443"); code != 502 || strings.Contains(words, up.Host) || strings.Contains(words, "s3cret") {
		t.Errorf("%d %s", code, words)
	}
}

func TestRefusalsInWords(t *testing.T) {
	t.Parallel()
	for _, r := range []executors.RefusalReason{executors.NotListed, executors.PrivateAddress, executors.NoNetwork, executors.Unresolved, executors.BadPort} {
		words := executors.Refusal{Host: "x.example", Port: 25, Reason: r}.Words()
		if len(words) < 30 || words == "It was refused." || fmt.Sprint(words) == string(r) {
			t.Errorf("%s: %q", r, words)
		}
	}
}
