package sessions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/toolrelay"
)

// toolsDouble stands for the tools: it answers each line with the session that it serves and the line.
type toolsDouble struct{}

func (toolsDouble) ServeTools(_ context.Context, s toolrelay.Session, use guest.ToolUse, conn net.Conn) {
	in := bufio.NewScanner(conn)
	for in.Scan() {
		_, _ = fmt.Fprintf(conn, "%s|%s|%s|%s|%s|%s\n", s.ID, s.TeamID, s.WorkspaceID, s.UserID, s.Agent, use+"|"+guest.ToolUse(in.Text()))
	}
}

// program is a program of a sandbox that has opened a connection to the tools.
type program struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// connects opens a connection as a program of the sandbox does, with the environment of its session.
func connects(t *testing.T, env map[string]string, use guest.ToolUse) *program {
	t.Helper()
	if env[guest.EnvTools] == "" || env[guest.EnvHookToken] == "" {
		t.Fatalf("the agent has no way to the tools: %v", env)
	}
	conn, err := net.Dial("unix", env[guest.EnvTools])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	hello, err := json.Marshal(guest.ToolHello{Token: env[guest.EnvHookToken], Use: use})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		t.Fatal(err)
	}
	return &program{t, conn, bufio.NewReader(conn)}
}

// accepted waits until the server has the connection.
func (p *program) accepted() *program {
	p.t.Helper()
	if line := p.read(); line != guest.ToolGreeting {
		p.t.Fatalf("greeted with %q", line)
	}
	return p
}

func (p *program) read() string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading: %v", err)
	}
	return line
}

func (p *program) ask(line string) string {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(p.read())
}

// ends waits until the connection is closed.
func (p *program) ends() {
	p.t.Helper()
	if b, err := io.ReadAll(p.in); errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("the connection stays open; it had %q", b)
	}
}

// An agent reaches the tools as its own session, over a restart of the server and until the session ends; with a token of another
// sandbox nobody does.
func TestAgentsReachTheTools(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.ToolServer = toolsDouble{} }
	h.knobs.Self = "/bin/true"
	h.settings["mine"] = agents.Settings{Enabled: true, Command: "sh", DefaultArgs: []string{"-c", `{ env; echo THE=END; } >env-$0.tmp && mv env-$0.tmp env-$0; exec sleep 1000`}}
	s := h.start()
	first := s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"1"}})
	second := s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"2"}})
	one, two := h.environ(t, "env-1"), h.environ(t, "env-2")
	says := func(row sessions.Session, use guest.ToolUse, line string) string {
		return strings.Join([]string{row.ID, h.ws.TeamID, h.ws.ID, h.actor.User.ID, "mine", string(use), line}, "|")
	}
	open := connects(t, one, guest.UseMCP).accepted()
	if got, want := open.ask("hello"), says(first, guest.UseMCP, "hello"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := connects(t, two, guest.UseCommand).accepted().ask("x"), says(second, guest.UseCommand, "x"); got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// Another sandbox does not know the token.
	other := h.addWorkspace("other")
	if _, err := s.Start(t.Context(), h.actor, other.ID, sessions.StartRequest{Agent: "mine", Argv: []string{"3"}}); err != nil {
		t.Fatal(err)
	}
	var foreign map[string]string
	func() {
		mine := h.ws
		defer func() { h.ws = mine }()
		h.ws = other
		foreign = h.environ(t, "env-3")
	}()
	mixed := map[string]string{guest.EnvTools: foreign[guest.EnvTools], guest.EnvHookToken: one[guest.EnvHookToken]}
	if b, err := io.ReadAll(connects(t, mixed, guest.UseMCP).in); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a token of another sandbox: %q, %v", b, err)
	}

	// A process that is no session is refused, with the reason.
	place, ok := s.manager.Live(h.ws.ID)
	if !ok {
		t.Fatal("no sandbox")
	}
	if _, err := place.Guest.Start(t.Context(), guest.ProcessSpec{ID: "no-session", Argv: []string{"sh", "-c", `{ env; echo THE=END; } >env-4.tmp && mv env-4.tmp env-4; exec sleep 1000`}, Cwd: h.ws.Path, Tty: true, Size: guest.Size{Cols: 80, Rows: 24}}); err != nil {
		t.Fatal(err)
	}
	var refused guest.ToolAnswer
	line := connects(t, h.environ(t, "env-4"), guest.UseCommand).accepted().read()
	if err := json.Unmarshal([]byte(line), &refused); err != nil || refused.Exit != 1 || !strings.HasPrefix(refused.Stderr, "tool_session_unknown: ") {
		t.Errorf("%+v, %v", refused, err)
	}
	connects(t, h.environ(t, "env-4"), guest.UseMCP).accepted().ends()

	// The end of the server cuts what is open. What connects meanwhile waits for the next server, which knows the sessions.
	s.end()
	open.ends()
	waiting := connects(t, one, guest.UseMCP)
	s = h.start()
	if got, want := waiting.accepted().ask("again"), says(first, guest.UseMCP, "again"); got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// It ends with the session, and other sessions go on.
	stays := connects(t, two, guest.UseMCP).accepted()
	if _, err := s.Stop(t.Context(), h.actor, first.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	s.ended(t, first.ID)
	waiting.ends()
	if got, want := stays.ask("still"), says(second, guest.UseMCP, "still"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// One session cannot use up the connections of the others in its sandbox.
func TestConnectionsOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.tune = func(c *sessions.Config) { c.ToolServer = toolsDouble{} }
	h.knobs.Self = "/bin/true"
	h.settings["mine"] = agents.Settings{Enabled: true, Command: "sh", DefaultArgs: []string{"-c", `{ env; echo THE=END; } >env-$0.tmp && mv env-$0.tmp env-$0; exec sleep 1000`}}
	s := h.start()
	s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"1"}})
	second := s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"2"}})
	one := h.environ(t, "env-1")
	var open []*program
	for range 32 {
		p := connects(t, one, guest.UseMCP).accepted()
		p.ask("x") // it counts from when the server serves it, which may be after the guest's greeting
		open = append(open, p)
	}
	var refused guest.ToolAnswer
	if err := json.Unmarshal([]byte(connects(t, one, guest.UseCommand).accepted().read()), &refused); err != nil || !strings.HasPrefix(refused.Stderr, "tool_connections: ") {
		t.Errorf("%+v, %v", refused, err)
	}
	if got := connects(t, h.environ(t, "env-2"), guest.UseMCP).accepted().ask("x"); !strings.HasPrefix(got, second.ID+"|") {
		t.Errorf("another session: %s", got)
	}
	_ = open[0].conn.Close()
	eventually(t, "a closed connection makes room for another", func() bool {
		p := connects(t, one, guest.UseMCP).accepted()
		_, _ = io.WriteString(p.conn, "x\n")
		line, err := p.in.ReadString('\n')
		return err == nil && strings.HasSuffix(line, "|x\n")
	})
}
