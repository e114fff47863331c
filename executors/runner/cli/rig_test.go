//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/runner/cli"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	_ "github.com/parawork/parawork/guest/daemon" // what the guest is made of: a change there makes these tests run again
	"github.com/parawork/parawork/testing/testguest"
)

// deadline is how long anything may take.
const deadline = 60 * time.Second

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	if dir := os.Getenv("PARAWORK_TEST_HANG"); dir != "" {
		hang(dir)
	}
	os.Exit(testguest.Run(m, &guestPath))
}

// hang is a program that holds a machine's lock and does nothing any more.
func hang(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("held")
	select {}
}

// server is one that enrols machines and lets them connect, as the real one does. Tests ask machines through it what they like.
type server struct {
	*httptest.Server
	t    *testing.T
	pub  ed25519.PublicKey
	key  ed25519.PrivateKey
	mux  *http.ServeMux
	mu   sync.Mutex
	keys map[string]ed25519.PublicKey // of machines, by id
	link *tunnel.Link
	seen []wire.Enrol
	left chan wire.Event // what machines said that left
	on   chan struct{}   // closed when a machine is online and its events are heard
}

func newServer(t *testing.T) *server {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, pub: pub, key: key, mux: http.NewServeMux(), keys: map[string]ed25519.PublicKey{}, on: make(chan struct{}), left: make(chan wire.Event, 16)}
	s.mux.HandleFunc("POST "+wire.EnrolPath, s.enrol)
	s.mux.HandleFunc("GET "+wire.ConnectPath, s.connect)
	s.Server = httptest.NewServer(s.mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) token() string {
	return wire.Token{ID: strings.Repeat("0", 26), Secret: strings.Repeat("s", 43), Print: wire.Fingerprint(s.pub)}.String()
}

func (s *server) enrol(w http.ResponseWriter, r *http.Request) {
	var e wire.Enrol
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, e)
	s.keys["rnr_1"] = e.PublicKey
	_ = json.NewEncoder(w).Encode(wire.Enrolled{RunnerID: "rnr_1", Name: e.Name, Team: "acme", ServerKey: s.pub})
}

func (s *server) connect(w http.ResponseWriter, r *http.Request) {
	caller, err := wire.ReadCall(r.Header.Get("Authorization"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	key := s.keys[caller.ID]
	s.mu.Unlock()
	if key == nil {
		wire.SignRefusal(w.Header(), s.key, r.Header.Get("Authorization"), wire.CodeRevoked)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": wire.CodeRevoked, "message": "This machine was revoked."})
		return
	}
	l, err := tunnel.Accept(w, r, tunnel.AcceptConfig{ServerKey: s.key, MachineKey: key})
	if err != nil {
		return
	}
	defer l.Close("")
	req, err := http.NewRequest(http.MethodGet, "http://machine/v1/events", nil)
	if err != nil {
		return
	}
	resp, err := l.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	events := json.NewDecoder(resp.Body)
	var first wire.Event
	if events.Decode(&first) != nil {
		return
	}
	s.mu.Lock()
	s.link = l
	on := s.on
	s.mu.Unlock()
	close(on)
	for {
		var e wire.Event
		if events.Decode(&e) != nil {
			break
		}
		if e.Type == wire.EventLeaving {
			s.left <- e
			if !e.Remove {
				l.Close(e.Reason)
			}
		}
	}
	s.mu.Lock()
	s.link, s.on = nil, make(chan struct{})
	s.mu.Unlock()
}

// online waits for a machine.
func (s *server) online() *tunnel.Link {
	s.t.Helper()
	for end := time.After(deadline); ; {
		s.mu.Lock()
		l, on := s.link, s.on
		s.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-on:
		case <-end:
			s.t.Fatal("no machine came")
		}
	}
}

// make asks for a sandbox and returns the last line of the answer.
func (s *server) make(ctx context.Context, id string) wire.Progress {
	s.t.Helper()
	body, err := json.Marshal(wire.Make{ID: id, TeamID: "team_1", WorkspaceID: "ws_1", Key: "PW-1", Slug: "thing"})
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(wire.WithOrder(ctx, wire.Order{UserID: "usr_1", User: "Ann"}), http.MethodPost, "http://machine/v1/sandboxes", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := (wire.Signer{Key: s.key, Runner: "rnr_1", Now: time.Now}).Sign(req, body); err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.online().RoundTrip(req)
	if err != nil {
		return wire.Progress{Error: &wire.Error{Code: "unreachable", Message: err.Error()}}
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		var e wire.Error
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			s.t.Errorf("%s: %v", resp.Status, err)
		}
		return wire.Progress{Error: &e}
	}
	var last wire.Progress
	for d := json.NewDecoder(resp.Body); ; {
		var p wire.Progress
		if err := d.Decode(&p); err != nil {
			return last
		}
		last = p
	}
}

// box is one machine: a home, and what was said in it.
type box struct {
	t    *testing.T
	home string
	env  map[string]string
}

func newBox(t *testing.T) *box {
	t.Helper()
	home, err := os.MkdirTemp("", "pw") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endGuests(t, home)
		_ = os.RemoveAll(home)
	})
	return &box{t: t, home: home, env: map[string]string{"HOME": home, "PARAWORK_GUEST": guestPath, "PATH": os.Getenv("PATH"), "DOCKER_HOST": "unix:///nonexistent.sock"}}
}

