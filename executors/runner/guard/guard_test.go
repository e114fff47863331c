package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/guard"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// patience bounds every wait; nothing that works needs it.
const patience = time.Minute

// owner is the owner's say, in a test's hands.
type owner struct {
	mu      sync.Mutex
	says    error
	asked   []policy.Ask
	refused []policy.Ask
}

func (o *owner) Check(_ context.Context, a policy.Ask) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, a)
	return o.says
}

func (o *owner) Refused(a policy.Ask, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, a)
}

// take returns what the owner was asked since the last call.
func (o *owner) take() (asked, refused []policy.Ask) {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked, refused = o.asked, o.refused
	o.asked, o.refused = nil, nil
	return asked, refused
}

// seal takes a command for signed where its header says "good".
type seal struct{}

var errSeal = fault.New(fault.Forbidden, wire.CodeForged, "not signed")

func (seal) Check(r *http.Request, _ []byte) (wire.Command, error) {
	if r.Header.Get(wire.CommandHeader) != "good" {
		return wire.Command{}, errSeal
	}
	return wire.Command{ID: "cmd_1", User: "Ann"}, nil
}

// got is a request that reached the guest.
type got struct {
	method, uri, body string
	header            http.Header
}

// rig is a guard before a guest that answers everything and remembers it.
type rig struct {
	t       *testing.T
	owner   *owner
	reached chan got
	started []string
	ended   bool
	client  *http.ClientConn
	served  chan error
	guest   *http.Server
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, owner: &owner{}, reached: make(chan got, 100), served: make(chan error, 1)}
	socket := filepath.Join(t.TempDir(), "g")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	r.guest = &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		r.reached <- got{req.Method, req.RequestURI, string(b), req.Header}
		_, _ = io.WriteString(w, "answer")
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = r.guest.Serve(l) })
	g := guard.New(guard.Config{Checker: seal{}, Keeper: r.owner})
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	target := guard.Target{SandboxID: "sbx_1", WorkspaceID: "ws_1", Token: "the guard's", Root: "/work/tree",
		Dial: func(ctx context.Context) (io.ReadWriteCloser, string, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "unix", socket)
			return conn, "the guest's own", err
		},
		Start: func(_ string, argv []string) { r.started = append(r.started, strings.Join(argv, " ")) },
		Ended: func() { r.ended = true }}
	work.Go(func() { r.served <- g.Serve(ctx, theirs, target) })
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	if r.client, err = transport.NewClientConn(t.Context(), "http", "guest:80"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = ours.Close()
		_ = r.guest.Close()
		work.Wait()
	})
	return r
}

// ask sends a request that is signed and returns the refusal's code, "" when it was answered.
func (r *rig) ask(method, uri, body string, header http.Header) string {
	r.t.Helper()
	u, err := url.Parse("http://guest" + uri)
	if err != nil {
		r.t.Fatal(err)
	}
	h := http.Header{"Authorization": {"Bearer the guard's"}, wire.CommandHeader: {"good"}}
	maps.Copy(h, header)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	req := (&http.Request{Method: method, URL: u, Host: "guest", Header: h}).WithContext(ctx)
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	resp, err := r.client.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, uri, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode < 400 {
		return ""
	}
	var e guest.ErrorBody
	if err := json.Unmarshal(b, &e); err != nil {
		r.t.Fatalf("%s %s: status %d, %q", method, uri, resp.StatusCode, b)
	}
	return e.Code
}

// forwarded returns the request that reached the guest, if one did.
func (r *rig) forwarded() (got, bool) {
	select {
	case g := <-r.reached:
		return g, true
	default:
		return got{}, false
	}
}

// Whatever starts, writes or ends something, or speaks with a program that was not started for it, is the owner's to allow, in words that
// say what it is. Looking is not, nor what belongs to something that was allowed before.
func TestWhatTheOwnerIsAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		method, uri, body string
		kind, path, text  string // kind "" = the owner is not asked
		port              int
	}{
		{"GET", "/v1/stats", "", "", "", "", 0},
		{"GET", "/v1/files?path=secret", "", "", "", "", 0},
		{"POST", "/v1/changes/poll", "{}", "", "", "", 0},
		{"POST", "/v1/processes/p1/resize", "{}", "", "", "", 0},
		{"POST", "/v1/processes/p1/ack", "{}", "", "", "", 0},
		{"POST", "/v1/processes/p1/input", "x", "", "", "", 0},
		{"POST", "/v1/processes/p1/signal", "{}", "", "", "", 0},
		{"POST", "/v1/hooks/h1/answer", "{}", "", "", "", 0},
		{"POST", guest.GatewayPath, "x", "", "", "", 0},
		{"POST", "/v1/processes", `{"id":"p1","argv":["make","test"],"cwd":"/work/tree/sub"}`, policy.KindProcess, "/work/tree/sub", "", 0},
		{"PUT", "/v1/files?path=a.go", "x", policy.KindWrite, "a.go", "", 0},
		{"DELETE", "/v1/files?path=a.go", "", policy.KindWrite, "a.go", "", 0},
		{"PUT", "/v1/files?path=.config&scope=home", "x", policy.KindWrite, "~/.config", "", 0},
		{"POST", "/v1/mkdir?path=new", "", policy.KindWrite, "new", "POST /v1/mkdir", 0},
		{"POST", "/v1/home", "x", policy.KindWrite, "~", "agents' settings", 0},
		{"POST", "/v1/later", "", policy.KindWrite, "", "POST /v1/later", 0},
		{"POST", "/v1/ports/5173", "x", policy.KindPort, "", "", 5173},
	} {
		if code := r.ask(c.method, c.uri, c.body, nil); code != "" {
			t.Errorf("%s %s: %s", c.method, c.uri, code)
			continue
		}
		if g, ok := r.forwarded(); !ok || g.method != c.method || g.uri != c.uri {
			t.Errorf("%s %s reached the guest as %+v", c.method, c.uri, g)
		}
		asked, _ := r.owner.take()
		switch {
		case c.kind == "" && len(asked) > 0:
			t.Errorf("%s %s: the owner was asked %+v", c.method, c.uri, asked)
		case c.kind == "":
		case len(asked) != 1:
			t.Errorf("%s %s: the owner was asked %d times", c.method, c.uri, len(asked))
		default:
			a := asked[0]
			if a.Kind != c.kind || a.Path != c.path || !strings.Contains(a.Text, c.text) || a.Port != c.port || a.WorkspaceID != "ws_1" || a.SandboxID != "sbx_1" || a.Command.User != "Ann" {
				t.Errorf("%s %s: the owner was asked %+v", c.method, c.uri, a)
			}
		}
	}
	if !slices.Equal(r.started, []string{"make test"}) || r.ended {
		t.Errorf("started %q, ended %v", r.started, r.ended)
	}
	if code := r.ask("POST", "/v1/shutdown", "{}", nil); code != "" || !r.ended {
		t.Errorf("the guest's end: %q, noted: %v", code, r.ended)
	}
}

