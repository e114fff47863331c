package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

// portClients are both ways a stream of a port travels.
func portClients(t *testing.T, p *place) map[string]*client.Client {
	one := client.New(client.Config{Dial: p.dial, Token: testToken, SandboxID: p.id, OnePipe: true})
	t.Cleanup(one.Close)
	return map[string]*client.Client{"own pipe": p.Client, "common pipe": one}
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func TestPorts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "%s %s", r.Host, r.URL.Path) }))
	t.Cleanup(site.Close)
	for name, c := range portClients(t, p) {
		t.Run(name, func(t *testing.T) {
			// A page, as a preview asks for it.
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.DialPort(ctx, portOf(site.Listener))
			}}
			resp, err := (&http.Client{Transport: transport}).Get("http://preview.example/page")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(b) != "preview.example /page" {
				t.Errorf("%q, %v", b, err)
			}
			transport.CloseIdleConnections()

			// Much, both ways, and the end of one direction before the other's.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() { // ends with the listener
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						all, _ := io.ReadAll(conn)
						_, _ = conn.Write(bytes.ToUpper(all))
					}()
				}
			}()
			conn, err := c.DialPort(t.Context(), portOf(l))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			sent := bytes.Repeat([]byte("much "), 1<<20)
			go func() {
				_, _ = conn.Write(sent)
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, bytes.ToUpper(sent)) {
				t.Errorf("%d bytes of %d came back: %v", len(got), len(sent), err)
			}
			if conn.RemoteAddr().Network() != "sandbox" {
				t.Errorf("%v", conn.RemoteAddr())
			}
		})
	}
}

func TestAHostThatHangsUpFreesTheProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, err := net.Listen("tcp", "[::1]:0") // a program may listen at either loopback
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer l.Close()
	for name, c := range portClients(t, p) {
		ctx, cancel := context.WithCancel(t.Context())
		conn, err := c.DialPort(ctx, portOf(l))
		if err != nil {
			t.Fatal(name, err)
		}
		cancel() // bounds the dialing alone
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "still there"); err != nil {
			t.Fatal(name, err)
		}
		b := make([]byte, 11)
		if _, err := io.ReadFull(far, b); err != nil || string(b) != "still there" {
			t.Fatal(name, string(b), err)
		}
		conn.Close()
		_ = far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(far); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the program is not told", name)
		}
		far.Close()
	}
}

func TestPortsThatAreNot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := portOf(l)
	l.Close()
	for name, c := range portClients(t, p) {
		for port, code := range map[int]string{0: "invalid_port", 65536: "invalid_port", -1: "invalid_port", closed: "port_closed"} {
			if _, err := c.DialPort(t.Context(), port); fault.CodeOf(err) != code {
				t.Errorf("%s %d: %v", name, port, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.DialPort(ctx, closed); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
