package machine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/runner/machine"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// sh starts a shell line.
func sh(t *testing.T, c *client.Client, line string) guest.Process {
	t.Helper()
	p, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}})
	check(t, err)
	return p
}

// words reads all that a process writes.
func words(t *testing.T, c *client.Client, pid string) string {
	t.Helper()
	out, err := c.Output(t.Context(), pid, guest.Stdout, 0)
	check(t, err)
	defer out.Close()
	b, err := io.ReadAll(out)
	check(t, err)
	return string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) { // this state has no notification
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// The program on the machine ends and is started again: what runs goes on, is found by the same name and token, and nothing it wrote is lost.
func TestSandboxesOutliveTheProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	a := ask("ws_1")
	a.Env = map[string]string{"GIVEN": "a thing"}
	sb, err := r.make(t.Context(), a)
	check(t, err)
	p := sh(t, r.guest(sb), "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two $GIVEN")
	r.restart()
	var again wire.Sandbox
	check(t, r.notify(t.Context(), "GET", "/v1/sandboxes/"+sb.ID, nil, &again))
	if again != sb {
		t.Errorf("found again as %+v, was %+v", again, sb)
	}
	c := r.guest(sb)
	if _, err := c.WriteFile(t.Context(), "go", strings.NewReader(""), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := words(t, c, p.ID); got != "one\ntwo a thing\n" {
		t.Errorf("output %q", got)
	}
	if s, err := r.make(t.Context(), a); err != nil || s != sb {
		t.Errorf("made again: %+v, %v", s, err)
	}
}

// A guest that dies, as with the machine's power, is started again over the same files; the server keeps its sandbox and its token.
func TestDeadGuestIsStartedOverItsFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	c := r.guest(sb)
	p := sh(t, c, "echo work > file; sleep 1000")
	if _, err := c.WriteFile(t.Context(), "other", strings.NewReader("more"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	h, err := c.Hello(t.Context())
	check(t, err)
	check(t, syscall.Kill(h.Pid, syscall.SIGKILL))
	eventually(t, "another guest answers", func() bool {
		now, err := c.Hello(t.Context())
		return err == nil && now.Pid != h.Pid
	})
	if _, err := c.Process(t.Context(), p.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the process of the guest that died: %v", err)
	}
	f, _, err := c.ReadFile(t.Context(), "other")
	check(t, err)
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "more" {
		t.Errorf("its file: %q, %v", b, err)
	}
	var now wire.Sandbox
	check(t, r.notify(t.Context(), "GET", "/v1/sandboxes/"+sb.ID, nil, &now))
	if now.State != wire.Running || now.Token != sb.Token || now.Reason == "" {
		t.Errorf("the sandbox is %+v", now)
	}
}

// The owner's word holds at once for what runs: looking goes on, starting and writing end.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	c := r.guest(sb)
	_, err = c.WriteFile(t.Context(), "a", strings.NewReader("x"), client.WriteOptions{})
	check(t, err)
	p := policy.Default()
	p.Access = wire.ReadOnly
	r.allow(p)
	if _, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"true"}}); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("a start: %v", err)
	}
	if _, err := c.WriteFile(t.Context(), "b", strings.NewReader("x"), client.WriteOptions{}); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("a write: %v", err)
	}
	if err := c.RemoveFile(t.Context(), "a"); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("a removal: %v", err)
	}
	if _, err := r.make(t.Context(), ask("ws_2")); fault.CodeOf(err) != wire.CodeReadOnly {
		t.Errorf("a sandbox: %v", err)
	}
	if all, err := c.List(t.Context(), ""); err != nil || len(all.Items) != 1 || all.Items[0].Name != "a" {
		t.Errorf("looking: %+v, %v", all, err)
	}
}

// events reads what a machine tells.
type events struct {
	t    *testing.T
	body io.Closer
	in   chan wire.Event
}

