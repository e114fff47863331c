// Package executortest is the conformance suite every executor passes unchanged. It speaks to the guest through the same
// client as the server, so a new executor is done when Run passes. A bug found in one executor becomes a case here.
package executortest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
)

// patience bounds every wait of the suite; a healthy executor never needs it.
const patience = time.Minute

// Config says how to make the executor under test.
type Config struct {
	// SharedNetwork says that a stand-in's machines have this machine's network, as no real one has: how to reach a server on loopback.
	SharedNetwork bool
	// New makes an executor that stores all its state below dir. Called again with the same dir it is the executor of a restarted server.
	New func(t *testing.T, dir string) executors.Executor
	// Root makes a worktree on the host for a sandbox; default GitRoot.
	Root func(t *testing.T) string
	// Deliver copies a root on the host into the worktree of a sandbox with a disk of its own: see Deliver. nil = the sandbox shows the root
	// itself.
	Deliver func(ctx context.Context, c *client.Client, root string) error
	// Abilities and SandboxAbilities are the optional abilities of the executor and of its sandboxes, sorted and complete.
	Abilities, SandboxAbilities []string
	// Remote says that a service elsewhere makes the sandboxes. How it makes, reaches and ends them is its own and always tested. What their
	// guests do is the same everywhere; it is tested there as well with PARAWORK_TEST_PLACES=1 (make test-places).
	Remote bool
}

// Run runs the whole suite.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	if cfg.Root == nil {
		cfg.Root = GitRoot
	}
	groups := []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"Process", testProcesses},
		{"Terminal", testTerminal},
		{"Signal", testSignals},
		{"Attach", testAttach},
		{"Files", testFiles},
		{"Git", testGit},
		{"Exec", testExec},
		{"Life", testLife},
		{"Ports", testPorts},
		{"Abilities", testAbilities},
		{"Tools", testTools},
	}
	everything := !cfg.Remote || os.Getenv("PARAWORK_TEST_PLACES") != ""
	for _, g := range groups {
		if !everything && !slices.Contains([]string{"Attach", "Files", "Life", "Abilities"}, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.run(t, cfg)
		})
	}
}

// GitRoot makes a repository with one commit: a.txt ("one\ntwo\nthree\n") and dir/b.txt.
func GitRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "one\ntwo\nthree\n")
	write("dir/b.txt", "b\n")
	Git(t, dir, "init", "-q", "-b", "main")
	Git(t, dir, "add", "-A")
	Git(t, dir, "commit", "-q", "-m", "start")
	return dir
}

// Git runs git in dir, without the configuration of whoever runs the test, and returns its trimmed output.
func Git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T",
		"GIT_AUTHOR_EMAIL=t@example.invalid", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// box is one sandbox under test.
type box struct {
	t    *testing.T
	ctx  context.Context
	ex   executors.Executor
	sb   executors.Sandbox
	spec executors.Spec
	dir  string
	wire *wire

	inside string // where the worktree is in the sandbox
	c      *client.Client
}

// wire dials a sandbox and can cut every pipe it has dialed.
type wire struct {
	sb   executors.Sandbox
	mu   sync.Mutex
	open []io.Closer
}

func (w *wire) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := w.sb.Dial(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.open = append(w.open, c)
	w.mu.Unlock()
	return c, nil
}

// cut closes every pipe, as a network or a dying server does.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

func newClient(sb executors.Sandbox) (*client.Client, *wire) {
	w := &wire{sb: sb}
	single, _ := sb.(executors.SinglePipe)
	return client.New(client.Config{Dial: w.dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: single != nil && single.OnePipe()}), w
}

// newBox makes a sandbox that is destroyed when the test ends.
func newBox(t *testing.T, cfg Config) *box {
	t.Helper()
	t.Parallel()
	return makeBox(t, cfg)
}

// makeBox makes a sandbox that is destroyed when the test ends, for a test that does not run in parallel with others.
func makeBox(t *testing.T, cfg Config) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	b := &box{t: t, ctx: ctx, dir: t.TempDir()}
	b.ex = cfg.New(t, b.dir)
	b.spec = executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: id.New("ws"), Root: cfg.Root(t)}
	sb, err := b.ex.Create(ctx, b.spec)
	if err != nil {
		cancel()
		t.Fatalf("Create: %v", err)
	}
	b.sb = sb
	b.c, b.wire = newClient(sb)
	b.inside = b.spec.Root
	t.Cleanup(func() {
		b.c.Close()
		if err := b.sb.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
		cancel()
	})
	if cfg.Deliver == nil {
		return b
	}
	if err := cfg.Deliver(ctx, b.c, b.spec.Root); err != nil {
		t.Fatalf("Deliver: %v", err)
	}
	h, err := b.c.Hello(ctx)
	if err != nil {
		t.Fatalf("Hello: %v", err)
	}
	b.inside = h.Root
	return b
}

