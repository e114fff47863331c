package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/server/rest"
)

// tty is a raw client of the terminal's socket.
type tty struct {
	t    *testing.T
	conn *websocket.Conn
	out  []byte
}

func (h *harness) dial(t *testing.T, path string, header http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	d := websocket.Dialer{HandshakeTimeout: time.Minute}
	conn, resp, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(h.url, "http")+"/api/v1"+path, header)
	if conn != nil {
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	}
	if resp != nil && resp.Body != nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return conn, resp, err
}

func withToken(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func (h *harness) attach(t *testing.T, session, query, token string) *tty {
	t.Helper()
	conn, resp, err := h.dial(t, "/sessions/"+session+"/terminal?"+query, withToken(token))
	if err != nil {
		t.Fatalf("attach: %v %v", err, resp)
	}
	return &tty{t: t, conn: conn}
}

// until reads frames until want says so, or the socket ends.
func (k *tty) until(want func(op byte, arg []byte) bool) error {
	k.t.Helper()
	for {
		_, f, err := k.conn.ReadMessage()
		if err != nil {
			return err
		}
		if f[0] == 0 {
			k.out = append(k.out, f[9:]...)
			k.send(upAck, binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(f[1:])+uint64(len(f)-9)))
		}
		if want(f[0], f[1:]) {
			return nil
		}
	}
}

func (k *tty) see(text string) {
	k.t.Helper()
	if err := k.until(func(byte, []byte) bool { return bytes.Contains(k.out, []byte(text)) }); err != nil {
		k.t.Fatalf("waiting for %q: %v; got %q", text, err, k.out)
	}
}

func (k *tty) send(op byte, arg []byte) {
	k.t.Helper()
	if err := k.conn.WriteMessage(websocket.BinaryMessage, append([]byte{op}, arg...)); err != nil && !errors.Is(err, websocket.ErrCloseSent) {
		k.t.Logf("sending %d: %v", op, err)
	}
}

// closed reads to the end and returns the close code, 0 without one.
func (k *tty) closed() int {
	k.t.Helper()
	err := k.until(func(byte, []byte) bool { return false })
	if c, ok := errors.AsType[*websocket.CloseError](err); ok {
		return c.Code
	}
	k.t.Logf("ended with %v", err)
	return 0
}

// session starts a command in the furnished workspace.
func (h *harness) session(t *testing.T, p cast, argv ...string) string {
	t.Helper()
	r := h.do("POST", "/api/v1/workspaces/"+p.ids["workspace"]+"/sessions", body(t, map[string]any{"agent": "command", "argv": argv, "cols": 80, "rows": 24}), bearer(p.tokens["owner"])...)
	if r.StatusCode != 201 {
		t.Fatalf("session: %d %s", r.StatusCode, r.body)
	}
	var s struct{ ID string }
	r.into(t, &s)
	t.Cleanup(func() {
		if h.server.ready() != nil {
			return // the test has stopped the server
		}
		h.do("POST", "/api/v1/sessions/"+s.ID+"/stop", `{"grace_ms":0}`, bearer(p.tokens["owner"])...)
	})
	return s.ID
}

func TestTerminalFrames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "stty -echo; echo ready; while read l; do echo \"<$l> $(stty size)\"; done")
	k := h.attach(t, id, "from=0", p.tokens["owner"])
	k.see("ready")
	k.send(upInput, []byte("hello\r"))
	k.see("<hello> ")
	k.send(upPing, nil)
	if err := k.until(func(op byte, _ []byte) bool { return op == downPong }); err != nil {
		t.Fatalf("no pong: %v", err)
	}
	k.send(upSize, []byte{0, 100, 0, 30})
	if err := k.until(func(op byte, arg []byte) bool {
		return op == 2 && binary.BigEndian.Uint16(arg) == 100 && binary.BigEndian.Uint16(arg[2:]) == 30
	}); err != nil {
		t.Fatalf("no new size: %v", err)
	}
	for i := 0; !bytes.Contains(k.out, []byte("> 30 100\r\n")); i++ { // viewers know the size before the program does
		k.send(upInput, fmt.Appendf(nil, "again %d\r", i))
		line := regexp.MustCompile(fmt.Sprintf(`<again %d> \d+ \d+\r\n`, i))
		if err := k.until(func(byte, []byte) bool { return line.Match(k.out) }); err != nil {
			t.Fatalf("waiting for %s: %v; got %q", line, err, k.out)
		}
	}
	// Frames nobody knows, or cut ones, ask for nothing and end nothing.
	for _, f := range [][]byte{{9}, {upSize, 1}, {upAck, 1, 2}, {upAck, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {upInput}, {}} {
		if err := k.conn.WriteMessage(websocket.BinaryMessage, f); err != nil {
			t.Fatal(err)
		}
	}
	k.send(upInput, []byte("still here\r"))
	k.see("<still here> 30 100")
	if err := k.conn.WriteMessage(websocket.TextMessage, []byte("text")); err != nil {
		t.Fatal(err)
	}
	if code := k.closed(); code != websocket.CloseUnsupportedData {
		t.Errorf("a text frame: closed with %d", code)
	}
	big := h.attach(t, id, "from=0", p.tokens["owner"])
	if err := big.conn.WriteMessage(websocket.BinaryMessage, make([]byte, terminalRead+1)); err != nil {
		t.Fatal(err)
	}
	if code := big.closed(); code != websocket.CloseMessageTooBig {
		t.Errorf("a frame that is too large: closed with %d", code)
	}
}

func TestTerminalEndsWithItsSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo bye; exit 3")
	k := h.attach(t, id, "from=0", p.tokens["viewer"])
	var exit struct {
		ExitCode int `json:"exit_code"`
	}
	if err := k.until(func(op byte, arg []byte) bool { return op == 4 && json.Unmarshal(arg, &exit) == nil }); err != nil {
		t.Fatalf("no exit frame: %v", err)
	}
	if exit.ExitCode != 3 || string(k.out) != "bye\r\n" {
		t.Errorf("exit %d after %q", exit.ExitCode, k.out)
	}
	if code := k.closed(); code != closeNormal {
		t.Errorf("closed with %d", code)
	}
}

// A viewer sees everything and types nothing; only they see the refusal of what they try.
func TestViewersCannotType(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; read l; echo \"<$l>\"")
	for _, tc := range []struct{ who, query string }{{"viewer", "from=0"}, {"owner", "from=0&role=viewer"}} {
		k := h.attach(t, id, tc.query, p.tokens[tc.who])
		k.see("ready")
		k.send(upInput, []byte("owned\r"))
		var e struct{ Code string }
		if err := k.until(func(op byte, arg []byte) bool { return op == 5 && json.Unmarshal(arg, &e) == nil }); err != nil || e.Code != "read_only" {
			t.Errorf("%s %s: %v %+v", tc.who, tc.query, err, e)
		}
		k.send(upSize, []byte{0, 20, 0, 6})
		k.send(upTakeSize, nil)
	}
	k := h.attach(t, id, "from=0", p.tokens["owner"])
	k.see("ready")
	k.send(upInput, []byte("mine\r"))
	k.see("<mine>")
	if bytes.Contains(k.out, []byte("owned")) {
		t.Errorf("a viewer typed: %q", k.out)
	}
	// Asking for the right to type without having it.
	r := h.attach(t, id, "from=0&role=writer", p.tokens["viewer"])
	if code := r.closed(); code != closeNotAllowed {
		t.Errorf("a viewer as writer: closed with %d", code)
	}
}

// A page learns the reason from close codes, since it sees no status; a script from the status.
func TestRefusedSockets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "cat")
	page := func(token string) http.Header {
		return http.Header{"Authorization": {"Bearer " + token}, "Origin": {h.url}}
	}
	for name, tc := range map[string]struct {
		path   string
		header http.Header
		status int // of the handshake, 0 = it is opened
		code   int // of the close
	}{
		"foreign page":               {"/sessions/" + id + "/terminal", http.Header{"Authorization": {"Bearer " + p.tokens["owner"]}, "Origin": {"https://evil.example"}}, 403, 0},
		"foreign page, events":       {"/teams/harbour/events", http.Header{"Authorization": {"Bearer " + p.tokens["owner"]}, "Origin": {"https://evil.example"}}, 403, 0},
		"a cookie without an origin": {"/sessions/" + id + "/terminal", http.Header{"Cookie": {rest.HostCookie + "=x"}}, 403, 0},
		"nobody":                     {"/sessions/" + id + "/terminal", nil, 401, 0},
		"nobody, as a page":          {"/sessions/" + id + "/terminal", http.Header{"Origin": {h.url}}, 401, 0},
		"outsider":                   {"/sessions/" + id + "/terminal", withToken(p.tokens["outsider"]), 404, 0},
		"outsider, as a page":        {"/sessions/" + id + "/terminal", page(p.tokens["outsider"]), 404, 0},
		"outsider, events":           {"/teams/harbour/events", withToken(p.tokens["outsider"]), 404, 0},
		"no such session, as a page": {"/sessions/ses_1/terminal", page(p.tokens["owner"]), 404, 0},
		"no right, as a page":        {"/sessions/" + id + "/terminal?role=writer", page(p.tokens["viewer"]), 0, closeNotAllowed},
		"an offset that is none":     {"/sessions/" + id + "/terminal?from=x", withToken(p.tokens["owner"]), 400, 0},
		"a role that is none":        {"/sessions/" + id + "/terminal?role=king", withToken(p.tokens["owner"]), 400, 0},
	} {
		conn, resp, err := h.dial(t, tc.path, tc.header)
		switch {
		case tc.status != 0:
			if err == nil || resp == nil || resp.StatusCode != tc.status {
				t.Errorf("%s: %v %v, want %d", name, err, resp, tc.status)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if code := (&tty{t: t, conn: conn}).closed(); code != tc.code {
				t.Errorf("%s: closed with %d, want %d", name, code, tc.code)
			}
		}
	}
	if r := h.do("GET", "/api/v1/sessions/"+id+"/terminal", "", bearer(p.tokens["owner"])...); r.StatusCode != 400 || r.code() != "websocket_only" {
		t.Errorf("without an upgrade: %d %s", r.StatusCode, r.body)
	}
}

