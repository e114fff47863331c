package guard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/guard"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// stream is a guard before one pipe that is to become a stream. The guest's end of it is in the test's hands.
type stream struct {
	t      *testing.T
	owner  *owner
	conn   net.Conn      // the server's end
	guest  chan net.Conn // the guest's, once the guard dials
	served chan error
	cancel context.CancelCauseFunc
	dial   func() error // what dialing the guest fails with; nil = it does not
}

func newStream(t *testing.T) *stream {
	t.Helper()
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &stream{t: t, owner: &owner{}, conn: ours, guest: make(chan net.Conn, 1), served: make(chan error, 1), cancel: cancel, dial: func() error { return nil }}
	g := guard.New(guard.Config{Checker: seal{}, Keeper: s.owner})
	target := guard.Target{SandboxID: "sbx_1", WorkspaceID: "ws_1", Token: "the guard's", Root: "/work/tree", Dial: func(context.Context) (io.ReadWriteCloser, string, error) {
		if err := s.dial(); err != nil {
			return nil, "", err
		}
		near, far := pair(t)
		s.guest <- far
		return near, "the guest's own", nil
	}}
	go func() { s.served <- g.Serve(ctx, theirs, target) }()
	t.Cleanup(func() {
		cancel(nil)
		_ = ours.Close()
	})
	return s
}

// pair makes a connection whose ends can be closed for writing alone.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// say writes to a connection.
func (s *stream) say(c net.Conn, text string) {
	s.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
}