// start starts a process.
func (b *box) start(spec guest.ProcessSpec) guest.Process {
	b.t.Helper()
	if spec.ID == "" {
		spec.ID = id.New("p")
	}
	p, err := b.c.Start(b.ctx, spec)
	if err != nil {
		b.t.Fatalf("Start %q: %v", spec.Argv, err)
	}
	if p.ID != spec.ID {
		b.t.Fatalf("Start answered process %q, asked for %q", p.ID, spec.ID)
	}
	return p
}

// sh starts a shell line without a terminal.
func (b *box) sh(line string) guest.Process {
	b.t.Helper()
	return b.start(guest.ProcessSpec{Argv: []string{"/bin/sh", "-c", line}})
}

// tty starts a shell line under a terminal of 80x24.
func (b *box) tty(line string) guest.Process {
	b.t.Helper()
	return b.start(guest.ProcessSpec{Argv: []string{"/bin/sh", "-c", line}, Tty: true, Size: guest.Size{Cols: 80, Rows: 24}})
}

// wait waits for a process's end.
func (b *box) wait(pid string) guest.Process {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := b.c.Wait(ctx, pid)
	if err != nil {
		b.t.Fatalf("Wait: %v", err)
	}
	if p.State != guest.Exited {
		b.t.Fatalf("Wait answered a process in state %q", p.State)
	}
	return p
}

// all reads a stream from an offset to its end.
func (b *box) all(pid string, s guest.Stream, from int64) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := b.c.Output(ctx, pid, s, from)
	if err != nil {
		b.t.Fatalf("Output: %v", err)
	}
	defer out.Close()
	if out.From != from {
		b.t.Fatalf("Output begins at %d, asked for %d", out.From, from)
	}
	got, err := io.ReadAll(out)
	if err != nil {
		b.t.Fatalf("reading output: %v", err)
	}
	return got
}

// run runs a shell line to its end and returns stdout.
func (b *box) run(line string) string {
	b.t.Helper()
	p := b.sh(line)
	out := b.all(p.ID, guest.Stdout, 0)
	if end := b.wait(p.ID); end.ExitCode == nil || *end.ExitCode != 0 {
		b.t.Fatalf("%q ended with %+v, stderr %q", line, end, b.all(p.ID, guest.Stderr, 0))
	}
	return string(out)
}

// scope follows a stream in the background.
type scope struct {
	t    *testing.T
	mu   sync.Mutex
	buf  bytes.Buffer
	err  error
	wake chan struct{}
	stop context.CancelFunc
}

// watch follows a stream from an offset until the test ends.
func (b *box) watch(pid string, s guest.Stream, from int64) *scope {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	out, err := b.c.Output(ctx, pid, s, from)
	if err != nil {
		cancel()
		b.t.Fatalf("Output: %v", err)
	}
	sc := &scope{t: b.t, wake: make(chan struct{}, 1), stop: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer out.Close()
		p := make([]byte, 32<<10)
		for {
			n, err := out.Read(p)
			sc.mu.Lock()
			sc.buf.Write(p[:n])
			sc.err = err
			sc.mu.Unlock()
			tasks.Wake(sc.wake)
			if err != nil {
				return
			}
		}
	}()
	b.t.Cleanup(func() { cancel(); <-done })
	return sc
}

// text returns what was read so far, and the error that ended it.
func (sc *scope) text() (string, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.buf.String(), sc.err
}

// expect waits until the stream satisfies ok.
func (sc *scope) expect(what string, ok func(string) bool) {
	sc.t.Helper()
	deadline := time.After(patience)
	for {
		text, err := sc.text()
		if ok(text) {
			return
		}
		if err != nil {
			sc.t.Fatalf("the stream ended (%v) before %s; read %q", err, what, last(text, 2000))
		}
		select {
		case <-sc.wake:
		case <-deadline:
			sc.t.Fatalf("no %s; read %q", what, last(text, 2000))
		}
	}
}

func (sc *scope) expectText(want string) {
	sc.t.Helper()
	sc.expect("text "+want, func(s string) bool { return strings.Contains(s, want) })
}

// expectEnd waits for the end of the stream.
func (sc *scope) expectEnd() string {
	sc.t.Helper()
	deadline := time.After(patience)
	for {
		text, err := sc.text()
		if errors.Is(err, io.EOF) {
			return text
		}
		if err != nil {
			sc.t.Fatalf("the stream ended with %v", err)
		}
		select {
		case <-sc.wake:
		case <-deadline:
			sc.t.Fatalf("the stream did not end; read %q", last(text, 2000))
		}
	}
}

// input opens a process's input for the duration of the test.
func (b *box) input(pid string) *client.Input {
	b.t.Helper()
	in, err := b.c.Input(b.ctx, pid)
	if err != nil {
		b.t.Fatalf("Input: %v", err)
	}
	b.t.Cleanup(func() { in.Close() })
	return in
}

func (b *box) typeIn(in *client.Input, seq uint64, text string) {
	b.t.Helper()
	if err := in.Write(seq, []byte(text)); err != nil {
		b.t.Fatalf("Input.Write: %v", err)
	}
}

// eventually polls until ok returns true, for states without a notification.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // this state has no notification
	}
}

func last(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
