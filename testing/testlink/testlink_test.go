package testlink_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testlink"
)

// The test program is also the two programs at the ends: a server that sums what it is sent, and a client that sends.
func TestMain(m *testing.M) {
	switch os.Getenv("TESTLINK_ROLE") {
	case "server":
		serve(os.Getenv("TESTLINK_AT"))
	case "client":
		send(strings.TrimPrefix(os.Getenv("TESTLINK_AT"), "http://"))
	default:
		os.Exit(m.Run())
	}
}

func serve(at string) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			h := sha256.New()
			n, err := io.Copy(h, c)
			fmt.Fprintf(c, "%d %s %v %s\n", n, hex.EncodeToString(h.Sum(nil)), err, c.RemoteAddr())
		}()
	}
}

const size = 1 << 20

func send(to string) {
	for { // told by lines: send, end
		var word string
		if _, err := fmt.Scanln(&word); err != nil {
			return
		}
		c, err := net.Dial("tcp", to)
		if err != nil {
			fmt.Println(err)
			continue
		}
		_, _ = c.Write(make([]byte, size))
		_ = c.(*net.TCPConn).CloseWrite()
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Println("got", strings.TrimSpace(line))
		_ = c.Close()
	}
}

type program struct {
	in    io.WriteCloser
	lines *bufio.Reader
}

func start(t *testing.T, l *testlink.Link, side testlink.Side, role, at string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTLINK_ROLE="+role, "TESTLINK_AT="+at)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(side, cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &program{in: in, lines: bufio.NewReader(out)}
}

func (p *program) line(t *testing.T) string {
	t.Helper()
	s, err := p.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

func TestWhatTCPIsGoodFor(t *testing.T) {
	t.Parallel()
	l := testlink.New(t)
	server := start(t, l, testlink.Server, "server", l.Listen)
	if got := server.line(t); got != "ready" {
		t.Fatal(got)
	}
	client := start(t, l, testlink.Machine, "client", l.URL)
	sum := sha256.Sum256(make([]byte, size))
	want := fmt.Sprintf("got %d %s <nil> ", size, hex.EncodeToString(sum[:]))
	for _, f := range []testlink.Faults{
		{},
		{Delay: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.02, Duplicate: 0.05},
	} {
		l.Set(f)
		_, _ = io.WriteString(client.in, "send\n")
		if got := client.line(t); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %s", f, got)
		}
	}
	if !l.Packets {
		return
	}
	l.Set(testlink.Faults{})
	l.MoveMachine()
	_, _ = io.WriteString(client.in, "send\n")
	if got := client.line(t); !strings.HasPrefix(got, want+"10.77.0.3:") {
		t.Errorf("after a move: %s", got)
	}
}

// While the network is cut nothing arrives and neither end is notified; afterwards TCP retransmits what it has buffered.
func TestACut(t *testing.T) {
	t.Parallel()
	l := testlink.New(t)
	if !l.Packets {
		t.Skip("connections of the loopback do not outlive a cut")
	}
	server := start(t, l, testlink.Server, "server", l.Listen)
	if got := server.line(t); got != "ready" {
		t.Fatal(got)
	}
	client := start(t, l, testlink.Machine, "client", l.URL)
	l.Set(testlink.Faults{Cut: true})
	_, _ = io.WriteString(client.in, "send\n")
	got := make(chan string, 1)
	go func() { s, _ := client.lines.ReadString('\n'); got <- s }()
	select {
	case s := <-got:
		t.Fatalf("through a cut network came %q", s)
	case <-time.After(200 * time.Millisecond): // nothing to wait for: that nothing happens is the point
	}
	l.Set(testlink.Faults{})
	if s := <-got; !strings.HasPrefix(s, fmt.Sprintf("got %d ", size)) {
		t.Errorf("after the cut: %q", s)
	}
	// The test itself reaches the server past the network.
	l.Set(testlink.Faults{Cut: true})
	c, err := net.Dial("tcp", strings.TrimPrefix(l.Local, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "x")
	_ = c.(*net.TCPConn).CloseWrite()
	if s, _ := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(s, "1 ") {
		t.Errorf("past the network: %q", s)
	}
}