// Nothing that is refused reaches the guest, whoever refuses it.
func TestWhatIsRefusedReachesNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		method, uri, body string
		header            http.Header
		owner             error
		code              string
		noted             bool // in the owner's log, without a question
	}{
		"a stranger":            {"GET", "/v1/stats", "", http.Header{"Authorization": {"Bearer no"}}, nil, "guest_unauthorized", false},
		"without a token":       {"GET", "/v1/stats", "", http.Header{"Authorization": {""}}, nil, "guest_unauthorized", false},
		"not signed":            {"POST", "/v1/mkdir?path=a", "", http.Header{wire.CommandHeader: {"bad"}}, nil, wire.CodeForged, true},
		"a port, not signed":    {"POST", "/v1/ports/80", "x", http.Header{wire.CommandHeader: {"bad"}}, nil, wire.CodeForged, true},
		"the owner's no":        {"POST", "/v1/mkdir?path=a", "", nil, fault.New(fault.Forbidden, wire.CodeRefused, "no"), wire.CodeRefused, false},
		"the owner's no, port":  {"POST", "/v1/ports/5432", "x", nil, fault.New(fault.Forbidden, wire.CodeRefused, "no"), wire.CodeRefused, false},
		"no port":               {"POST", "/v1/ports/http", "x", nil, nil, "invalid_port", true},
		"too high a port":       {"POST", "/v1/ports/65536", "x", nil, nil, "invalid_port", true},
		"below a port":          {"POST", "/v1/ports/80/x", "x", nil, nil, "invalid_port", true},
		"no program":            {"POST", "/v1/processes", `{"argv":[]}`, nil, nil, "invalid_request", true},
		"what is no JSON":       {"POST", "/v1/processes", `{"argv":["ls"]`, nil, nil, "invalid_request", true},
		"more than fits":        {"POST", "/v1/mkdir", strings.Repeat("x", 4*guest.MaxJSON+1), nil, nil, "request_too_large", true},
		"a path that climbs":    {"POST", "/v1/stats/../processes", "{}", nil, nil, "guest_route_unknown", false},
		"a path of two slashes": {"POST", "/v1//processes", "{}", nil, nil, "guest_route_unknown", false},
	} {
		r.owner.says = c.owner
		if code := r.ask(c.method, c.uri, c.body, c.header); code != c.code {
			t.Errorf("%s: %q, want %q", name, code, c.code)
		}
		if g, ok := r.forwarded(); ok {
			t.Errorf("%s reached the guest: %+v", name, g)
		}
		asked, refused := r.owner.take()
		if (len(asked) > 0) != (c.owner != nil) || (len(refused) > 0) != c.noted {
			t.Errorf("%s: asked %+v, noted %+v", name, asked, refused)
		}
	}
	if len(r.started) > 0 {
		t.Errorf("started: %q", r.started)
	}
}

// The owner is shown what runs: of a body that can be read in two ways the guest gets the one that was read.
func TestTheGuestGetsWhatTheOwnerWasShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	body := `{"id":"p1","argv":["ls"],"ARGV":["rm","-rf","~"],"later":true}`
	if code := r.ask("POST", "/v1/processes", body, http.Header{"X-Forwarded-For": {"1.2.3.4"}, "Cookie": {"a=b"}, "Content-Type": {"application/json"}}); code != "" {
		t.Fatal(code)
	}
	g, ok := r.forwarded()
	asked, _ := r.owner.take()
	var spec guest.ProcessSpec
	if err := json.Unmarshal([]byte(g.body), &spec); !ok || err != nil || len(asked) != 1 || !slices.Equal(spec.Argv, asked[0].Argv) || strings.Contains(g.body, "later") {
		t.Errorf("the owner was shown %+v, the guest got %q", asked, g.body)
	}
	if g.header.Get("Authorization") != "Bearer the guest's own" || g.header.Get("Cookie") != "" || g.header.Get("X-Forwarded-For") != "" || g.header.Get(wire.CommandHeader) != "" {
		t.Errorf("the guest was sent %v", g.header)
	}
}

// A guest that hangs up ends the pipe; nobody waits for it.
func TestAPipeEndsWithItsGuest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if code := r.ask("GET", "/v1/stats", "", nil); code != "" {
		t.Fatal(code)
	}
	if err := r.guest.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.served:
		if err != nil && !errors.Is(err, net.ErrClosed) {
			t.Logf("the pipe ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the pipe outlives its guest")
	}
}
