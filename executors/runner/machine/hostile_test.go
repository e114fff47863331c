package machine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// pipe is a server that speaks to a guest as it likes.
type pipe struct {
	t    *testing.T
	conn net.Conn
	http *http.ClientConn
	sb   wire.Sandbox
}

func (r *rig) pipe(t *testing.T, sb wire.Sandbox) *pipe {
	t.Helper()
	conn, err := r.link.Stream(t.Context(), wire.PipePath(sb.ID), nil)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	c, err := transport.NewClientConn(t.Context(), "http", "guest:80")
	check(t, err)
	return &pipe{t, conn, c, sb}
}

// ask sends one request and returns the code of the refusal, "" when it was answered well.
func (p *pipe) ask(method, uri string, body []byte, header http.Header) string {
	p.t.Helper()
	u, err := url.Parse("http://guest" + uri)
	check(p.t, err)
	req := (&http.Request{Method: method, URL: u, Host: "guest", Header: http.Header{"Authorization": {"Bearer " + p.sb.Token}}}).WithContext(p.t.Context())
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := p.http.RoundTrip(req)
	check(p.t, err)
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return ""
	}
	var e guest.ErrorBody
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return fmt.Sprintf("status %d: %v", resp.StatusCode, err)
	}
	return e.Code
}

// signed is the header of a command.
func signed(t *testing.T, s wire.Signer, sandboxID, method, uri string, body []byte) http.Header {
	t.Helper()
	u, err := url.Parse("http://guest" + uri)
	check(t, err)
	req := wire.InPipe(sandboxID, (&http.Request{Method: method, URL: u, Header: http.Header{}}).WithContext(t.Context()))
	check(t, s.Sign(req, body))
	return req.Header
}

// touching is a process that leaves a mark.
func touching(t *testing.T, mark string) (string, []byte) {
	t.Helper()
	pid := id.New("p")
	b, err := json.Marshal(guest.ProcessSpec{ID: pid, Argv: []string{"/bin/sh", "-c", "echo x > " + mark}})
	check(t, err)
	return pid, b
}

