package machine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/runner/machine"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testguest"

	_ "github.com/parawork/parawork/guest/changes" // what the guest binary is made of: a change there makes these tests run again
	_ "github.com/parawork/parawork/guest/daemon"
)

// patience bounds every wait; nothing that works needs it.
const patience = time.Minute

// ends are what all tests share, taken down when the last has ended.
var (
	endsMu sync.Mutex
	ends   []func()
)

func atEnd(fn func()) {
	endsMu.Lock()
	defer endsMu.Unlock()
	ends = append(ends, fn)
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, fn := range ends {
		fn()
	}
	os.Exit(code)
}

// guestPath builds the guest once.
var guestPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "parawork-guest")
	if err != nil {
		return "", err
	}
	atEnd(func() { _ = os.RemoveAll(dir) })
	return testguest.Build(dir)
})

// rig is a machine with its program, and a server it is connected to. Programs come and go; what the machine keeps stays.
type rig struct {
	t      testing.TB
	dir    string
	home   string
	keeper *policy.Keeper
	server ed25519.PrivateKey
	key    ed25519.PrivateKey
	over   executors.Executor
	change func(*machine.Config)

	door  *httptest.Server
	links chan *tunnel.Link

	m    *machine.Machine
	seen *wire.Seen
	link *tunnel.Link
	stop func()
}

const runnerID = "rn_1"

func ask(workspace string) wire.Make {
	return wire.Make{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: workspace, Key: "PW-1", Slug: "thing"}
}

// newRig makes a machine over the executor that over makes below dir, nil = local places; p is what its owner allows.
func newRig(t testing.TB, dir string, p policy.Policy, change func(*machine.Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, home: filepath.Join(dir, "owner"), change: change, links: make(chan *tunnel.Link, 4)}
	for _, d := range []string{r.home, filepath.Join(dir, "keeper")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	_, r.server, err = ed25519.GenerateKey(rand.Reader)
	check(t, err)
	_, r.key, err = ed25519.GenerateKey(rand.Reader)
	check(t, err)
	r.allow(p)
	r.keeper, err = policy.New(policy.Config{File: r.file(), Home: r.home, Dir: filepath.Join(dir, "keeper"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	check(t, err)
	r.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		l, err := tunnel.Accept(w, req, tunnel.AcceptConfig{ServerKey: r.server, MachineKey: r.key.Public().(ed25519.PublicKey)})
		if err != nil {
			t.Errorf("accepting the machine: %v", err)
			return
		}
		r.links <- l
		<-l.Done()
	}))
	t.Cleanup(r.door.Close)
	t.Cleanup(r.sweep)
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// sweep ends what the machine's program has left running, as it is meant to.
func (r *rig) sweep() {
	remover, ok := r.over.(executors.Remover)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	all, err := r.over.List(ctx)
	if err != nil {
		r.t.Errorf("what is left running: %v", err)
	}
	for _, h := range all {
		if err := remover.Remove(ctx, h); err != nil {
			r.t.Errorf("ending %s: %v", h.ID, err)
		}
	}
}

// file is the owner's.
func (r *rig) file() string { return filepath.Join(r.dir, "runner.json") }

// allow writes what the owner allows from now on.
func (r *rig) allow(p policy.Policy) {
	r.t.Helper()
	check(r.t, os.WriteFile(r.file()+".new", p.JSON(), 0o600))
	check(r.t, os.Rename(r.file()+".new", r.file()))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLocal(t testing.TB, dir string) executors.Executor {
	t.Helper()
	path, err := guestPath()
	check(t, err)
	e, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "places"), GuestPath: path, Grace: 500 * time.Millisecond})
	check(t, err)
	return e
}