func (r *rig) events(t *testing.T) *events {
	t.Helper()
	resp, err := r.ask(context.Background(), http.MethodGet, "/v1/events", nil)
	check(t, err)
	e := &events{t: t, body: resp.Body, in: make(chan wire.Event, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(e.in)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var ev wire.Event
			if json.Unmarshal(lines.Bytes(), &ev) == nil {
				e.in <- ev
			}
		}
	}()
	t.Cleanup(func() { _ = resp.Body.Close(); <-done })
	return e
}

// expect waits for an event.
func (e *events) expect(what string, ok func(wire.Event) bool) wire.Event {
	e.t.Helper()
	late := time.After(patience)
	for {
		select {
		case ev, more := <-e.in:
			if !more {
				e.t.Fatalf("the events ended before %s", what)
			}
			if ok(ev) {
				return ev
			}
		case <-late:
			e.t.Fatalf("no %s", what)
		}
	}
}

// In access "ask" the owner is asked for each thing, the server sees that it waits, and only the owner's yes lets it go on.
func TestAsk(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Access = wire.Ask
	r := newRig(t, t.TempDir(), p, nil)
	e := r.events(t)
	first := <-e.in
	if first.Type != wire.EventHello || first.Hello.Access != wire.Ask || first.Hello.Name != "Laptop" || !first.Hello.Available || first.Hello.CPUs == 0 || first.Hello.MemoryMB == 0 {
		t.Errorf("the first event: %+v, %+v", first, first.Hello)
	}
	answer := func(kind string, a policy.Answer) {
		t.Helper()
		q := e.expect("a question", func(ev wire.Event) bool { return ev.Type == wire.EventQuestion && ev.Question.Answer == "" })
		if q.Question.WorkspaceID != "ws_1" {
			t.Errorf("the question of %s: %+v", kind, q.Question)
		}
		check(t, r.keeper.Answer(q.Question.ID, a))
		e.expect("its answer", func(ev wire.Event) bool {
			return ev.Type == wire.EventQuestion && ev.Question.ID == q.Question.ID && ev.Question.Answer != ""
		})
	}
	type made struct {
		sb  wire.Sandbox
		err error
	}
	result := make(chan made, 1)
	go func() {
		sb, err := r.make(t.Context(), ask("ws_1"))
		result <- made{sb, err}
	}()
	answer("the sandbox", policy.Yes)
	got := <-result
	check(t, got.err)
	e.expect("the sandbox", func(ev wire.Event) bool {
		return ev.Type == wire.EventSandbox && ev.Sandbox.ID == got.sb.ID && ev.Sandbox.State == wire.Running && ev.Sandbox.Token == ""
	})
	c := r.guest(got.sb)
	errs := make(chan error, 1)
	start := func() {
		_, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"true"}})
		errs <- err
	}
	go start()
	answer("the process", policy.No)
	if err := <-errs; fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("a no: %v", err)
	}
	go start()
	answer("the process", policy.Always)
	check(t, <-errs)
	_, err := c.WriteFile(t.Context(), "a", strings.NewReader("x"), client.WriteOptions{})
	check(t, err)
}

// A sandbox without isolation shares the machine's loopback. What listens there is shown when the owner has said yes and a program of the
// sandbox serves it; the machine's own services never are.
func TestAPortIsTheOwnersToShow(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	c := r.guest(sb)
	service, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer service.Close()
	own := service.Addr().(*net.TCPAddr).Port
	if conn, err := c.DialPort(t.Context(), own); fault.CodeOf(err) != "port_closed" {
		t.Errorf("a service of the owner's was reached: %v, %v", conn, err)
	}
	r.expectLog(`"decision":"allowed"`, `"kind":"port"`, fmt.Sprintf(`"port":%d`, own))

	p := policy.Default()
	p.Access = wire.Ask
	r.allow(p)
	reached := make(chan error, 1)
	go func() {
		_, err := c.DialPort(t.Context(), own)
		reached <- err
	}()
	asked := r.events(t).expect("a question", func(ev wire.Event) bool { return ev.Type == wire.EventQuestion && ev.Question.Answer == "" })
	if !strings.Contains(asked.Question.Text, fmt.Sprintf("port %d", own)) {
		t.Errorf("the question: %+v", asked.Question)
	}
	check(t, r.keeper.Answer(asked.Question.ID, policy.No))
	if err := <-reached; fault.CodeOf(err) != wire.CodeRefused {
		t.Errorf("a no: %v", err)
	}
	r.expectLog(`"decision":"refused"`, `"kind":"port"`, wire.CodeRefused)
}

