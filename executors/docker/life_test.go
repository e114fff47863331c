//go:build linux

package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/testing/testdocker"
)

// serverLines is how many lines the little server's process prints.
const serverLines = 200_000

// littleServer is a server that is killed in mid-stream: it makes a sandbox, starts a process in it and copies its output to
// stdout until it dies. Its first line is the handle.
func littleServer() int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	ctx := context.Background()
	dir := os.Getenv("PARAWORK_TEST_SERVER")
	e, err := docker.New(docker.Config{Dir: filepath.Join(dir, "sandboxes"), GuestPath: os.Getenv("PARAWORK_TEST_GUEST"),
		Host: os.Getenv("PARAWORK_TEST_DOCKER"), Image: testdocker.Image})
	if err != nil {
		return fail(err)
	}
	sb, err := e.Create(ctx, executors.Spec{ID: "sbx_killed", TeamID: "team_1", WorkspaceID: "ws_1", Root: filepath.Join(dir, "root")})
	if err != nil {
		return fail(err)
	}
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: "sbx_killed", Now: time.Now})
	_, err = c.Start(ctx, guest.ProcessSpec{ID: "p_killed", Tty: true, Size: guest.Size{Cols: 80, Rows: 24},
		Argv: []string{"/bin/sh", "-c", "seq -f 'line %.0f of the stream' 1 " + strconv.Itoa(serverLines) + "; read -r x; echo got $x; exit 43"}})
	if err != nil {
		return fail(err)
	}
	handle, err := json.Marshal(sb.Handle())
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%s\n", handle)
	out, err := c.Output(ctx, "p_killed", guest.Terminal, 0)
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(os.Stdout, out)
	return fail(err)
}

// The server is killed with -9 in mid-stream: the process goes on, and the next server gets exactly the missing bytes.
func TestServerKilledInMidStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(self)
	server.Env = append(os.Environ(), "PARAWORK_TEST_SERVER="+dir, "PARAWORK_TEST_GUEST="+guestPath, "PARAWORK_TEST_DOCKER="+engine.Host)
	server.Stderr = t.Output()
	pipe, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(pipe)
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the little server told no handle: %v", err)
	}
	var handle executors.Handle
	if err := json.Unmarshal(line, &handle); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := io.CopyN(&got, r, 300_000); err != nil {
		t.Fatalf("the first bytes: %v", err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&got, r); err != nil { // what it had passed on before it died
		t.Fatal(err)
	}
	_ = server.Wait()

	sb, err := e.Recover(t.Context(), handle)
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	c := dial(t, sb)
	out, err := c.Output(t.Context(), "p_killed", guest.Terminal, int64(got.Len()))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := c.Input(t.Context(), "p_killed")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("hello\r")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(&got, out); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for i := 1; i <= serverLines; i++ {
		fmt.Fprintf(&want, "line %d of the stream\r\n", i)
	}
	text := strings.Replace(got.String(), "hello\r\n", "", 1) // the echo of what was typed may stand anywhere
	if want.WriteString("got hello\r\n"); text != want.String() {
		t.Errorf("bytes are missing or changed: %d of %d", len(text), want.Len())
	}
	end, err := c.Wait(t.Context(), "p_killed")
	if err != nil || end.ExitCode == nil || *end.ExitCode != 43 {
		t.Errorf("ended as %+v, %v", end, err)
	}
}

func TestPauseAndWake(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sb := create(t, e, spec(t))
	pauser := sb.(executors.Pauser)
	if ran, err := e.Ran(t.Context(), sb.Handle()); err != nil || ran.BeganAt == 0 || ran.EndedAt != 0 {
		t.Errorf("the run of one that runs: %+v, %v", ran, err)
	}
	for range 2 {
		if err := pauser.Pause(t.Context()); err != nil {
			t.Fatalf("Pause: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := dial(t, sb).Hello(ctx); err == nil {
		t.Error("a paused guest answers")
	}
	_ = e.Close() // the server goes away while it is paused
	next := newExecutor(t, dir)
	again, err := next.Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover of a paused container: %v", err)
	}
	t.Cleanup(func() { _ = again.Destroy(context.Background()) })
	for range 2 {
		if err := again.(executors.Pauser).Resume(t.Context()); err != nil {
			t.Fatalf("Resume: %v", err)
		}
	}
	if out := run(t, again, "echo awake"); out != "awake\n" {
		t.Errorf("after waking: %q", out)
	}
	if ran, err := next.Ran(t.Context(), sb.Handle()); err != nil || ran != (executors.Ran{}) { // the engine does not say since when it runs again
		t.Errorf("the run of one that was paused: %+v, %v", ran, err)
	}
	if err := again.(executors.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy of a paused container: %v", err)
	}
}

// What the server does not know of is found by its label alone, and what is another instance's is not ours.
func TestReaperFindsByLabel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	s := spec(t)
	sb := create(t, e, s)
	other := newExecutor(t, t.TempDir())
	otherSpec := spec(t)
	create(t, other, otherSpec)
	if err := os.RemoveAll(filepath.Join(dir, "sandboxes", s.ID)); err != nil {
		t.Fatal(err)
	}
	list, err := e.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != s.ID {
		t.Fatalf("List: %+v, %v", list, err)
	}
	if _, err := e.Recover(t.Context(), executors.Handle{Kind: docker.Kind, ID: otherSpec.ID}); !errors.Is(err, executors.ErrGone) {
		t.Errorf("another instance's sandbox: %v", err)
	}
	_ = e.Close()
	next := newExecutor(t, dir)
	if _, err := next.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("a container without its folder: %v", err)
	}
	if list, err := next.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List after it was found gone: %+v, %v", list, err)
	}
}