// A server that was taken over cannot start or write anything without the key that was pinned, nor anything twice, nor bend what was
// signed for one request into another. What is refused stands in the owner's log.
func TestGuardRefusesWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	other, err := r.make(t.Context(), ask("ws_2"))
	check(t, err)
	p := r.pipe(t, sb)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	mark := filepath.Join(r.dir, "mark")
	_, body := touching(t, mark)
	_, another := touching(t, mark)
	mine := r.signer()
	foreign := mine
	foreign.Key = stranger
	elsewhere := mine
	elsewhere.Runner = "rn_2"
	start := func(s wire.Signer, sandboxID string, signed2 []byte) http.Header {
		return signed(t, s, sandboxID, "POST", "/v1/processes", signed2)
	}
	for name, c := range map[string]struct {
		method, uri string
		body        []byte
		header      http.Header
		code        string
	}{
		"a start without a command":         {"POST", "/v1/processes", body, nil, wire.CodeForged},
		"one with another key":              {"POST", "/v1/processes", body, start(foreign, sb.ID, body), wire.CodeForged},
		"one for another machine":           {"POST", "/v1/processes", body, start(elsewhere, sb.ID, body), wire.CodeForged},
		"one for another sandbox":           {"POST", "/v1/processes", body, start(mine, other.ID, body), wire.CodeForged},
		"one for another body":              {"POST", "/v1/processes", another, start(mine, sb.ID, body), wire.CodeForged},
		"one for a stream":                  {"POST", "/v1/processes", body, start(mine, sb.ID, nil), wire.CodeForged},
		"one for another path":              {"DELETE", "/v1/files?path=a", nil, signed(t, mine, sb.ID, "DELETE", "/v1/files?path=b", []byte{}), wire.CodeForged},
		"a write without a command":         {"PUT", "/v1/files?path=a", []byte("x"), nil, wire.CodeForged},
		"a removal":                         {"DELETE", "/v1/files?path=a", nil, nil, wire.CodeForged},
		"a folder":                          {"POST", "/v1/mkdir?path=a", nil, nil, wire.CodeForged},
		"a link in the home":                {"POST", "/v1/symlink?path=a&to=b&scope=home", nil, nil, wire.CodeForged},
		"the home":                          {"POST", "/v1/home", []byte("x"), nil, wire.CodeForged},
		"a bundle":                          {"PUT", "/v1/bundles/p1", []byte("x"), nil, wire.CodeForged},
		"its unpacking":                     {"POST", "/v1/bundles/p1/unpack", []byte("{}"), nil, wire.CodeForged},
		"input":                             {"POST", "/v1/processes/p1/input", []byte("x"), nil, wire.CodeForged},
		"a signal":                          {"POST", "/v1/processes/p1/signal", []byte("{}"), nil, wire.CodeForged},
		"a port":                            {"POST", "/v1/ports/80", []byte("x"), nil, wire.CodeForged},
		"an answer to a hook":               {"POST", "/v1/hooks/h1/answer", []byte("{}"), nil, wire.CodeForged},
		"the guest's end":                   {"POST", "/v1/shutdown", nil, nil, wire.CodeForged},
		"what a later guest may understand": {"POST", "/v1/later", nil, nil, wire.CodeForged},
		"a path with a dot":                 {"POST", "/v1/./processes", body, nil, "guest_route_unknown"},
		"a path with two slashes":           {"POST", "/v1//processes", body, nil, "guest_route_unknown"},
		"a path that climbs":                {"POST", "/v1/contents/../processes", body, nil, "guest_route_unknown"},
		"an escaped path":                   {"POST", "/v1/%70rocesses", body, nil, "guest_route_unknown"},
	} {
		if got := p.ask(c.method, c.uri, c.body, c.header); got != c.code {
			t.Errorf("%s: %q, want %q", name, got, c.code)
		}
	}
	r.expectLog(`"decision":"refused"`, wire.CodeForged, "POST /v1/processes", sb.ID)
	if got := p.ask("GET", "/v1/stats", nil, http.Header{"Authorization": {"Bearer wrong"}}); got != "guest_unauthorized" {
		t.Errorf("a stranger: %q", got)
	}

	// What is signed is done, once.
	once := start(mine, sb.ID, body)
	if got := p.ask("POST", "/v1/processes", body, once); got != "" {
		t.Fatalf("what is signed: %q", got)
	}
	if got := p.ask("POST", "/v1/processes", body, once); got != wire.CodeReplayed {
		t.Errorf("the same command again: %q", got)
	}
	r.expectLog(`"decision":"allowed"`, `"kind":"process"`, "echo x")
	r.restart()
	if got := r.pipe(t, sb).ask("POST", "/v1/processes", body, once); got != wire.CodeReplayed {
		t.Errorf("the same command after a restart: %q", got)
	}
	r.expectLog(`"decision":"refused"`, wire.CodeReplayed)
}

// A pipe that was upgraded carries one stream. Nothing else can be asked over it, whatever the guest answered.
func TestGuardPassesOneUpgradeOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	mark := filepath.Join(r.dir, "mark")
	_, body := touching(t, mark)
	smuggled := fmt.Sprintf("POST /v1/processes HTTP/1.1\r\nHost: guest\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", sb.Token, len(body), body)
	head := func(method, uri, more string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: guest\r\nAuthorization: Bearer %s\r\n%s\r\n", method, uri, sb.Token, more)
	}
	upgrade := "Connection: Upgrade\r\nUpgrade: " + guest.UpgradeStream + "\r\n"
	for name, first := range map[string]string{
		"a stream of no process": head("GET", "/v1/processes/none/output/stdout", upgrade),
		"what is no stream":      head("GET", "/v1/hello", upgrade),
		"no upgrade":             head("GET", "/v1/hello", ""),
		"another upgrade":        head("GET", "/v1/hello", "Connection: Upgrade\r\nUpgrade: h2c\r\n"),
		"a body":                 head("GET", "/v1/hello", upgrade+"Content-Length: 2\r\n") + "xx",
		"chunks":                 head("GET", "/v1/hello", upgrade+"Transfer-Encoding: chunked\r\n") + "2\r\nxx\r\n0\r\n\r\n",
		"unsigned input":         head("POST", "/v1/processes/none/input", upgrade),
	} {
		conn, err := r.link.Stream(t.Context(), wire.PipePath(sb.ID), nil)
		check(t, err)
		_, _ = io.WriteString(conn, first+smuggled) // the refusal may be there, and the pipe closed, before all of it was sent
		br := bufio.NewReader(conn)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		rest, _ := io.ReadAll(br)
		if bytes.Contains(rest, []byte("HTTP/1.1")) {
			t.Errorf("%s: a second request was answered: %d, %q", name, resp.StatusCode, rest)
		}
		_ = conn.Close()
	}
	list, err := r.guest(sb).Processes(t.Context())
	check(t, err)
	if len(list) > 0 {
		t.Errorf("processes were started: %+v", list)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a smuggled process ran")
	}
}