// A socket ends when its owner's rights do, at once.
func TestRevokedRightsCloseSockets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; cat")
	owner, err := h.accounts.AuthenticateToken(t.Context(), p.tokens["owner"])
	if err != nil {
		t.Fatal(err)
	}
	who := func(name string) accounts.Actor {
		a, err := h.accounts.AuthenticateToken(t.Context(), p.tokens[name])
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	member, admin, viewer := who("member"), who("admin"), who("viewer")
	for name, revoke := range map[string]struct {
		token string
		do    func(context.Context) error
	}{
		"token ended": {"admin", func(ctx context.Context) error { return h.accounts.DeleteToken(ctx, admin.User.ID, admin.TokenID) }},
		"may not type more": {"member", func(ctx context.Context) error {
			_, err := h.accounts.SetRole(ctx, owner, p.team.ID, member.User.ID, accounts.Viewer)
			return err
		}},
		"removed": {"viewer", func(ctx context.Context) error { return h.accounts.RemoveMember(ctx, owner, p.team.ID, viewer.User.ID) }},
	} {
		k := h.attach(t, id, "from=0", p.tokens[revoke.token])
		k.see("ready")
		other := h.attach(t, id, "from=0", p.tokens["owner"])
		other.see("ready")
		if err := revoke.do(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if code := k.closed(); code != closeNotAllowed {
			t.Errorf("%s: closed with %d", name, code)
		}
		other.send(upPing, nil)
		if err := other.until(func(op byte, _ []byte) bool { return op == downPong }); err != nil {
			t.Errorf("%s: the owner's socket ended too: %v", name, err)
		}
		other.conn.Close()
	}
}

// Who may not take the keyboard from others any more opens the terminal anew, as what they are now.
func TestATerminalThatMayTakeEndsWithThatRight(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; cat")
	owner, err := h.accounts.AuthenticateToken(t.Context(), p.tokens["owner"])
	if err != nil {
		t.Fatal(err)
	}
	k := h.attach(t, id, "from=0", p.tokens["admin"])
	k.see("ready")
	if _, err := h.accounts.SetRole(t.Context(), owner, p.team.ID, memberID(t, h, p, "admin"), accounts.Member); err != nil {
		t.Fatal(err)
	}
	if code := k.closed(); code != closeNotAllowed {
		t.Errorf("closed with %d", code)
	}
	h.attach(t, id, "from=0", p.tokens["admin"]).see("ready")
}

// When the server stops, terminals and event sockets get a close code that tells clients to retry.
func TestStoppingServerSaysSo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "echo ready; cat")
	k := h.attach(t, id, "from=0", p.tokens["owner"])
	k.see("ready")
	conn, _, err := h.dial(t, "/teams/harbour/events", withToken(p.tokens["viewer"]))
	if err != nil {
		t.Fatal(err)
	}
	h.stop()
	if code := k.closed(); code != closeRestarting {
		t.Errorf("terminal closed with %d", code)
	}
	if code := (&tty{t: t, conn: conn}).closed(); code != closeRestarting {
		t.Errorf("events closed with %d", code)
	}
	select {
	case <-h.ended:
	case <-time.After(time.Minute):
		t.Fatal("the server did not end")
	}
}

// A program that does not read what is typed must not stop its output, nor the answers to pings.
func TestUnreadInputDoesNotStopOutput(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	id := h.session(t, p, "sh", "-c", "stty raw -echo; echo ready; while :; do echo tick; sleep 0.02; done")
	k := h.attach(t, id, "from=0", p.tokens["owner"])
	k.see("ready")
	for range 20 {
		k.send(upInput, bytes.Repeat([]byte("x"), 32<<10))
	}
	k.send(upPing, nil)
	if err := k.until(func(op byte, _ []byte) bool { return op == downPong }); err != nil {
		t.Fatalf("no pong behind unread input: %v", err)
	}
	before := len(k.out)
	if err := k.until(func(byte, []byte) bool { return len(k.out) > before+200 }); err != nil {
		t.Fatalf("output stopped: %v", err)
	}
}
