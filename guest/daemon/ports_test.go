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
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
			t.Errorf("%s: the program did not learn that the connection ended", name)
		}
		far.Close()
	}
}

// deafPort is a port at which nobody listens, and nobody else will during the test.
func deafPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return at.(*unix.SockaddrInet4).Port
}

func TestPortsThatAreNot(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	closed := deafPort(t)
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

// A sandbox that shares the machine's network shows what its own programs serve, and nothing else that listens there.
func TestPortsOfTheMachineAreNotReached(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_ = p.cmd.Process.Kill()
	<-p.done
	p.env = []string{"GUEST_SHARED_NET=1"}
	p.boot()
	p.Client = p.connect(testToken)
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address) // a service of the machine's: this test is no process of the sandbox
		if err != nil {
			t.Logf("not tried at %s: %v", address, err)
			continue
		}
		defer l.Close()
		for name, c := range portClients(t, p) {
			if conn, err := c.DialPort(t.Context(), portOf(l)); fault.CodeOf(err) != "port_closed" {
				t.Errorf("%s, %s: the machine's own service was reached: %v, %v", name, address, conn, err)
			}
		}
	}
	proc := p.start(program("listens", "listen"))
	var port int
	eventually(t, "the program's port in the figures", func() bool {
		s, err := p.Stats(within(t))
		if err == nil && len(s.Ports) == 1 {
			port = s.Ports[0]
		}
		return port != 0
	})
	for name, c := range portClients(t, p) {
		for range 2 { // the second time it is known
			conn, err := c.DialPort(t.Context(), port)
			if err != nil {
				t.Fatalf("%s: a program of the sandbox was not reached: %v", name, err)
			}
			_ = conn.Close()
		}
	}
	if _, err := p.Stop(within(t), proc.ID, 0); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Skip("the port was taken by somebody else meanwhile:", err)
	}
	defer l.Close()
	if _, err := p.DialPort(t.Context(), port); fault.CodeOf(err) != "port_closed" {
		t.Errorf("a service of the machine's that took the port over was reached: %v", err)
	}
}
