//go:build linux

package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// toolbox is how the programs of one process reach the tools.
type toolbox struct {
	t           *testing.T
	sock, token string
}

// withTools starts a process that stays until its terminal is read or it is stopped.
func withTools(t *testing.T, p *place, id string) toolbox {
	t.Helper()
	p.start(tty(shell(id, `printf '%s\n%s' "$PARAWORK_TOOLS" "$PARAWORK_HOOK_TOKEN" > new.`+id+` && mv new.`+id+` env.`+id+`; read x`)))
	var b []byte
	eventually(t, "the process wrote its environment", func() (ok bool) {
		var err error
		b, err = os.ReadFile(filepath.Join(p.root, "env."+id))
		return err == nil
	})
	sock, token, _ := strings.Cut(string(b), "\n")
	if sock == "" || token == "" {
		t.Fatalf("the process has no tools: %q", b)
	}
	return toolbox{t, sock, token}
}

// dial connects and sends first lines, as a program does.
func (b toolbox) dial(lines string) net.Conn {
	b.t.Helper()
	conn, err := net.Dial("unix", b.sock)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, lines); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

func hello(token string, use guest.ToolUse) string {
	b, err := json.Marshal(guest.ToolHello{Token: token, Use: use})
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// closedWithoutAnswer fails unless the guest closes the connection and sends nothing.
func closedWithoutAnswer(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	b, err := io.ReadAll(conn)
	if len(b) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("%s: got %q, %v", what, b, err)
	}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", s, err)
	}
	return s
}

func TestToolsCarryBytesOfANamedProcess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if h, err := p.Hello(within(t)); err != nil || !h.Tools {
		t.Fatalf("hello %+v, %v", h, err)
	}
	a := withTools(t, p, "a")
	long := strings.Repeat("x", 3<<20) + "\n"
	prog := a.dial(hello(a.token, guest.UseMCP) + "one\n") // the first message is in the packet of the first line
	host, opening, err := p.AcceptTools(within(t), "h")
	if err != nil || opening != (guest.ToolOpening{Process: "a", Use: guest.UseMCP}) {
		t.Fatalf("%+v, %v", opening, err)
	}
	defer host.Close()
	got, back := bufio.NewReader(host), bufio.NewReader(prog)
	if s := line(t, got); s != "one\n" {
		t.Fatalf("the host got %q", s)
	}
	if s := line(t, back); s != guest.ToolGreeting {
		t.Fatalf("before the host's bytes: %q", s)
	}
	go func() { _, _ = io.WriteString(prog, long) }()
	if s := line(t, got); s != long {
		t.Fatalf("the host got %d bytes", len(s))
	}
	go func() { _, _ = io.WriteString(host, long) }()
	if s := line(t, back); s != long {
		t.Fatalf("the program got %d bytes", len(s))
	}

	// The end of either side is the end of the other.
	_ = host.Close()
	if _, err := back.ReadByte(); err != io.EOF {
		t.Errorf("the program after the host's end: %v", err)
	}
	prog = a.dial(hello(a.token, guest.UseCommand))
	host, opening, err = p.AcceptTools(within(t), "h")
	if err != nil || opening.Use != guest.UseCommand {
		t.Fatalf("%+v, %v", opening, err)
	}
	_ = prog.Close()
	if _, err := host.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the host after the program's end: %v", err)
	}
}

func TestToolsAdmitOnlyProcessesOfTheirSandbox(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), newPlace(t)
	a, foreign := withTools(t, p, "a"), withTools(t, other, "a")
	for what, first := range map[string]string{
		"wrong token":             hello("no such token", guest.UseMCP) + "bytes\n",
		"no token":                hello("", guest.UseMCP),
		"another sandbox's token": hello(foreign.token, guest.UseMCP) + "bytes\n",
		"unknown use":             hello(a.token, "shell"),
		"no JSON":                 "GET / HTTP/1.1\r\n",
		"a first line too long":   strings.Repeat(" ", guest.MaxToolHello) + hello(a.token, guest.UseMCP),
	} {
		conn, err := net.Dial("unix", a.sock)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, first)
		closedWithoutAnswer(t, what, conn)
		_ = conn.Close()
	}
	silent := a.dial("")
	closedWithoutAnswer(t, "no first line", silent)

	// The host has been offered none of them: the first it gets is this.
	a.dial(hello(a.token, guest.UseMCP))
	host, opening, err := p.AcceptTools(within(t), "h")
	if err != nil || opening.Process != "a" {
		t.Fatalf("%+v, %v", opening, err)
	}
	_ = host.Close()
}

func TestToolsEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a, b := withTools(t, p, "a"), withTools(t, p, "b")
	progA := a.dial(hello(a.token, guest.UseMCP))
	hostA, _, err := p.AcceptTools(within(t), "h")
	if err != nil {
		t.Fatal(err)
	}
	defer hostA.Close()
	progB := b.dial(hello(b.token, guest.UseMCP))
	hostB, opening, err := p.AcceptTools(within(t), "h")
	if err != nil || opening.Process != "b" {
		t.Fatalf("%+v, %v", opening, err)
	}
	defer hostB.Close()
	waiting := a.dial(hello(a.token, guest.UseCommand)) // no host takes it
	if _, err := p.Stop(within(t), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := hostA.Read(make([]byte, 1)); err == nil {
		t.Error("the host still has the connection of an ended process")
	}
	if b, err := io.ReadAll(progA); err == nil && string(b) != guest.ToolGreeting {
		t.Errorf("the program still gets bytes: %q", b)
	}
	closedWithoutAnswer(t, "waiting for a host", waiting)
	closedWithoutAnswer(t, "the token of an ended process", a.dial(hello(a.token, guest.UseMCP)))
	if _, err := io.WriteString(hostB, "still\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(progB)
	if got := line(t, r) + line(t, r); got != guest.ToolGreeting+"still\n" {
		t.Errorf("another process got %q", got)
	}
}

func TestToolsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := withTools(t, p, "a")
	first := a.dial(hello(a.token, guest.UseMCP))
	for range guest.MaxToolConns - 1 {
		a.dial(hello(a.token, guest.UseMCP))
	}
	more, err := net.Dial("unix", a.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	_ = more.SetDeadline(time.Now().Add(time.Minute))
	closedWithoutAnswer(t, "one too many", more)

	// A slot is free again when a connection has ended; a program that has left is not shown to the host.
	_ = first.Close()
	for range guest.MaxToolConns - 1 {
		host, _, err := p.AcceptTools(within(t), "h")
		if err != nil {
			t.Fatal(err)
		}
		_ = host.Close()
	}
	eventually(t, "a connection is accepted again", func() bool {
		conn := a.dial(hello(a.token, guest.UseMCP))
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		host, _, err := p.AcceptTools(ctx, "h")
		if err != nil {
			return false
		}
		defer host.Close()
		_, err = conn.Read(make([]byte, 1))
		return err == nil
	})
}

func TestToolsMoveToANewerHost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	a := withTools(t, p, "a")
	prog := a.dial(hello(a.token, guest.UseMCP))
	first, _, err := p.AcceptTools(within(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	over := make(chan error, 1)
	go func() {
		_, _, err := p.AcceptTools(within(t), "first")
		over <- err
	}()
	newer := p.connect(testToken)
	type accepted struct {
		conn net.Conn
		err  error
	}
	got := make(chan accepted, 1)
	go func() {
		conn, _, err := newer.AcceptTools(within(t), "second")
		got <- accepted{conn, err}
	}()
	if err := <-over; err == nil {
		t.Error("an older host still waits for connections")
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("an older host keeps its connection")
	}
	if b, _ := io.ReadAll(prog); !bytes.Equal(b, []byte(guest.ToolGreeting)) {
		t.Errorf("the program got %q", b)
	}
	prog = a.dial(hello(a.token, guest.UseMCP))
	second := <-got
	if second.err != nil {
		t.Fatal(second.err)
	}
	defer second.conn.Close()
	fmt.Fprintln(second.conn, "from the second")
	r := bufio.NewReader(prog)
	if s := line(t, r) + line(t, r); s != guest.ToolGreeting+"from the second\n" {
		t.Errorf("the program got %q", s)
	}
	if _, _, err := p.AcceptTools(t.Context(), strings.Repeat("x", guest.MaxHostName+1)); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name without end: %v", err)
	}
}

// The command line is found by a program of the process, however it starts its shell.
func TestTheCommandLineIsFound(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("there is no bash")
	}
	p := newPlace(t)
	// A profile that sets PATH anew, as Debian's /etc/profile does.
	if err := os.WriteFile(filepath.Join(p.root, ".bash_profile"), []byte("PATH=/usr/bin:/bin\nexport PATH\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(tty(guest.ProcessSpec{ID: "a", Argv: []string{"/bin/bash", "-c", `export GUEST_TEST_ROLE=tool HOME=$PWD; parawork one > new.one; bash -lc 'parawork two "a b"' > new.two; bash -lc 'bd ready' > new.beads; bash -lc 'echo $PATH' > new.path
		sh -c 'parawork three' > new.three; "$PARAWORK_GUEST" tool four > new.four; echo ready > new.end && mv new.end end; read x`}}))
	eventually(t, "all were run", func() bool { _, err := os.Stat(filepath.Join(p.root, "end")); return err == nil })
	for name, want := range map[string]string{"one": "[one]\n", "two": "[two a b]\n", "beads": "[ready]\n", "path": "/usr/bin:/bin\n", "three": "[three]\n", "four": "[tool four]\n"} {
		if b, err := os.ReadFile(filepath.Join(p.root, "new."+name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	// Only processes that have the token get it.
	p.start(shell("b", `echo "$PATH"; command -v parawork; env | grep -c -e PARAWORK_TOOLS -e BASH_FUNC`))
	p.wait("b")
	if out := p.all("b", guest.Stdout); strings.Contains(out, p.dir) || !strings.HasSuffix(out, "\n0\n") {
		t.Errorf("a process without a token: %q", out)
	}
}
