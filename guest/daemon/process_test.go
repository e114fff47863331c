//go:build linux

package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
)

func TestHello(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, err := p.Hello(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != guest.Version || h.SandboxID != p.id || h.Root != p.root || h.Pid != p.cmd.Process.Pid || h.Degraded != "" {
		t.Fatalf("hello %+v", h)
	}
}

func TestPipesExitCodeAndOutput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `echo out; echo err >&2; exit 43`))
	got := p.wait("a")
	if got.State != guest.Exited || got.ExitCode == nil || *got.ExitCode != 43 || got.Reason != "exit" || got.Ends[guest.Stdout] != 4 {
		t.Fatalf("process %+v", got)
	}
	if out, err := p.all("a", guest.Stdout), p.all("a", guest.Stderr); out != "out\n" || err != "err\n" {
		t.Fatalf("out %q err %q", out, err)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(tty(shell("a", `stty size; tty >/dev/null && echo terminal; read x; echo "got $x"; stty size`)))
	ctx := within(t)
	o, err := p.Output(ctx, "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if got := until(t, o, "terminal"); !strings.HasPrefix(got, "24 80\r\n") {
		t.Fatalf("began with %q", got)
	}
	if err := p.Resize(ctx, "a", guest.Size{Cols: 132, Rows: 43}); err != nil {
		t.Fatal(err)
	}
	in, err := p.Input(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(in.Last+1, []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	got := until(t, o, "43 132")
	if !strings.Contains(got, "got hello\r\n") {
		t.Fatalf("read %q", got)
	}
	if end := p.wait("a"); end.ExitCode == nil || *end.ExitCode != 0 || end.Size != (guest.Size{Cols: 132, Rows: 43}) {
		t.Fatalf("end %+v", end)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := shell("a", `env`)
	spec.Env = map[string]string{"GIVEN": "yes", "PARAWORK_PROCESS": "another"}
	p.start(spec)
	p.wait("a")
	got := "\n" + p.all("a", guest.Stdout)
	for _, want := range []string{"GIVEN=yes", "CACHE=/c", "LC_TEST=ok", "TERM=xterm-256color", "PARAWORK_PROCESS=a", "PARAWORK_SANDBOX_ID=" + p.id, "PWD=" + p.root} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%q is missing in%s", want, got)
		}
	}
	for _, secret := range []string{"SECRET_OF_HOST", "GUEST_"} {
		if strings.Contains(got, "\n"+secret) {
			t.Errorf("%s reached the program", secret)
		}
	}
}

func TestStartIsIdempotentAndAFailedOneIsAProcess(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := shell("a", `echo once >> count`)
	var starts sync.WaitGroup
	for range 8 {
		starts.Go(func() {
			if _, err := p.Start(within(t), spec); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	p.wait("a")
	if b, _ := os.ReadFile(filepath.Join(p.root, "count")); string(b) != "once\n" {
		t.Fatalf("ran %q", b)
	}
	for id, argv := range map[string][]string{"b": {"no-such-program"}, "c": {"/no/such"}, "d": {"/"}, "e": {"./none"}} {
		got := p.start(guest.ProcessSpec{ID: id, Argv: argv})
		if got.State != guest.Exited || !strings.HasPrefix(got.Reason, "start_failed: ") || got.ExitCode != nil {
			t.Errorf("%v: %+v", argv, got)
		}
		if w := p.wait(id); w.Reason != got.Reason {
			t.Errorf("waiting for %v: %+v", argv, w)
		}
	}
	if got := p.start(guest.ProcessSpec{ID: "f", Argv: []string{"true"}, Cwd: "no/such/dir"}); !strings.Contains(got.Reason, "does not exist") {
		t.Errorf("a folder that is not there: %+v", got)
	}
	for name, bad := range map[string]guest.ProcessSpec{
		"no command": {ID: "x"}, "NUL": {ID: "x", Argv: []string{"a\x00b"}}, "id": {ID: "../x", Argv: []string{"true"}},
		"env": {ID: "x", Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}},
	} {
		if _, err := p.Start(within(t), bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := p.Processes(within(t))
	if err != nil || len(list) != 6 {
		t.Errorf("processes %v, %v", list, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := shell("a", `exec sleep 1000`)
	spec.TimeoutMs = 50
	p.start(spec)
	if got := p.wait("a"); got.Reason != "timeout" || got.Signal != "SIGTERM" {
		t.Fatalf("process %+v", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("a", `sleep 1000`))
	if err := p.Remove(within(t), "a"); !fault.Is(err, fault.Conflict) {
		t.Fatalf("removing a running process: %v", err)
	}
	if _, err := p.Stop(within(t), "a", 0); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Process(within(t), "a"); !fault.Is(err, fault.NotFound) {
		t.Fatalf("after removing: %v", err)
	}
	if _, err := os.Stat(guest.ProcessDir(p.dir, "a")); !os.IsNotExist(err) {
		t.Fatalf("its folder is still there: %v", err)
	}
}

func TestWrongTokenAndWrongSandbox(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := p.connect("guess").Hello(within(t)); fault.CodeOf(err) != "guest_unauthorized" {
		t.Fatalf("a wrong token: %v", err)
	}
	if _, err := p.connect("guess").Output(within(t), "a", guest.Stdout, 0); fault.CodeOf(err) != "guest_unauthorized" {
		t.Fatalf("a wrong token: %v", err)
	}
	other := client.New(client.Config{Dial: p.dial, Token: testToken, SandboxID: "another"})
	defer other.Close()
	if _, err := other.Hello(within(t)); fault.CodeOf(err) != "guest_wrong_answer" {
		t.Fatalf("another sandbox: %v", err)
	}
}

func TestRecordsOutliveTheGuest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(shell("ended", `echo last words; exit 3`))
	p.wait("ended")
	p.start(tty(shell("running", `echo still here; exec sleep 1000`)))
	o, err := p.Output(within(t), "running", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	until(t, o, "still here\r\n")
	_ = o.Close()
	// Who reads comes before the disk: what was read is written down a moment later.
	eventually(t, "its output is on disk", func() bool {
		b, err := os.ReadFile(bytelog.EmptySegment(filepath.Join(guest.ProcessDir(p.dir, "running"), string(guest.Terminal)), 0))
		return err == nil && string(b) == "still here\r\n"
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
	rec, err := guest.ReadProcessRecord(p.dir, "ended")
	if err != nil || rec.ExitCode == nil || *rec.ExitCode != 3 || rec.Ends[guest.Stdout] != 11 {
		t.Fatalf("record %+v, %v", rec, err)
	}
	if rec, err := guest.ReadProcessRecord(p.dir, "running"); err != nil || rec.State != guest.Running {
		t.Fatalf("record %+v, %v", rec, err)
	}
	if _, err := guest.ReadProcessRecord(p.dir, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no record: %v", err)
	}
	p.boot()
	if got := p.wait("ended"); got.Reason != "exit" || *got.ExitCode != 3 {
		t.Fatalf("after the guest's restart: %+v", got)
	}
	if got := p.wait("running"); got.Reason != "lost" || got.ExitCode != nil {
		t.Fatalf("after the guest's restart: %+v", got)
	}
	if out := p.all("running", guest.Terminal); out != "still here\r\n" {
		t.Fatalf("its output is %q", out)
	}
}

func TestShutdownEndsEverything(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(tty(shell("a", `trap '' TERM HUP; setsid sleep 1000 & echo pid $!; sleep 1000; sleep 1000`)))
	o, err := p.Output(within(t), "a", guest.Terminal, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var pid int
	if _, err := fmt.Sscanf(until(t, o, "\n"), "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := p.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if alive(pid) {
		t.Fatal("a descendant lives on")
	}
	if rec, err := guest.ReadProcessRecord(p.dir, "a"); err != nil || rec.Reason != "stopped" {
		t.Fatalf("record %+v, %v", rec, err)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the guest ended with %d", code)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(program("a", "listen"))
	o, err := p.Output(within(t), "a", guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var port int
	if _, err := fmt.Sscanf(until(t, o, "\n"), "port %d", &port); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port is seen", func() bool {
		s, err := p.Stats(within(t))
		return err == nil && len(s.Ports) == 1 && s.Ports[0] == port && s.Processes == 1 && s.RSSBytes > 1<<20 && s.LastOutput > 0
	})
}

func TestWork(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start(guest.ProcessSpec{ID: "a", Argv: []string{"bash", "--norc", "-i"}, Tty: true, Size: guest.Size{Cols: 80, Rows: 24}})
	look := func() guest.Work {
		w, err := p.Work(within(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if w := look(); w.Processes != 1 || w.Foreground != "" || len(w.Programs) != 0 {
		t.Errorf("at its prompt: %+v", w)
	}
	in, err := p.Input(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("sleep 1000\r")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a program runs in front", func() bool {
		w := look()
		return w.Foreground == "sleep" && w.Processes == 2 && len(w.Programs) == 1 && w.Programs[0].Name == "sleep" && w.Programs[0].AgeMs < 60_000
	})
	quiet := look().CPUMs
	if err := in.Write(2, []byte("\x03while :; do :; done\r")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "CPU is used", func() bool { return look().CPUMs > quiet+50 })
	if w := look(); w.Foreground != "" || w.Processes != 1 {
		t.Errorf("a loop of the shell's own: %+v", w)
	}
	if _, err := p.Work(within(t), "b"); !fault.Is(err, fault.NotFound) {
		t.Errorf("of no process: %v", err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	w, err := p.Watch(within(t), "abc", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for v := uint64(5); v < 8; v++ {
		set, err := w.Next()
		if err != nil || set.Version != v {
			t.Fatalf("set %+v, %v", set, err)
		}
	}
	set, err := p.PollNow(within(t), "abc")
	if err != nil || !set.Reset || set.Upserts[0].Path != "a\nb" {
		t.Fatalf("set %+v, %v", set, err)
	}
	d, err := p.Diff(within(t), guest.DiffRequest{Base: "abc", Path: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if b, err := io.ReadAll(d); err != nil || string(b) != "diff of x" {
		t.Fatalf("diff %q, %v", b, err)
	}
}

// The answer to a start waits for a short command's end and brings its output; what is long, pours or goes on is read as ever.
func TestShortCommandsAreOneWayThereAndBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	start := func(id, script string, settle int64) guest.Process {
		t.Helper()
		spec := shell(id, script)
		spec.SettleMs = settle
		got, err := p.Start(within(t), spec)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	var got guest.Process
	for i := 0; got.State != guest.Exited; i++ { // a machine that is busy may not come to it in a second
		got = start(fmt.Sprintf("short%d", i), "echo out; echo err >&2; exit 3", guest.MaxSettle)
	}
	if *got.ExitCode != 3 || string(got.Early[guest.Stdout]) != "out\n" || string(got.Early[guest.Stderr]) != "err\n" {
		t.Errorf("a short one: %+v", got)
	}
	if again := start(got.ID, "echo not again", guest.MaxSettle); string(again.Early[guest.Stdout]) != "out\n" {
		t.Errorf("asked for again: %+v", again)
	}
	if long := start("long", "head -c 100000 /dev/zero", guest.MaxSettle); long.Early != nil {
		t.Errorf("100 kB came at once")
	}
	if out := p.all("long", guest.Stdout); len(out) != 100_000 {
		t.Errorf("%d bytes", len(out))
	}
	if runs := start("runs", "echo up; exec sleep 100", 1); runs.State != guest.Running || runs.Early != nil {
		t.Errorf("one that goes on: %+v", runs)
	}
	if plain := start("plain", "echo x", 0); plain.Early != nil {
		t.Errorf("nobody asked: %+v", plain)
	}
}
