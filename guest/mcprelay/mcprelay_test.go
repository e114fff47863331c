package mcprelay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/mcprelay"
)

// agent is an agent with its relay, and the guest's socket at which a test plays the server.
type agent struct {
	t      *testing.T
	l      net.Listener
	sock   string
	in     *io.PipeWriter
	out    *bufio.Reader
	parent atomic.Int64
	end    context.CancelFunc
	ended  chan error
}

func newAgent(t *testing.T, change func(*mcprelay.Config)) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &agent{t: t, sock: filepath.Join(dir, "s"), ended: make(chan error, 1)}
	a.listen()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a.in, a.out = inW, bufio.NewReaderSize(outR, 1<<20)
	env := map[string]string{guest.EnvTools: a.sock, guest.EnvHookToken: "the token"}
	cfg := mcprelay.Config{Env: func(name string) string { return env[name] }, In: inR, Out: outW, Parent: func() int { return int(a.parent.Load()) },
		ParentEvery: time.Millisecond, RetryFirst: time.Millisecond, RetryMost: 10 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.end = cancel
	go func() { a.ended <- mcprelay.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		_ = inW.Close()
		_ = outR.Close()
	})
	return a
}

func (a *agent) listen() {
	a.t.Helper()
	_ = os.Remove(a.sock)
	l, err := net.Listen("unix", a.sock)
	if err != nil {
		a.t.Fatal(err)
	}
	a.l = l
	a.t.Cleanup(func() { _ = l.Close() })
}

func (a *agent) send(lines ...string) {
	a.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(a.in, l+"\n"); err != nil {
			a.t.Fatal(err)
		}
	}
}

// reply is what an agent reads.
type reply struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    struct {
			Code      string
			MayBeDone bool `json:"may_be_done"`
		}
	}
}

func (a *agent) next() reply {
	a.t.Helper()
	got := make(chan string, 1)
	go func() {
		s, _ := a.out.ReadString('\n')
		got <- s
	}()
	select {
	case s := <-got:
		var r reply
		if err := json.Unmarshal([]byte(s), &r); err != nil {
			a.t.Fatalf("the agent got %.200q: %v", s, err)
		}
		return r
	case <-time.After(time.Minute):
		a.t.Fatal("the agent got nothing")
		return reply{}
	}
}

func (a *agent) wantResult(id, result string) {
	a.t.Helper()
	if r := a.next(); string(r.ID) != id || string(r.Result) != result {
		a.t.Fatalf("got %s %s, error %+v; want %s %s", r.ID, r.Result, r.Error, id, result)
	}
}

func (a *agent) wantError(id, code string, maybe bool) {
	a.t.Helper()
	r := a.next()
	if string(r.ID) != id || r.Error == nil || r.Error.Data.Code != code || r.Error.Data.MayBeDone != maybe || r.Error.Message == "" || r.Error.Code >= 0 {
		a.t.Fatalf("got %s, error %+v; want %s %s", r.ID, r.Error, id, code)
	}
}

func (a *agent) wantEnd() {
	a.t.Helper()
	select {
	case err := <-a.ended:
		if err != nil {
			a.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		a.t.Fatal("the relay does not end")
	}
}

// server is a connection that a server has accepted.
type server struct {
	t *testing.T
	net.Conn
	from *bufio.Reader
}

// offered is a connection that no server has accepted yet.
func (a *agent) offered() *server {
	a.t.Helper()
	conn, err := a.l.Accept()
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	s := &server{a.t, conn, bufio.NewReaderSize(conn, 1<<20)}
	var hello guest.ToolHello
	if err := json.Unmarshal([]byte(s.line()), &hello); err != nil || hello != (guest.ToolHello{Token: "the token", Use: guest.UseMCP}) {
		a.t.Fatalf("hello %+v, %v", hello, err)
	}
	return s
}

func (a *agent) accepted() *server {
	a.t.Helper()
	s := a.offered()
	s.say("")
	return s
}

func (s *server) line() string {
	s.t.Helper()
	l, err := s.from.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server got %q, %v", l, err)
	}
	return strings.TrimSuffix(l, "\n")
}

