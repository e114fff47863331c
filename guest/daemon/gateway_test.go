package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// gatewayHost is a server that takes connections of the sandbox's programs.
type gatewayHost struct {
	c     *client.Client
	name  string
	ctx   context.Context
	conns chan net.Conn
	over  chan error
}

func newGatewayHost(t *testing.T, c *client.Client, name string, h http.HandlerFunc) *gatewayHost {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &gatewayHost{c: c, name: name, ctx: ctx, conns: make(chan net.Conn), over: make(chan error, 1)}
	srv := &http.Server{Handler: h}
	asked, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			conn, err := c.AcceptGateway(ctx, name)
			if err != nil {
				g.over <- err
				return
			}
			select {
			case g.conns <- conn:
			case <-ctx.Done():
				_ = conn.Close()
			}
		}
	}()
	go func() { defer close(served); _ = srv.Serve(g) }()
	t.Cleanup(func() {
		cancel()
		_ = srv.Close()
		<-asked
		<-served
	})
	return g
}

func (g *gatewayHost) Accept() (net.Conn, error) {
	select {
	case conn := <-g.conns:
		return conn, nil
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}
func (g *gatewayHost) Close() error   { return nil }
func (g *gatewayHost) Addr() net.Addr { return &net.UnixAddr{} }

// gatewayURL is where the sandbox's programs find the gateway.
func gatewayURL(t *testing.T, p *place) string {
	t.Helper()
	h, err := p.Hello(t.Context())
	if err != nil || h.Gateway == 0 {
		t.Fatalf("the guest offers no gateway: %+v, %v", h, err)
	}
	return "http://127.0.0.1:" + strconv.Itoa(h.Gateway)
}

// gatewayClient is a program inside, with connections of its own.
func gatewayClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func TestGatewayCarriesRequestsAndStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	url := gatewayURL(t, p)
	step, left := make(chan struct{}), make(chan struct{})
	newGatewayHost(t, p.Client, "one", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sum":
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "%s %x", r.Header.Get("X-Api-Key"), sha256.Sum256(b))
		case "/much":
			_, _ = w.Write(bytes.Repeat([]byte("m"), 8<<20))
		case "/stream":
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "chunk %d\n", i)
				_ = http.NewResponseController(w).Flush()
				<-step
			}
		case "/gone":
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // the program has left
			close(left)
		}
	})
	c := gatewayClient(t)
	sent := bytes.Repeat([]byte("a question "), 1<<18)
	for range 3 { // over one connection
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/sum", bytes.NewReader(sent))
		req.Header.Set("X-Api-Key", "k")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := fmt.Sprintf("k %x", sha256.Sum256(sent)); err != nil || string(b) != want {
			t.Fatalf("%q, %v; want %q", b, err, want)
		}
	}
	resp, err := c.Get(url + "/much")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil || n != 8<<20 {
		t.Errorf("%d bytes came: %v", n, err)
	}

	// A stream comes as it is written, and a firehose beside it changes nothing.
	if resp, err = c.Get(url + "/stream"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("chunk %d", i) {
			t.Fatalf("chunk %d: %q, %v", i, lines.Text(), lines.Err())
		}
		step <- struct{}{}
	}
	_ = resp.Body.Close()

	// Who leaves is known to have left.
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", url+"/gone", nil)
	if resp, err = c.Do(req); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	leave()
	_ = resp.Body.Close()
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the host did not learn that the program left")
	}
}

func TestGatewayWaitsForAServerThatRestarts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	url := gatewayURL(t, p)
	first := newGatewayHost(t, p.Client, "first", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "first") })
	say := func() (string, error) {
		c := gatewayClient(t)
		c.Transport.(*http.Transport).DisableKeepAlives = true
		resp, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if got, err := say(); got != "first" {
		t.Fatal(got, err)
	}
	p.Client.Close() // as a server that is killed
	<-first.over
	answered := make(chan string, 1)
	go func() {
		got, err := say()
		answered <- fmt.Sprint(got, err)
	}()
	second := newGatewayHost(t, p.connect(testToken), "second", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "second") })
	select {
	case got := <-answered:
		if got != "second<nil>" {
			t.Error(got)
		}
	case <-time.After(time.Minute):
		t.Fatal("a request did not wait for the server")
	}

	// A server whose pipe still stands is replaced, too.
	newGatewayHost(t, p.connect(testToken), "third", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "third") })
	select {
	case <-second.over:
	case <-time.After(time.Minute):
		t.Fatal("an older server still waits for connections")
	}
	if got, err := say(); got != "third" {
		t.Error(got, err)
	}
}

func TestGatewayIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	addr := strings.TrimPrefix(gatewayURL(t, p), "http://")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range guest.MaxGatewayConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	more, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	_ = more.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := more.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one connection too many is kept: %v", err)
	}
	if _, err := p.AcceptGateway(t.Context(), strings.Repeat("x", guest.MaxHostName+1)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name without end: %v", err)
	}
}
