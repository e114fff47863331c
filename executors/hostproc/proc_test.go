//go:build linux || darwin

package hostproc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/id"
)

// child is a process that runs until the test ends it, or its input.
type child struct {
	pid   int
	input io.Closer
	ended chan struct{}
}

// start runs lines of a shell that end with reading its input, with further arguments; it returns once they have said that they are up.
func start(t *testing.T, mark, lines string, args ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "/bin/sh", append([]string{"-c", lines}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if mark != "" {
		cmd.Env = append(cmd.Env, hostproc.Mark+"="+mark)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{pid: cmd.Process.Pid, input: in, ended: make(chan struct{})}
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-c.ended:
		default:
			_ = syscall.Kill(c.pid, syscall.SIGKILL)
		}
		<-c.ended
	})
	up, err := bufio.NewReader(out).ReadString('\n')
	go func() { // ends with the process
		defer close(c.ended)
		hostproc.Reap(cmd)
	}()
	if err != nil || up != "up\n" {
		t.Fatalf("%q, %v", up, err)
	}
	return c
}

const waits = "echo up; read x"

func identify(t *testing.T, pid int) hostproc.Identity {
	t.Helper()
	who, err := hostproc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return who
}

func TestAProcessIsKnownByMoreThanItsNumber(t *testing.T) {
	t.Parallel()
	sandbox := id.New("sbx")
	c := start(t, "", waits, "guest", "serve", "--sandbox", sandbox)
	who := identify(t, c.pid)
	if who.Pid != c.pid || who.Start == 0 || who.BootID == "" || who != identify(t, who.Pid) {
		t.Errorf("%+v", who)
	}
	if !who.Alive() || !who.GuestOf(sandbox) {
		t.Error("it runs, and is the sandbox's guest")
	}
	if who.GuestOf("another") || who.GuestOf("") {
		t.Error("it is taken for another sandbox's guest")
	}
	for what, other := range map[string]hostproc.Identity{
		"one that had the number before": {Pid: who.Pid, Start: who.Start - 1, BootID: who.BootID},
		"one before the machine began":   {Pid: who.Pid, Start: who.Start, BootID: "another boot"},
		"nobody":                         {},
		"the first process":              {Pid: 1, Start: who.Start, BootID: who.BootID},
		"a group":                        {Pid: -who.Pid, Start: who.Start, BootID: who.BootID},
	} {
		if other.Alive() || other.GuestOf(sandbox) {
			t.Errorf("%s is taken for it", what)
		}
	}
	stranger := start(t, "", waits)
	if identify(t, stranger.pid).GuestOf(sandbox) {
		t.Error("a stranger is taken for a guest")
	}
	if err := c.input.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	if who.Alive() {
		t.Error("it has ended, and is alive")
	}
	if runs, err := who.Runs(sandbox); err != nil || runs {
		t.Errorf("it has ended: %v, %v", runs, err)
	}
	if _, err := hostproc.Identify(who.Pid); err == nil && identify(t, who.Pid) == who {
		t.Error("it has ended, and is found")
	}
}