// A container that has ended says why, and leaves what its guest wrote until it is swept.
func TestGoneWithWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	s := spec(t)
	sb := create(t, e, s)
	run(t, sb, "echo work > work.txt")
	if out, err := exec.Command("docker", "-H", engine.Host, "kill", "parawork-"+s.ID).CombinedOutput(); err != nil {
		t.Fatalf("docker kill: %v %s", err, out)
	}
	began := time.Now()
	if _, err := dial(t, sb).Hello(t.Context()); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("hello of one that was killed: %v after %s", err, time.Since(began))
	}
	_, err := e.Recover(t.Context(), sb.Handle())
	if !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Recover: %v", err)
	}
	if rest, ok := e.Remnants(s.ID); !ok || rest == "" {
		t.Error("nothing remains")
	}
	if err := e.Sweep(t.Context(), s.ID); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if _, ok := e.Remnants(s.ID); ok {
		t.Error("it was not swept")
	}
	if b, err := os.ReadFile(filepath.Join(s.Root, "work.txt")); err != nil || string(b) != "work\n" {
		t.Errorf("the work: %q, %v", b, err)
	}
}

// Engines of their own, for they are killed.
func TestTheEngineGoesAndComesBack(t *testing.T) {
	t.Parallel()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	t.Run("with live-restore", func(t *testing.T) {
		t.Parallel()
		d := startEngine(t, "--live-restore")
		dir := t.TempDir()
		on := func(c *docker.Config) { c.Host = d.Host }
		e := newWith(t, dir, on)
		sb := create(t, e, spec(t))
		c := dial(t, sb)
		p, err := c.Start(t.Context(), guest.ProcessSpec{ID: "p_1", Argv: []string{"/bin/sh", "-c", "sleep 1000"}})
		if err != nil {
			t.Fatal(err)
		}
		d.Kill(t)
		if _, err := c.Process(t.Context(), p.ID); err != nil {
			t.Errorf("the guest while the engine is down: %v", err)
		}
		_ = e.Close() // and the server, too
		e = newWith(t, dir, on)
		again, err := e.Recover(t.Context(), sb.Handle())
		if err != nil {
			t.Fatalf("Recover while the engine is down: %v", err)
		}
		if _, err := dial(t, again).Process(t.Context(), p.ID); err != nil {
			t.Errorf("the process: %v", err)
		}
		if _, err := e.List(t.Context()); err == nil {
			t.Error("List while the engine is down")
		}
		if err := again.Destroy(t.Context()); err == nil {
			t.Error("destroyed while the engine is down")
		}
		d.Up(t)
		if again, err = e.Recover(t.Context(), sb.Handle()); err != nil {
			t.Fatalf("Recover when the engine is back: %v", err)
		}
		if got, err := dial(t, again).Process(t.Context(), p.ID); err != nil || got.State != guest.Running {
			t.Errorf("the process: %+v, %v", got, err)
		}
	})
	t.Run("without live-restore", func(t *testing.T) {
		t.Parallel()
		d := startEngine(t)
		e := newWith(t, t.TempDir(), func(c *docker.Config) { c.Host = d.Host })
		s := spec(t)
		sb := create(t, e, s)
		run(t, sb, "echo work > work.txt; git add -A; git -c user.name=a -c user.email=a@b commit -qm work")
		d.Down(t)
		if _, err := e.Recover(t.Context(), sb.Handle()); err == nil || errors.Is(err, executors.ErrGone) {
			t.Errorf("Recover while the engine is down: %v", err)
		}
		d.Up(t)
		if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "Docker was restarted") {
			t.Errorf("Recover after the restart: %v", err)
		}
		if err := e.Sweep(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		s.ID += "2"
		if out := run(t, create(t, e, s), "git log --format=%s -1; cat work.txt"); out != "work\nwork\n" {
			t.Errorf("in the next container: %q", out)
		}
	})
}

func startEngine(t *testing.T, flags ...string) *testdocker.Daemon {
	t.Helper()
	d, err := testdocker.Start(flags...)
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	return d
}
