//go:build linux

package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/guest/daemon"
)

// TestMain lets the test binary be the guest program, and the programs the guest runs.
func TestMain(m *testing.M) {
	switch role := os.Getenv("GUEST_TEST_ROLE"); role {
	case "":
		os.Exit(m.Run())
	case "guest":
		if err := guestMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		programs[role]()
	}
}

func guestMain() error {
	if err := daemon.BecomeReaper(); err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := daemon.New(daemon.Config{Dir: os.Getenv("GUEST_DIR"), Root: os.Getenv("GUEST_ROOT"), Home: os.Getenv("GUEST_HOME"), SandboxID: os.Getenv("GUEST_ID"), OwnNet: os.Getenv("GUEST_SHARED_NET") == "",
		Token: testToken, Build: "test", Self: os.Args[0], Env: os.Environ(), Reap: true, Changes: &fakeChanges{}, Grace: 200 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	return d.Serve(ctx, l)
}

const testToken = "a secret of the test"

// place is a guest process and how to reach it.
type place struct {
	t    testing.TB
	id   string
	dir  string
	root string
	home string   // "" = the guest has none
	env  []string // more for the guest itself
	sock string
	cmd  *exec.Cmd
	done chan struct{}
	seen []int // pids that must not outlive the guest
	*client.Client
}

var places atomic.Int64

// newPlace starts a guest in a process of its own, with all its files on the given disk or anywhere.
func newPlace(t testing.TB, disk ...string) *place {
	t.Helper()
	p := &place{t: t, id: fmt.Sprintf("sbx_%d_%d", os.Getpid(), places.Add(1)), dir: filepath.Join(t.TempDir(), "guest"), root: t.TempDir()}
	if len(disk) > 0 {
		p.dir, p.root = filepath.Join(disk[0], "guest"), filepath.Join(disk[0], "root")
		if err := os.Mkdir(p.root, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	short, err := os.MkdirTemp("", "pwg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	p.sock = filepath.Join(short, "s")
	p.boot()
	p.Client = p.connect(testToken)
	return p
}

// boot starts the guest's process.
func (p *place) boot() {
	p.t.Helper()
	_ = os.Remove(p.sock)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.sock, Net: "unix"})
	if err != nil {
		p.t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	defer f.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GUEST_TEST_ROLE=guest", "GUEST_DIR="+p.dir, "GUEST_ROOT="+p.root, "GUEST_HOME="+p.home, "GUEST_ID="+p.id, "SECRET_OF_HOST=1", guest.EnvGive+"CACHE=/c", "LC_TEST=ok")
	if m := os.Getenv("GUEST_MAXPROCS"); m != "" {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+m)
	}
	cmd.Env = append(cmd.Env, p.env...)
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			<-done
			p.t.Error("the guest did not end on TERM")
		}
		for _, pid := range p.seen {
			if alive(pid) {
				p.t.Errorf("process %d outlived the guest", pid)
			}
		}
	})
}

func (p *place) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", p.sock)
}

func (p *place) connect(token string) *client.Client {
	c := client.New(client.Config{Dial: p.dial, Token: token, SandboxID: p.id, Now: time.Now})
	p.t.Cleanup(c.Close)
	return c
}

// within bounds everything a test waits for.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// self makes spec run one of the test's programs.
func self(role string, args ...string) []string { return append([]string{os.Args[0]}, args...) }

func program(id, role string, args ...string) guest.ProcessSpec {
	return guest.ProcessSpec{ID: id, Argv: self(role, args...), Env: map[string]string{"GUEST_TEST_ROLE": role}}
}

func shell(id, script string) guest.ProcessSpec {
	return guest.ProcessSpec{ID: id, Argv: []string{"/bin/sh", "-c", script}}
}

func tty(s guest.ProcessSpec) guest.ProcessSpec {
	s.Tty, s.Size = true, guest.Size{Cols: 80, Rows: 24}
	return s
}

func (p *place) start(spec guest.ProcessSpec) guest.Process {
	p.t.Helper()
	got, err := p.Start(within(p.t), spec)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

func (p *place) wait(id string) guest.Process {
	p.t.Helper()
	got, err := p.Wait(within(p.t), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// all reads a stream to its end.
func (p *place) all(id string, s guest.Stream) string {
	p.t.Helper()
	o, err := p.Output(within(p.t), id, s, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// until reads from o until what was read contains want, and returns it all.
func until(t testing.TB, o io.Reader, want string) string {
	t.Helper()
	var got bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), want) {
		n, err := o.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Fatalf("waiting for %q: %v after %q", want, err, got.String())
		}
	}
	return got.String()
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// fakeChanges is a Changes that sends the given sets.
type fakeChanges struct{}

func (f *fakeChanges) Watch(ctx context.Context, base string, since uint64, send func(guest.ChangeSet) error) error {
	for v := since + 1; v <= since+3; v++ {
		if err := send(guest.ChangeSet{Base: base, Since: v - 1, Version: v}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeChanges) PollNow(_ context.Context, base string) (guest.ChangeSet, error) {
	return guest.ChangeSet{Base: base, Version: 7, Reset: true, Upserts: []guest.Change{{Path: "a\nb", Status: "added"}}}, nil
}

func (f *fakeChanges) Dirty(_ context.Context, base string) (guest.Dirty, error) {
	return guest.Dirty{Base: base, Paths: []string{"a\nb"}}, nil
}

func (f *fakeChanges) Diff(_ context.Context, req guest.DiffRequest, w io.Writer) error {
	_, err := fmt.Fprintf(w, "diff of %s", req.Path)
	return err
}

func (f *fakeChanges) Hint() {}