// overFake runs the machine over sandboxes in this process.
func overFake(t *testing.T, change func(*machine.Config)) (*rig, *fake.World, *fake.Executor) {
	t.Helper()
	dir := t.TempDir()
	w := fake.NewWorld(filepath.Join(dir, "world"), nil)
	t.Cleanup(w.Close)
	e := fake.New(w)
	r := newRig(t, dir, policy.Default(), func(c *machine.Config) {
		c.Executor, c.Mode = e, wire.Docker
		if change != nil {
			change(c)
		}
	})
	return r, w, e
}

// A making goes on when the server is cut off: it asks again, and gets the one that was begun.
func TestMakingOutlivesTheConnection(t *testing.T) {
	t.Parallel()
	r, _, e := overFake(t, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	e.Set(fake.Knobs{Creating: func(ctx context.Context) {
		executors.SayStep(ctx, "image", "Fetch the image", "")
		close(begun)
		<-goOn
	}})
	a := ask("ws_1")
	ctx, cut := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		_, err := r.make(ctx, a)
		lost <- err
	}()
	<-begun
	cut()
	if err := <-lost; err == nil {
		t.Fatal("the first was answered")
	}
	resp, err := r.ask(t.Context(), "POST", "/v1/sandboxes", a)
	check(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	var steps []string
	for lines.Scan() {
		var p wire.Progress
		if len(lines.Bytes()) > 0 {
			check(t, json.Unmarshal(lines.Bytes(), &p))
		}
		if p.Step != "" {
			steps = append(steps, p.Step)
		}
		if p.Step == "image" {
			close(goOn)
		}
		if p.Sandbox != nil {
			break
		}
	}
	if strings.Join(steps, " ") != "create image" || e.Creates() != 1 {
		t.Errorf("steps %q, %d makings", steps, e.Creates())
	}
}

// Nobody waits for the sandbox any more: it is not made, and nothing of it is left. Neither is one that is removed while it is made.
func TestMakingNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	r, _, e := overFake(t, func(c *machine.Config) { c.Orphan = 10 * time.Millisecond })
	var begun chan struct{}
	e.Set(fake.Knobs{Creating: func(ctx context.Context) { close(begun); <-ctx.Done() }})
	empty := func() bool {
		journal, err := os.ReadDir(filepath.Join(r.dir, "machine", "journal"))
		check(t, err)
		trees, err := os.ReadDir(filepath.Join(r.dir, "machine", "workspaces"))
		check(t, err)
		return len(journal)+len(trees)+len(r.m.Standings()) == 0
	}
	for _, remove := range []bool{false, true} {
		begun = make(chan struct{})
		a := ask("ws_1")
		ctx, cut := context.WithCancel(t.Context())
		lost := make(chan error, 1)
		go func() {
			_, err := r.make(ctx, a)
			lost <- err
		}()
		<-begun
		if remove {
			check(t, r.notify(t.Context(), "DELETE", "/v1/sandboxes/"+a.ID, none, nil))
			if err := <-lost; fault.CodeOf(err) != "sandbox_cancelled" {
				t.Errorf("a making that was cancelled: %v", err)
			}
		} else {
			cut()
			<-lost
		}
		cut()
		eventually(t, "nothing is left", empty)
	}
}