func (s *server) want(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		if got := s.line(); got != l {
			s.t.Fatalf("the server got %.300q, want %.300q", got, l)
		}
	}
}

func (s *server) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) answer(id, result string) {
	s.t.Helper()
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	versions    = `{"protocolVersion":"2025-06-18"}`
)

func toolCall(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"run_command"}}`
}

func TestMessagesPassBothWays(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil)
	s := a.accepted()
	batch := `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/x"}]`
	a.send(initialize, "", batch, toolCall(`"a-1"`))
	s.want(initialize, batch, toolCall(`"a-1"`))
	s.answer("0", versions)
	s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
	s.say("no JSON: it must not reach the agent")
	s.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	a.wantResult("0", versions)
	if r := a.next(); r.Method != "notifications/message" {
		t.Errorf("%+v", r)
	}
	if r := a.next(); r.Method != "ping" || string(r.ID) != "7" {
		t.Errorf("%+v", r)
	}
	a.send(`{"jsonrpc":"2.0","id":7,"result":{}}`, "not JSON")
	s.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	a.wantError("null", "message_invalid", false)
	s.answer(`"a-1"`, `{"content":[]}`)
	a.wantResult(`"a-1"`, `{"content":[]}`)
}

func TestAServerThatRestarts(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil)
	s := a.accepted()
	a.send(initialize)
	s.want(initialize)
	s.answer("0", versions)
	a.wantResult("0", versions)
	a.send(initialized, toolCall("1"), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	s.want(initialized, toolCall("1"), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	_ = s.Close() // the server dies with a call under way
	a.wantError("1", "call_cut", true)

	waiting := a.offered() // no server yet: nothing of what the agent sends now has left
	a.send(toolCall("3"), toolCall("4"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`, `{"jsonrpc":"2.0","method":"notifications/progress"}`)
	_ = waiting.Close() // the guest gave up
	s = a.accepted()
	s.want(initialize)
	s.answer("0", `{"protocolVersion":"2025-06-18","serverInfo":{"name":"new"}}`) // the agent does not see it
	s.want(initialized, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, toolCall("3"))
	s.answer("2", `{"tools":[]}`)
	a.wantResult("2", `{"tools":[]}`)
	s.answer("3", `{"content":[]}`)
	a.wantResult("3", `{"content":[]}`)

	// A server that refuses the session is asked again.
	_ = s.Close()
	s = a.accepted()
	s.want(initialize)
	s.say(`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}`)
	s = a.accepted()
	s.want(initialize)
	s.answer("0", versions)
	s.want(initialized)
}

// An agent whose initialize was under way gets its one answer from the next server.
func TestARestartInTheMiddleOfInitialize(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil)
	s := a.accepted()
	a.send(initialize)
	s.want(initialize)
	_ = s.Close()
	s = a.accepted()
	s.want(initialize)
	s.answer("0", versions)
	a.wantResult("0", versions)
	a.send(initialized)
	s.want(initialized)
}

// Without initialize, as in the protocol 2026-07-28, there is nothing to repeat.
func TestAStatelessSession(t *testing.T) {
	t.Parallel()
	const discover = `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{}}}`
	a := newAgent(t, nil)
	s := a.accepted()
	a.send(discover)
	s.want(discover)
	s.answer(`"d"`, "{}")
	a.wantResult(`"d"`, "{}")
	_ = s.Close()
	s = a.accepted()
	a.send(toolCall("1"))
	s.want(toolCall("1"))
	batch := "[" + toolCall("2") + "," + toolCall("3") + "]"
	a.send(batch)
	s.want(batch)
	_ = s.Close()
	for _, id := range []string{"1", "2", "3"} {
		a.wantError(id, "call_cut", true)
	}
}

func TestNoServerForLong(t *testing.T) {
	t.Parallel()
	a := newAgent(t, func(c *mcprelay.Config) { c.Patience = 50 * time.Millisecond })
	a.send(initialize)
	a.wantError("0", "server_away", false)
	a.send(toolCall("1"))
	a.wantError("1", "server_away", false)
	s := a.accepted() // it has kept trying
	s.say(`{"jsonrpc":"2.0","method":"notifications/message"}`)
	if r := a.next(); r.Method != "notifications/message" {
		t.Fatalf("%+v", r)
	}
	a.send(initialize)
	s.want(initialize)
	s.answer("0", versions)
	a.wantResult("0", versions)

	// A socket that is gone is looked for, too.
	_ = a.l.Close()
	_ = s.Close()
	a.send(toolCall("2"))
	if r := a.next(); r.Error == nil {
		t.Errorf("%+v", r)
	}
	a.listen()
	s = a.accepted()
	s.want(initialize)
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil)
	s := a.accepted()
	long := strings.Repeat(`x\"{[,`, 1<<20)
	a.send(`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"id":1,"text":"` + long + `"}}`)
	a.wantError("11", "message_too_large", false)
	a.send(`{"method":"tools/call","params":{"text":"` + long + `","id":[5]},"jsonrpc":"2.0","id":"last"}`)
	a.wantError(`"last"`, "message_too_large", false)
	a.send(strings.Repeat(" ", 5<<20) + `{"jsonrpc":"2.0","id":12,"method":"ping"}`)
	a.wantError("12", "message_too_large", false)
	a.send(toolCall("13"))
	s.want(toolCall("13"))
	s.say(`{"jsonrpc":"2.0","id":13,"result":{"text":"` + long + `"}}`)
	a.wantError("13", "answer_too_large", true)
	most := strings.Repeat("x", 4<<20-60)
	a.send(`{"jsonrpc":"2.0","id":14,"method":"m","params":{"t":"` + most + `"}}`)
	if got := s.line(); len(got) < 4<<20-60 {
		t.Errorf("%d bytes", len(got))
	}

	// Calls under way are bounded.
	for i := range 255 {
		id := fmt.Sprint(100 + i)
		a.send(toolCall(id))
		s.want(toolCall(id))
	}
	a.send(toolCall("1000"))
	a.wantError("1000", "too_many_calls", false)
	s.answer("100", "{}")
	a.wantResult("100", "{}")
	a.send(toolCall("1001"))
	s.want(toolCall("1001"))
}

func TestTheRelayEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*agent){
		"end of input":        func(a *agent) { _ = a.in.Close() },
		"death of the parent": func(a *agent) { a.parent.Store(1) },
		"signal":              func(a *agent) { a.end() },
	} {
		for where, prepare := range map[string]func(*agent) *server{
			"connected": func(a *agent) *server {
				s := a.accepted()
				a.send(toolCall("1"))
				s.want(toolCall("1"))
				return s
			},
			"waiting for a server": func(a *agent) *server {
				s := a.offered()
				a.send(toolCall("1"))
				return s
			},
			// The agent does not take what the server sends.
			"stuck": func(a *agent) *server {
				s := a.accepted()
				s.answer("1", "{}")
				return s
			},
		} {
			if name == "end of input" && where == "stuck" {
				continue // it ends when its output is closed, as by an agent that has ended
			}
			t.Run(name+"/"+where, func(t *testing.T) {
				t.Parallel()
				a := newAgent(t, nil)
				s := prepare(a)
				end(a)
				a.wantEnd()
				if where != "stuck" {
					if _, err := s.from.ReadByte(); err == nil {
						t.Error("the connection is open")
					}
				}
			})
		}
	}
}

func TestWithoutAGuest(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := mcprelay.Run(t.Context(), mcprelay.Config{Env: func(string) string { return "" }, In: strings.NewReader(initialized + "\n" + initialize + "\n" + toolCall("1") + "\n"), Out: &out})
	if err == nil || !strings.Contains(err.Error(), guest.EnvTools) {
		t.Error(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"id":0,"error":`) || !strings.Contains(got, "only by an agent in a workspace") {
		t.Errorf("the agent got %q", got)
	}
}
