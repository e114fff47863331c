package toolcmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/toolcmd"
)

// shell is where commands run, with the guest's socket at which a test plays the server.
type shell struct {
	t   *testing.T
	l   net.Listener
	env map[string]string
	in  io.Reader
}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir, err := os.MkdirTemp("", "toolcmd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &shell{t: t, l: l, env: map[string]string{guest.EnvTools: sock, guest.EnvHookToken: "the token"}, in: strings.NewReader("")}
}

// ended is a command that has ended.
type ended struct {
	code           int
	stdout, stderr string
}

// start runs a command.
func (s *shell) start(ctx context.Context, argv ...string) <-chan ended {
	got := make(chan ended, 1)
	go func() {
		var out, errs bytes.Buffer
		code := toolcmd.Run(ctx, argv, toolcmd.Config{Env: func(name string) string { return s.env[name] }, Dir: "/work/dir", In: s.in, Stdout: &out, Stderr: &errs})
		got <- ended{code, out.String(), errs.String()}
	}()
	return got
}

// accept accepts the next command; it returns the connection and what was sent.
func (s *shell) accept() (net.Conn, guest.ToolCommand) {
	s.t.Helper()
	conn, err := s.l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	from := bufio.NewReader(conn)
	first, err := from.ReadBytes('\n')
	var hello guest.ToolHello
	if err != nil || json.Unmarshal(first, &hello) != nil || hello != (guest.ToolHello{Token: "the token", Use: guest.UseCommand}) {
		s.t.Fatalf("%s, %v", first, err)
	}
	if from.Buffered() > 0 {
		s.t.Error("the command was sent before a server accepted")
	}
	if _, err := io.WriteString(conn, guest.ToolGreeting); err != nil {
		s.t.Fatal(err)
	}
	second, err := from.ReadBytes('\n')
	var c guest.ToolCommand
	if err != nil || json.Unmarshal(second, &c) != nil {
		s.t.Fatalf("%.300s, %v", second, err)
	}
	return conn, c
}

func wait(t *testing.T, got <-chan ended) ended {
	t.Helper()
	select {
	case e := <-got:
		return e
	case <-time.After(time.Minute):
		t.Fatal("the command does not end")
		return ended{}
	}
}

func answer(t *testing.T, conn net.Conn, a guest.ToolAnswer) {
	t.Helper()
	if err := json.NewEncoder(conn).Encode(a); err != nil {
		t.Fatal(err)
	}
}

func TestACommandIsAnswered(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	for _, want := range []guest.ToolAnswer{{Stdout: "out\n"}, {Exit: 2, Stderr: "usage\n"}, {Exit: 1, Stdout: strings.Repeat("é", 4<<20), Stderr: "e"}} {
		got := s.start(t.Context(), "task", "add", "a b", "--json")
		conn, c := s.accept()
		if !reflect.DeepEqual(c, guest.ToolCommand{Argv: []string{"task", "add", "a b", "--json"}, Dir: "/work/dir"}) {
			t.Fatalf("%+v", c)
		}
		answer(t, conn, want)
		if e := wait(t, got); e != (ended{want.Exit, want.Stdout, want.Stderr}) {
			t.Errorf("exit %d, %.100q, %.100q", e.code, e.stdout, e.stderr)
		}
	}
}

func TestStandardInputIsReadOnRequest(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	blocked, w := io.Pipe() // nobody writes it
	t.Cleanup(func() { _ = w.Close() })
	s.in = blocked
	got := s.start(t.Context(), "note", "add", "--file=-", "--", "text")
	conn, c := s.accept()
	if c.Stdin != nil {
		t.Errorf("%q", c.Stdin)
	}
	answer(t, conn, guest.ToolAnswer{})
	wait(t, got)

	most := strings.Repeat("x", guest.MaxToolInput)
	s.in = strings.NewReader(most)
	got = s.start(t.Context(), "note", "add", "-")
	conn, c = s.accept()
	if string(c.Stdin) != most {
		t.Errorf("%d bytes", len(c.Stdin))
	}
	answer(t, conn, guest.ToolAnswer{})
	if e := wait(t, got); e.code != 0 {
		t.Errorf("%+v", e)
	}
	s.in = strings.NewReader(most + "x")
	if e := wait(t, s.start(t.Context(), "note", "add", "-")); e.code != 1 || !strings.Contains(e.stderr, "1048576 bytes") {
		t.Errorf("%+v", e)
	}
	if e := wait(t, s.start(t.Context(), "note", strings.Repeat("x", 1<<20))); e.code != 1 || !strings.Contains(e.stderr, "arguments") {
		t.Errorf("%d %.300q", e.code, e.stderr)
	}
}

func TestACommandIsCancelled(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := s.start(ctx, "run", "sleep")
	conn, _ := s.accept()
	cancel()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the server is not told: %v", err)
	}
	if e := wait(t, got); e != (ended{code: 130}) {
		t.Errorf("%+v", e)
	}
	blocked, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	s.in = blocked
	ctx, cancel = context.WithCancel(t.Context())
	got = s.start(ctx, "note", "-")
	cancel()
	if e := wait(t, got); e != (ended{code: 130}) {
		t.Errorf("while the input is read: %+v", e)
	}
}

func TestErrorsOfTheCommandLineItself(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	check := func(what string, e ended, code, words string) {
		t.Helper()
		var p struct{ Code, Message string }
		if e.code != 1 || e.stdout != "" || json.Unmarshal([]byte(e.stderr), &p) != nil || p.Code != code || !strings.Contains(p.Message, words) {
			t.Errorf("%s: %+v", what, e)
		}
	}
	got := s.start(t.Context(), "x", "--json")
	conn, err := s.l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // the guest refuses it, or gives up
	check("no server", wait(t, got), "server_away", "nothing was done")

	got = s.start(t.Context(), "x", "--json")
	conn, _ = s.accept()
	_ = conn.Close()
	check("a server that dies", wait(t, got), "command_cut", "may have been done")

	got = s.start(t.Context(), "x", "--json")
	conn, _ = s.accept()
	_, _ = io.WriteString(conn, "{\"exit\":\"x\"}\n")
	check("another answer", wait(t, got), "answer_invalid", "cannot be read")

	got = s.start(t.Context(), "x", "--json")
	conn, _ = s.accept()
	go func() { answer(t, conn, guest.ToolAnswer{Stdout: strings.Repeat("x", guest.MaxToolOutput)}) }()
	check("an answer without end", wait(t, got), "answer_too_large", "was done")

	_ = s.l.Close()
	check("no socket", wait(t, s.start(t.Context(), "x", "--json")), "server_away", "nothing was done")
	if e := wait(t, s.start(t.Context(), "x")); e.code != 1 || !strings.HasPrefix(e.stderr, "parawork: The Parawork server does not answer") || strings.Count(e.stderr, "\n") != 1 {
		t.Errorf("%+v", e)
	}
	s.env = nil
	check("no guest", wait(t, s.start(t.Context(), "x", "--json")), "no_tools", guest.EnvTools)
}