// What a program that died was making is removed by the next one; what it was ending is ended.
func TestHalfDoneIsFinished(t *testing.T) {
	t.Parallel()
	r, _, e := overFake(t, nil)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	e.Set(fake.Knobs{DestroyErr: errors.New("not now")})
	if err := r.notify(t.Context(), "DELETE", "/v1/sandboxes/"+sb.ID, none, nil); err == nil {
		t.Error("it was ended")
	}
	if _, err := r.link.Stream(t.Context(), wire.PipePath(sb.ID), nil); !fault.Is(err, fault.Gone) {
		t.Errorf("a pipe to what is being ended: %v", err)
	}
	e.Set(fake.Knobs{})
	r.stop()
	// One that was being made when the program was killed: its page is all there is of it.
	journal := filepath.Join(r.dir, "machine", "journal")
	b, err := os.ReadFile(filepath.Join(journal, sb.ID+".json"))
	check(t, err)
	half := strings.NewReplacer(sb.ID, "sbx_half", `"place":"ws_1"`, `"place":"ws_9"`, `"state":"ending"`, `"state":"making"`).Replace(string(b))
	check(t, os.WriteFile(filepath.Join(journal, "sbx_half.json"), []byte(half), 0o600))
	check(t, os.MkdirAll(filepath.Join(r.dir, "machine", "workspaces", "ws_9", "tree"), 0o755))
	r.start()
	eventually(t, "both are gone", func() bool {
		left, err := os.ReadDir(journal)
		check(t, err)
		trees, err := os.ReadDir(filepath.Join(r.dir, "machine", "workspaces"))
		check(t, err)
		all, err := e.List(t.Context())
		check(t, err)
		return len(left)+len(trees)+len(all) == 0
	})
}

// The smaller of what the server asks and what the owner allows holds, for each sandbox and for how many there are.
func TestLimits(t *testing.T) {
	t.Parallel()
	r, _, e := overFake(t, nil)
	p := policy.Default()
	p.Limits = policy.Limits{Sandboxes: 2, CPUs: 2, MemoryMB: 1024}
	r.allow(p)
	eventually(t, "the file holds", func() bool {
		_ = r.keeper.Check(t.Context(), policy.Ask{Kind: policy.KindSandbox}) // it reads the file
		return r.keeper.Policy().Limits.Sandboxes == 2
	})
	a := ask("ws_1")
	a.Limits = wire.Limits{CPUs: 4, MemoryMB: 512, Processes: 100}
	_, err := r.make(t.Context(), a)
	check(t, err)
	if got := e.Specs()[0].Limits; got != (executors.Limits{CPUs: 2, MemoryMB: 512, Processes: 100}) {
		t.Errorf("limits %+v", got)
	}
	_, err = r.make(t.Context(), ask("ws_2"))
	check(t, err)
	if _, err := r.make(t.Context(), ask("ws_3")); fault.CodeOf(err) != wire.CodeFull {
		t.Errorf("a third: %v", err)
	}
	check(t, r.notify(t.Context(), "DELETE", "/v1/sandboxes/"+a.ID, none, nil))
	_, err = r.make(t.Context(), ask("ws_3"))
	check(t, err)
}

// Two sandboxes of one workspace never share files.
func TestTwoSandboxesOfAWorkspace(t *testing.T) {
	t.Parallel()
	r, _, _ := overFake(t, nil)
	one, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	two, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	if one.Root == two.Root {
		t.Errorf("both lie at %s", one.Root)
	}
	check(t, r.notify(t.Context(), "DELETE", "/v1/sandboxes/"+one.ID, none, nil))
	if _, err := os.Stat(two.Root); err != nil {
		t.Errorf("the other's files: %v", err)
	}
	if _, err := os.Stat(one.Root); err == nil {
		t.Error("its own files are there")
	}
}

