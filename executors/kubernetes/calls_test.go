package kubernetes_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	pwguest "github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/call"
	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/internal/id"
)

// front is a server that guests call. Its executors take turns, as a server that is started again.
type front struct {
	*httptest.Server
	mu    sync.Mutex
	all   []*kubernetes.Executor
	ofDir map[string]*kubernetes.Executor // of all, those that start gave
	conns []taken
}

func newFront(t *testing.T, l net.Listener) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewUnstartedServer(f)
	if l != nil {
		_ = f.Server.Listener.Close()
		f.Server.Listener = l
	}
	f.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // of connections that were cut
	f.StartTLS()
	t.Cleanup(func() { f.cut(); f.Close() })
	return f
}

// taken is a connection that an executor took.
type taken struct {
	net.Conn
	by *kubernetes.Executor
}

// ServeHTTP is what the server does at call.Path.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, err := call.Asks(r)
	if err != nil || r.URL.Path != call.Path {
		http.Error(w, "not this way", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	all := f.all
	f.mu.Unlock()
	for _, e := range all {
		if e.Called(caller.Sandbox, string(caller.For), func() (net.Conn, error) {
			c, err := call.Accept(w, r)
			if err == nil {
				f.mu.Lock()
				f.conns = append(f.conns, taken{c, e})
				f.mu.Unlock()
			}
			return c, err
		}) {
			return
		}
	}
	http.Error(w, `{"message": "nobody is expected"}`, http.StatusNotFound)
}

// add has an executor take calls.
func (f *front) add(e *kubernetes.Executor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, e)
}

// start is add for the executor of a server that is started with a folder: one that had it before has ended.
func (f *front) start(dir string, e *kubernetes.Executor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ofDir == nil {
		f.ofDir = map[string]*kubernetes.Executor{}
	}
	ended := f.ofDir[dir]
	f.conns = slices.DeleteFunc(f.conns, func(c taken) bool {
		if c.by == ended {
			_ = c.Close() // as it is when a process ends
		}
		return c.by == ended
	})
	f.all = append(slices.DeleteFunc(slices.Clone(f.all), func(e *kubernetes.Executor) bool { return e == ended }), e)
	f.ofDir[dir] = e
}