// endGuests ends the guests whose folders lie below home: they outlive the program, as they are meant to, and would outlive the test.
func endGuests(t *testing.T, home string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		alive := guestsBelow(t, home)
		if len(alive) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("guests still run: %v", alive)
			return
		}
		for _, pid := range alive {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it ends what it has started, and itself
		}
	}
}

func guestsBelow(t *testing.T, home string) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	for _, name := range found {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte("\x00serve\x00")) || !bytes.Contains(line, []byte("\x00"+home+"/")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// dir is the folder of the machine called "box".
func (b *box) dir() string {
	b.t.Helper()
	found, err := filepath.Glob(filepath.Join(b.home, ".parawork/runner/*/*/machine.json"))
	if err != nil || len(found) != 1 {
		b.t.Fatalf("%q, %v", found, err)
	}
	return filepath.Dir(found[0])
}

// said collects what a program prints.
type said struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{}
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// wait waits until text was said.
func (s *said) wait(t *testing.T, text string) {
	t.Helper()
	s.times(t, text, 1)
}

// times waits until text was said as often.
func (s *said) times(t *testing.T, text string, n int) {
	t.Helper()
	for end := time.After(deadline); ; {
		s.mu.Lock()
		if strings.Count(s.b.String(), text) >= n {
			s.mu.Unlock()
			return
		}
		if s.more == nil {
			s.more = make(chan struct{})
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-end:
			t.Fatalf("%q was never said:\n%s", text, s)
		}
	}
}

func (b *box) program(out *said, change ...func(*cli.Program)) *cli.Program {
	p := &cli.Program{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Env: func(k string) string { return b.env[k] }, Version: "1.2.3",
		Exec: func(context.Context, string, ...string) (string, error) { return "", os.ErrNotExist }}
	for _, fn := range change {
		fn(p)
	}
	return p
}

// do runs a command to its end.
func (b *box) do(args ...string) (string, int) {
	b.t.Helper()
	out := &said{}
	code := b.program(out).Run(b.t.Context(), args)
	return out.String(), code
}

// life is the program that stays connected.
type life struct {
	out     *said
	signals chan os.Signal
	done    chan int
	typing  *io.PipeWriter
}

// start starts it. It is ended with the test.
func (b *box) start(args ...string) *life {
	b.t.Helper()
	in, typing := io.Pipe()
	l := &life{out: &said{}, signals: make(chan os.Signal, 4), done: make(chan int, 1), typing: typing}
	p := b.program(l.out, func(p *cli.Program) { p.Signals, p.Stdin, p.Terminal = l.signals, in, true })
	go func() { l.done <- p.Run(context.WithoutCancel(b.t.Context()), args) }()
	b.t.Cleanup(func() {
		l.signals <- os.Interrupt
		l.signals <- os.Interrupt
		_ = typing.Close()
		l.end(b.t)
	})
	return l
}

// end waits for its end and returns the exit code.
func (l *life) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-l.done:
		l.done <- code
		return code
	case <-time.After(deadline):
		t.Fatalf("the program does not end:\n%s", l.out)
		return -1
	}
}