// The kill switch ends what runs, at once, and keeps it so; files stay, and come back when the owner starts it again.
func TestHalt(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir(), policy.Default(), nil)
	e := r.events(t)
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	c := r.guest(sb)
	_, err = c.WriteFile(t.Context(), "a", strings.NewReader("x"), client.WriteOptions{})
	check(t, err)
	p := sh(t, c, "sleep 1000")
	check(t, r.keeper.Stop())
	check(t, r.m.Halt(t.Context(), "Its owner has stopped the machine."))
	if err := syscall.Kill(p.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process lives: %v", err)
	}
	e.expect("that it is suspended", func(ev wire.Event) bool {
		return ev.Type == wire.EventSandbox && ev.Sandbox.State == wire.Paused && strings.Contains(ev.Sandbox.Reason, "stopped")
	})
	if _, err := c.List(t.Context(), ""); err == nil {
		t.Error("its guest answers")
	}
	if err := r.notify(t.Context(), "GET", "/v1/sandboxes/"+sb.ID, nil, nil); fault.CodeOf(err) != wire.CodeStopped {
		t.Errorf("asked for: %v", err)
	}
	r.restart()
	if err := r.notify(t.Context(), "GET", "/v1/sandboxes/"+sb.ID, nil, nil); fault.CodeOf(err) != wire.CodeStopped {
		t.Errorf("asked for after a restart: %v", err)
	}
	check(t, r.keeper.Start())
	var now wire.Sandbox
	check(t, r.notify(t.Context(), "GET", "/v1/sandboxes/"+sb.ID, nil, &now))
	if now.State != wire.Running {
		t.Errorf("it is %+v", now)
	}
	if all, err := r.guest(now).List(t.Context(), ""); err != nil || len(all.Items) != 1 {
		t.Errorf("its files: %+v, %v", all, err)
	}
}

// A machine that leaves says so, and with remove waits until the server has synced everything.
func TestLeave(t *testing.T) {
	t.Parallel()
	r, _, _ := overFake(t, func(c *machine.Config) { c.Heartbeat = 20 * time.Millisecond })
	sb, err := r.make(t.Context(), ask("ws_1"))
	check(t, err)
	sh(t, r.guest(sb), "exit 3")
	sleeping, err := r.guest(sb).Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"sleep", "1000"}})
	check(t, err)
	done := sh(t, r.guest(sb), "true")
	words(t, r.guest(sb), done.ID)
	eventually(t, "what runs is known", func() bool {
		all := r.m.Look(t.Context())
		return len(all) == 1 && strings.Join(all[0].Programs, " ") == "sleep" && sleeping.State == guest.Running
	})
	if stay, reported := r.m.Leave(t.Context(), "Ctrl-C was pressed.", false); reported || len(stay) != 1 || stay[0].ID != sb.ID || stay[0].Key != "PW-1" {
		t.Errorf("without a server that listens: %+v, %v", stay, reported)
	}
	e := r.events(t)
	e.expect("a heartbeat", func(ev wire.Event) bool {
		return ev.Type == wire.EventLoad && ev.Load.Sandboxes == 1 && ev.Load.DiskFreeMB > 0
	})
	for range 2 { // told twice
		if _, reported := r.m.Leave(t.Context(), "Ctrl-C was pressed.", false); !reported {
			t.Error("the server was not notified")
		}
	}
	type left struct {
		stay     []machine.Standing
		reported bool
	}
	result := make(chan left, 1)
	go func() {
		stay, reported := r.m.Leave(t.Context(), "It is taken away.", true)
		result <- left{stay, reported}
	}()
	ev := e.expect("that it leaves", func(ev wire.Event) bool { return ev.Type == wire.EventLeaving && ev.Remove })
	if ev.Reason != "It is taken away." || !ev.Remove {
		t.Errorf("leaving: %+v", ev)
	}
	check(t, r.notify(t.Context(), "DELETE", "/v1/sandboxes/"+sb.ID, none, nil))
	if got := <-result; !got.reported || len(got.stay) != 0 {
		t.Errorf("left: %+v", got)
	}
}

// A machine whose sandboxes use its own programs says which agents it has.
func TestAMachineSaysWhichAgentsItHas(t *testing.T) {
	bin, r := t.TempDir(), newRig(t, t.TempDir(), policy.Default(), nil)
	check(t, os.WriteFile(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", bin)
	h := r.m.Hello(t.Context())
	if codex, said := h.Programs["codex"]; !h.Programs["claude"] || codex || !said {
		t.Errorf("in mode %s it says %v", h.Mode, h.Programs)
	}
}