// What is asked of the machine itself must be signed as well.
func TestCommandsMustBeSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	unsigned := func(method, path string, body []byte) string {
		req := (&http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}).WithContext(t.Context())
		resp, err := r.link.RoundTrip(req)
		check(t, err)
		defer resp.Body.Close()
		var e wire.Error
		_ = json.NewDecoder(resp.Body).Decode(&e)
		return e.Code
	}
	more, err := json.Marshal(ask("ws_2"))
	check(t, err)
	for path, c := range map[string]struct {
		method string
		body   []byte
	}{
		"/v1/sandboxes":                      {"POST", more},
		"/v1/sandboxes/" + sb.ID:             {"DELETE", nil},
		"/v1/sandboxes/" + sb.ID + "/pause":  {"POST", nil},
		"/v1/sandboxes/" + sb.ID + "/resume": {"POST", nil},
		"/v1/sandboxes/" + sb.ID + "/limits": {"PUT", []byte("{}")},
		"/v1/folders/bundle":                 {"POST", []byte("{}")},
		"/v1/folders/borrow":                 {"POST", []byte("{}")},
		"/v1/folders/copy":                   {"POST", []byte("{}")},
		"/v1/folders/deliver":                {"POST", []byte("{}")},
	} {
		if got := unsigned(c.method, path, c.body); got != wire.CodeForged {
			t.Errorf("%s %s unsigned: %q", c.method, path, got)
		}
	}
	r.expectLog(`"decision":"refused"`, wire.CodeForged, "DELETE /v1/sandboxes/"+sb.ID)
	for name, change := range map[string]func(*wire.Make){
		"an id that climbs":         func(a *wire.Make) { a.ID = "../x" },
		"a workspace that climbs":   func(a *wire.Make) { a.WorkspaceID = ".." },
		"no team":                   func(a *wire.Make) { a.TeamID = "" },
		"a negative limit":          func(a *wire.Make) { a.Limits.MemoryMB = -1 },
		"a name that is none":       func(a *wire.Make) { a.Env = map[string]string{"A=B": "c"} },
		"too large an environment":  func(a *wire.Make) { a.Env = map[string]string{"A": strings.Repeat("x", guest.MaxEnv)} },
		"a relative folder":         func(a *wire.Make) { a.Folder = "etc" },
		"another team's sandbox id": func(a *wire.Make) { a.ID, a.WorkspaceID, a.TeamID = sb.ID, "ws_1", "team_2" },
	} {
		a := ask("ws_3")
		change(&a)
		if _, err := r.make(t.Context(), a); fault.CodeOf(err) != "runner_sandbox_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	outside := ask("ws_4")
	outside.Folder = "/etc"
	if _, err := r.make(t.Context(), outside); fault.CodeOf(err) != wire.CodeOutside {
		t.Errorf("a folder outside: %v", err)
	}
	r.expectLog(`"decision":"refused"`, wire.CodeOutside, "/etc")
	var all struct{ Items []wire.Sandbox }
	check(t, r.notify(t.Context(), "GET", "/v1/sandboxes", nil, &all))
	if len(all.Items) != 1 || all.Items[0].Token != "" {
		t.Errorf("sandboxes: %+v", all.Items)
	}
}