// cut cuts every connection; kill also forgets who took them.
func (f *front) cut() {
	f.mu.Lock()
	conns := f.conns
	f.conns = nil
	f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

func (f *front) kill() {
	f.mu.Lock()
	f.all = nil
	f.mu.Unlock()
	f.cut()
}

// newCallable is a place whose guest calls.
func newCallable(t *testing.T) (*place, *front) {
	t.Helper()
	f := newFront(t, nil)
	p := newWorld(t, kubetest.Config{HostNetwork: true}, func(s *kubernetes.Settings) { s.CallAddress = f.URL })
	f.add(p.e)
	return p, f
}

// execs counts the execs that reach a guest rather than start it.
func (p *place) execs() int {
	n := 0
	for _, r := range p.s.Requests() {
		if strings.HasSuffix(r.Path, "/exec") && strings.Contains(r.Query, "bridge") {
			n++
		}
	}
	return n
}

func TestConformanceOfGuestsThatCall(t *testing.T) {
	t.Parallel()
	if os.Getenv("PARAWORK_TEST_PLACES") == "" {
		t.Skip("the tests below are of what calls change; make test-places runs the whole conformance suite with them")
	}
	s, f := newServer(t, kubetest.Config{HostNetwork: true}), newFront(t, nil)
	executortest.Run(t, executortest.Config{Remote: true, SharedNetwork: true, Abilities: []string{"Callee", "RemnantKeeper", "Remover", "RunRecorder", "Sleeper", "Warmer"}, SandboxAbilities: []string{"Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
			e := newExecutor(t, s, dir, func(s *kubernetes.Settings) { s.CallAddress = f.URL })
			f.start(dir, e)
			return e
		}})
}

func TestAGuestThatCallsNeedsExecOnlyToStart(t *testing.T) {
	p, f := newCallable(t)
	gate := t.TempDir()
	out, err := net.Listen("unix", filepath.Join(gate, filepath.Base(executors.InsideGateSock)))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside") })}
	t.Cleanup(func() { _ = srv.Close() })
	go srv.Serve(out) // ends with Close
	p.spec.Gate = gate
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	q, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	read := func() bool { // as the server does: where it was, each time
		out, err := p.c.Output(p.ctx, q.ID, pwguest.Stdout, int64(len(got)))
		if err != nil {
			return false
		}
		defer out.Close()
		more, err := io.ReadAll(out)
		got = append(got, more...)
		return err == nil
	}
	time.AfterFunc(300*time.Millisecond, f.cut)
	time.AfterFunc(600*time.Millisecond, f.cut)
	soon(t, "all of it was read", read)
	if string(got) != "1\n2\n3\n4\n5\n6\n" {
		t.Errorf("through cut connections: %q", got)
	}
	soon(t, "the way out leads to the gate", func() bool {
		return p.run("curl -s -m 5 --unix-socket /run/parawork/egress http://gate/") == "outside"
	})

	// The server is killed, and another is started.
	f.kill()
	_ = p.e.Close()
	next := newExecutor(t, p.s, p.dir, func(s *kubernetes.Settings) { s.CallAddress = f.URL })
	f.add(next)
	p.recover(next)
	if got = nil; !read() || len(got) != 12 {
		t.Errorf("what ran before the server was killed: %q", got)
	}

	// Another pod goes on with the files, and only its guest is taken.
	before := kubernetes.CallSecret(p.sb)
	p.run("echo kept > file")
	if err := errors.Join(p.sb.(executors.Pauser).Pause(p.ctx), p.sb.(executors.Pauser).Resume(p.ctx)); err != nil {
		t.Fatalf("Pause and Resume: %v", err)
	}
	p.use(p.sb)
	if got := p.run("cat file"); got != "kept\n" {
		t.Errorf("its file: %q", got)
	}
	if err := tryCall(p, f, p.spec.ID, before); err == nil {
		t.Error("the guest of the pod before is taken")
	}
	if n := p.execs(); n != 0 {
		t.Errorf("%d execs reached the guest", n)
	}
	soon(t, "the exec that started the guest is over", func() bool { return p.s.Streams() == 0 })
}

// tryCall calls as a guest would that knows secret.
func tryCall(p *place, f *front, sandbox, secret string) error {
	p.t.Helper()
	said := make(chan error, 1)
	l := reversedial.Call(reversedial.Calls{Token: call.Of(secret, call.Pipe), Idle: 1, Late: time.Minute, Said: func(err error) {
		select {
		case said <- err:
		default:
		}
	}, Dial: func(ctx context.Context) (net.Conn, error) {
		return call.Dial(ctx, call.Host{URL: f.URL, Addresses: []string{f.Listener.Addr().String()}}, sandbox, call.Pipe)
	}})
	defer l.Close()
	return <-said
}

func TestOnlyASandboxesOwnGuestIsTaken(t *testing.T) {
	p, f := newCallable(t)
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	spec := p.spec
	spec.ID = id.New("sbx")
	other, err := p.e.Create(p.ctx, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer other.Destroy(p.ctx)
	for name, c := range map[string]struct{ sandbox, secret string }{
		"a wrong secret":           {p.spec.ID, strings.Repeat("0", 64)},
		"another pod's secret":     {p.spec.ID, kubernetes.CallSecret(other)},
		"the guest's token":        {p.spec.ID, sb.Token()},
		"a sandbox nobody has":     {"sbx_none", kubernetes.CallSecret(sb)},
		"its secret for another's": {spec.ID, kubernetes.CallSecret(sb)},
	} {
		if err := tryCall(p, f, c.sandbox, c.secret); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := tryCall(p, f, p.spec.ID, kubernetes.CallSecret(sb)); err != nil {
		t.Errorf("its own secret is refused: %v", err)
	}
	for _, r := range p.s.Requests() {
		if secret := kubernetes.CallSecret(sb); strings.Contains(r.Body+r.Query, secret) || strings.Contains(r.Body+r.Query, sb.Token()) {
			t.Errorf("a secret is in %s %s", r.Method, r.Path)
		}
	}
	// What the pods may reach is this server, and nothing else.
	var rules []string
	for _, r := range p.s.Requests() {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.Path, "/networkpolicies") {
			continue
		}
		var got struct {
			Spec struct{ Egress json.RawMessage }
		}
		if err := json.Unmarshal([]byte(r.Body), &got); err != nil {
			t.Error(err)
		}
		rules = append(rules, string(got.Spec.Egress))
	}
	_, port, _ := net.SplitHostPort(f.Listener.Addr().String())
	if want := `[{"to":[{"ipBlock":{"cidr":"127.0.0.1/32"}}],"ports":[{"protocol":"TCP","port":` + port + `}]}]`; len(rules) != 2 || rules[0] != "" || rules[1] != want {
		t.Errorf("the rules of what pods reach: %q", rules)
	}
	if resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Get(f.URL + call.Path); err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without a WebSocket: %d", resp.StatusCode)
		}
	}
}

func TestAGuestThatCannotCallIsReachedByExec(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	p := newWorld(t, kubetest.Config{HostNetwork: true}, nil)
	e, err := kubernetes.New(kubernetes.Config{Dir: p.dir, GuestPath: guestPath(t), CallIn: 300 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Settings: func(context.Context) (kubernetes.Settings, error) {
			set := settings(p.s)
			set.CallAddress = "https://" + at
			return set, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	sb, err := e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	p.run("true")
	warns := func() string {
		c, err := e.Capabilities(p.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return c.Warning
	}
	soon(t, "the place says why", func() bool {
		return strings.Contains(warns(), "do not reach this server at https://"+at) && strings.Contains(warns(), "connection refused")
	})
	if p.execs() == 0 {
		t.Error("the guest was reached without an exec")
	}
	if l, err = net.Listen("tcp", at); err != nil {
		t.Skipf("another took the port: %v", err)
	}
	newFront(t, l).add(e)
	soon(t, "nothing is said any more", func() bool { return !strings.Contains(warns(), at) })
	p.s.Forbid("create pods/exec", "get pods/exec")
	p.use(sb)
	p.run("true")
}