// question is how a pipe asks to become a stream.
func question(line string, headers ...string) string {
	return line + " HTTP/1.1\r\nHost: guest\r\nAuthorization: Bearer the guard's\r\n" + wire.CommandHeader + ": good\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

const upgrade = "Connection: Upgrade\r\nUpgrade: " + guest.UpgradeStream

// asked reads what the guard asks the guest.
func (s *stream) asked() (net.Conn, *bufio.Reader, *http.Request) {
	s.t.Helper()
	conn := <-s.guest
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn, r, req
}

const agreed = "HTTP/1.1 101 Switching Protocols\r\nX-From: 7\r\n\r\n"

// answer reads what the server gets.
func (s *stream) answer() (*http.Response, *bufio.Reader) {
	s.t.Helper()
	r := bufio.NewReader(s.conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, r
}

func read(t *testing.T, r io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(r, b); err != nil || string(b) != want {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
}

func TestAPipeBecomesAStream(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	s.say(s.conn, question("POST /v1/ports/5173?x=1", upgrade, "Cookie: a=b", guest.HeaderOffset+": 12")+"said at once")
	conn, r, req := s.asked()
	if req.Method != "POST" || req.RequestURI != "/v1/ports/5173?x=1" || req.Header.Get("Authorization") != "Bearer the guest's own" || req.Header.Get("Upgrade") != guest.UpgradeStream ||
		req.Header.Get(guest.HeaderOffset) != "12" || req.Header.Get("Cookie") != "" || req.Header.Get(wire.CommandHeader) != "" {
		t.Errorf("the guest is asked %s %s with %v", req.Method, req.RequestURI, req.Header)
	}
	s.say(conn, agreed+"and answered")
	resp, back := s.answer()
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-From") != "7" {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
	read(t, back, "and answered")
	read(t, r, "said at once")
	big := strings.Repeat("0123456789abcdef", 1<<14) // more than any head
	go func() { _, _ = io.WriteString(conn, big) }()
	read(t, back, big)
	if asked, refused := s.owner.take(); len(asked) != 1 || asked[0].Kind != policy.KindPort || asked[0].Port != 5173 || len(refused) != 0 {
		t.Errorf("the owner was asked %+v, noted %+v", asked, refused)
	}
	// One side says that it has no more; the other may still answer.
	if err := s.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	s.say(conn, "the last words")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(back); err != nil || string(b) != "the last words" {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-s.served; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestStreamsAreLookedAtLikeQuestions(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		ask    string
		owner  error
		code   string
		status int
	}{
		"no stream":       {ask: question("GET /v1/stats"), code: "pipe_protocol", status: 400},
		"another upgrade": {ask: question("GET /v1/stats", "Connection: Upgrade", "Upgrade: websocket"), code: "pipe_protocol", status: 400},
		"with a body":     {ask: question("POST /v1/ports/80", upgrade, "Content-Length: 4") + "body", code: "pipe_protocol", status: 400},
		"with pieces":     {ask: question("POST /v1/ports/80", upgrade, "Transfer-Encoding: chunked") + "0\r\n\r\n", code: "pipe_protocol", status: 400},
		"a stranger":      {ask: "GET /v1/stats HTTP/1.1\r\nHost: guest\r\nAuthorization: Bearer no\r\n" + upgrade + "\r\n\r\n", code: "guest_unauthorized", status: 401},
		"not signed":      {ask: strings.Replace(question("POST /v1/ports/80", upgrade), ": good", ": bad", 1), code: wire.CodeForged, status: 403},
		"the owner's no":  {ask: question("POST /v1/ports/80", upgrade), owner: fault.New(fault.Forbidden, wire.CodeRefused, "no"), code: wire.CodeRefused, status: 403},
		"a way around":    {ask: question("POST /v1/stats/../ports/80", upgrade), code: "guest_route_unknown", status: 404},
		"the owner's log": {ask: question("POST /v1/ports/80", upgrade), owner: errors.New("/home/ann/secret is full"), code: wire.CodeUnavailable, status: 503},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStream(t)
			s.owner.says = c.owner
			s.dial = func() error { t.Error("the guest was dialed"); return errors.New("no") }
			s.say(s.conn, c.ask)
			resp, _ := s.answer()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			var e guest.ErrorBody
			if err := json.Unmarshal(b, &e); err != nil || e.Code != c.code || resp.StatusCode != c.status || !resp.Close || strings.Contains(e.Message, "/home/ann") {
				t.Errorf("%d, %s, %v; want %d, %s", resp.StatusCode, b, err, c.status, c.code)
			}
			if err := <-s.served; err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A guest that does not agree says why, and the pipe is over.
func TestAGuestThatGivesNoStream(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	s.say(s.conn, question("GET /v1/processes/p1/output", upgrade))
	conn, _, _ := s.asked()
	body := `{"code":"process_gone"}`
	s.say(conn, fmt.Sprintf("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nX-Secret: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	resp, _ := s.answer()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 404 || string(b) != body || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Secret") != "" || !resp.Close {
		t.Errorf("%d, %v, %q, %v", resp.StatusCode, resp.Header, b, err)
	}
	if err := <-s.served; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if asked, refused := s.owner.take(); len(asked)+len(refused) != 0 {
		t.Errorf("to look is nothing to ask for: %+v, %+v", asked, refused)
	}
}

func TestAStreamWhoseGuestIsAway(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		dial error
		says string // and hangs up
	}{
		"it cannot be dialed":    {dial: errors.New("no such socket")},
		"it hangs up":            {},
		"it does not speak HTTP": {says: "hello\r\n\r\n"},
		"its head has no end":    {says: "HTTP/1.1 101 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStream(t)
			s.dial = func() error { return c.dial }
			s.say(s.conn, question("GET /v1/processes/p1/output", upgrade))
			if c.dial == nil {
				conn, _, _ := s.asked()
				_, _ = io.WriteString(conn, c.says) // it may have hung up before it heard all
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			if err := <-s.served; err == nil || c.dial != nil && !errors.Is(err, c.dial) {
				t.Errorf("it ended with %v", err)
			}
			if b, _ := io.ReadAll(s.conn); len(b) != 0 {
				t.Errorf("the server got %q", b)
			}
		})
	}
}

func TestAPipeThatAsksNothingSensible(t *testing.T) {
	t.Parallel()
	for what, says := range map[string]string{
		"it hangs up":         "",
		"it hangs up early":   "GE",
		"no HTTP":             "hello, guard\r\n\r\n",
		"its head has no end": "GET /v1/stats HTTP/1.1\r\nX: " + strings.Repeat("x", 80<<10),
		"its head is cut":     "GET /v1/stats HTTP/1.1\r\nHost: gu",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStream(t)
			s.dial = func() error { t.Error("the guest was dialed"); return errors.New("no") }
			_, _ = io.WriteString(s.conn, says) // the guard may have hung up before it heard all
			_ = s.conn.(*net.TCPConn).CloseWrite()
			if err := <-s.served; err == nil {
				t.Error("it was answered")
			}
		})
	}
}

// A machine that is disconnected ends what is joined, on both sides.
func TestStreamsEndWithTheMachine(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	s.say(s.conn, question("GET /v1/processes/p1/output", upgrade))
	conn, _, _ := s.asked()
	s.say(conn, agreed)
	if resp, _ := s.answer(); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.StatusCode)
	}
	s.cancel(errors.New("the owner disconnected it"))
	<-s.served
	for _, c := range []net.Conn{s.conn, conn} {
		_, _ = io.ReadAll(c) // it ends: both were hung up on
	}
}