// start runs the machine's program and connects it.
func (r *rig) start() {
	r.t.Helper()
	var err error
	r.seen, err = wire.OpenSeen(filepath.Join(r.dir, "seen"), time.Now)
	check(r.t, err)
	if r.over == nil {
		r.over = newLocal(r.t, r.dir)
	}
	cfg := machine.Config{RunnerID: runnerID, Name: "Laptop", Executor: r.over, Mode: wire.Direct, Keeper: r.keeper, Home: r.home, Dir: filepath.Join(r.dir, "machine"), Build: "test", Programs: []string{"claude", "codex"},
		Checker: &wire.Checker{Runner: runnerID, ServerKey: r.server.Public().(ed25519.PublicKey), Seen: r.seen, Now: time.Now},
		Log:     slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if r.change != nil {
		r.change(&cfg)
	}
	r.m, err = machine.New(cfg)
	check(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.m.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	conn, err := tunnel.Dial(ctx, tunnel.DialConfig{URL: r.door.URL, RunnerID: runnerID, Key: r.key, ServerKey: r.server.Public().(ed25519.PublicKey)})
	if err != nil {
		cancel()
		r.t.Fatalf("connecting: %v", err)
	}
	wg.Go(func() { _ = tunnel.Serve(ctx, conn, r.m.Handler()) })
	select {
	case r.link = <-r.links:
	case <-time.After(patience):
		cancel()
		r.t.Fatal("the server accepted no machine")
	}
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			wg.Wait()
			_ = r.seen.Close()
		})
	}
}

// restart ends the machine's program and starts the next.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.over = nil
	r.start()
}

func (r *rig) signer() wire.Signer {
	return wire.Signer{Key: r.server, Runner: runnerID, Now: time.Now}
}

// ask asks the machine; body nil = a question, else a command.
func (r *rig) ask(ctx context.Context, method, path string, body any) (*http.Response, error) {
	req := (&http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}}).WithContext(ctx)
	if body != nil {
		payload := []byte{}
		if b, ok := body.([]byte); ok {
			payload = b
		} else if body != none {
			var err error
			if payload, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(payload)), int64(len(payload))
		if err := r.signer().Sign(req, payload); err != nil {
			return nil, err
		}
	}
	resp, err := r.link.RoundTrip(req)
	if err == nil && resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, tunnel.ReadError(resp)
	}
	return resp, err
}

// none is the body of a command that has nothing to say.
var none any = "nothing"

func (r *rig) notify(ctx context.Context, method, path string, body, v any) error {
	resp, err := r.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// make asks for a sandbox and follows the making.
func (r *rig) make(ctx context.Context, a wire.Make) (wire.Sandbox, error) {
	resp, err := r.ask(ctx, http.MethodPost, "/v1/sandboxes", a)
	if err != nil {
		return wire.Sandbox{}, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var p wire.Progress
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return wire.Sandbox{}, err
		}
		if p.Error != nil {
			return wire.Sandbox{}, fault.New(fault.Kind(p.Error.Kind), p.Error.Code, "%s", p.Error.Message)
		}
		if p.Sandbox != nil {
			return *p.Sandbox, nil
		}
	}
	return wire.Sandbox{}, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// remoteBox is a sandbox as a server that is not bound by its own executor speaks to it.
type remoteBox struct {
	r  *rig
	sb wire.Sandbox
}

func (b remoteBox) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	conn, err := b.r.link.Stream(ctx, wire.PipePath(b.sb.ID), nil)
	if err != nil {
		return nil, err
	}
	return remotePipe{conn, b}, nil
}

// remotePipe signs what is asked over it.
type remotePipe struct {
	net.Conn
	b remoteBox
}

func (p remotePipe) Sign(r *http.Request, body []byte) error {
	return p.b.r.signer().Sign(wire.InPipe(p.b.sb.ID, r), body)
}

// guest speaks to the guest of a sandbox.
func (r *rig) guest(sb wire.Sandbox) *client.Client {
	b := remoteBox{r, sb}
	c := client.New(client.Config{Dial: b.dial, Token: sb.Token, SandboxID: sb.ID, Now: time.Now})
	r.t.Cleanup(c.Close)
	return c
}

// log is the owner's consent log.
func (r *rig) log() string {
	b, err := os.ReadFile(filepath.Join(r.dir, "keeper", policy.LogName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	return string(b)
}

// expectLog waits until the consent log has a line with all of these.
func (r *rig) expectLog(parts ...string) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { // a file does not tell when it is written
		for line := range strings.Lines(r.log()) {
			found := true
			for _, p := range parts {
				found = found && strings.Contains(line, p)
			}
			if found {
				return
			}
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("no line with %q in the log:\n%s", parts, r.log())
		}
	}
}