// What an agent starts belongs to its sandbox by its mark, or by who started it, whatever group or session it is in.
func TestTheProcessesOfASandbox(t *testing.T) {
	t.Parallel()
	sandbox := id.New("sbx")
	guest := start(t, "", waits, "guest", "--sandbox", sandbox)
	marked := start(t, sandbox, waits)
	other := start(t, id.New("sbx"), waits)
	parent := start(t, sandbox, `env -i /bin/sh -c 'echo up; read x'; true`) // its child dropped the mark
	who := identify(t, guest.pid)
	all := hostproc.Members(sandbox, who)
	for what, pid := range map[string]int{"the guest": guest.pid, "a marked one": marked.pid, "a parent": parent.pid} {
		if _, ok := all[pid]; !ok {
			t.Errorf("%s is missing", what)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d processes, want 4: the guest, the marked one, the parent and its child", len(all))
	}
	if _, ok := all[other.pid]; ok {
		t.Error("another sandbox's is among them")
	}
	if _, ok := all[os.Getpid()]; ok {
		t.Error("this process is among them")
	}
	who.Start-- // a record that names a stranger
	if _, ok := hostproc.Members(sandbox, who)[guest.pid]; ok {
		t.Error("a process that took the guest's number is among them")
	}
}

func TestASandboxEndsWithAllThatRunsInIt(t *testing.T) {
	t.Parallel()
	sandbox := id.New("sbx")
	guest := start(t, "", waits, "guest", "--sandbox", sandbox)
	meek := start(t, sandbox, waits)
	stubborn := start(t, sandbox, `trap "" TERM; echo up; while :; do read x || exec sleep 1000; done`)
	other := start(t, id.New("sbx"), waits)
	who := identify(t, guest.pid)
	if err := hostproc.End(t.Context(), sandbox, nil, who, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*child{guest, meek, stubborn} {
		<-c.ended
	}
	if left := hostproc.Members(sandbox, who); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if !identify(t, other.pid).Alive() {
		t.Error("another sandbox's process was ended")
	}
	if err := hostproc.End(t.Context(), sandbox, nil, who, time.Hour); err != nil { // nobody to wait for
		t.Errorf("again: %v", err)
	}
}

// Who was seen once is ended also when nothing ties it to the sandbox any more.
func TestKnownProcessesEndToo(t *testing.T) {
	t.Parallel()
	sandbox := id.New("sbx")
	c := start(t, sandbox, waits)
	known := hostproc.Members(sandbox, hostproc.Identity{})
	if len(known) != 1 {
		t.Fatalf("known: %v", known)
	}
	if err := hostproc.End(t.Context(), id.New("sbx"), known, hostproc.Identity{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	<-c.ended
}

func TestWaitingForAnEnd(t *testing.T) {
	t.Parallel()
	asked := 0
	if !hostproc.WaitGone(t.Context(), time.Hour, func() bool { asked++; return asked == 3 }) || asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	if hostproc.WaitGone(t.Context(), 0, func() bool { return false }) {
		t.Error("what stays is gone")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if hostproc.WaitGone(ctx, time.Hour, func() bool { return false }) {
		t.Error("nobody waits, and it is gone")
	}
}

// The folder may lie deeper than a socket's address reaches.
func TestTheGuestsSocket(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for what, dir := range map[string]string{"a short path": base, "a long path": filepath.Join(base, strings.Repeat("deep/", 40))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := hostproc.Dial(t.Context(), dir); err == nil {
			t.Errorf("%s: nobody listens, and it is dialed", what)
		}
		f, err := hostproc.Listen(dir)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		st, err := os.Lstat(filepath.Join(dir, hostproc.SocketName))
		if err != nil || st.Mode().Type() != os.ModeSocket || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", what, st.Mode(), err)
		}
		l, err := net.FileListener(f) // as the guest takes it over
		if err != nil {
			t.Fatal(err)
		}
		conn, err := hostproc.Dial(t.Context(), dir)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		taken, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(taken, b); err != nil || string(b) != "hello" {
			t.Errorf("%s: %q, %v", what, b, err)
		}
		for _, c := range []io.Closer{conn, taken, l, f} {
			_ = c.Close()
		}
	}
}

func TestAGuestThatIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := hostproc.Guest{ID: "sbx_1", Dir: dir, Token: "secret", Pid: 7}
	if err := g.Find(t.Context()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("without a socket: %v", err)
	}
	f, err := hostproc.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil { // its name stays, and nobody listens
		t.Fatal(err)
	}
	if err := g.Find(t.Context()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("with a socket nobody listens on: %v", err)
	}
	write(t, filepath.Join(dir, hostproc.OutputName), "panic: no memory\n")
	ended := make(chan struct{})
	close(ended)
	if err := g.Ready(t.Context(), time.Hour, ended); err == nil || !strings.Contains(err.Error(), "panic: no memory") {
		t.Errorf("a guest that ended at once: %v", err)
	}
	if err := g.Ready(t.Context(), time.Nanosecond, nil); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("a guest that does not come: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nobody wants it any more"))
	if err := g.Find(ctx); err == nil || errors.Is(err, executors.ErrGone) {
		t.Errorf("a question that was taken back is no proof: %v", err)
	}
	if err := g.Shutdown(t.Context(), time.Minute, func() bool { t.Error("it was waited for"); return false }); err == nil {
		t.Error("a guest that is away was asked to end")
	}
}
