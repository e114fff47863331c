//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

// pids are the processes of a box as the host counts them.
type pids struct {
	Pid   int `json:"pid"`
	Outer struct {
		Pid int `json:"pid"`
	} `json:"outer"`
}

func pidsOf(t *testing.T, sb executors.Sandbox) pids {
	t.Helper()
	var p pids
	if err := json.Unmarshal(sb.Handle().State, &p); err != nil || p.Pid <= 1 || p.Outer.Pid <= 1 {
		t.Fatalf("handle %s: %v", sb.Handle().State, err)
	}
	return p
}

// gone waits until the process has ended; a zombie has not been reaped and does not count.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := os.Stat("/proc/" + strconv.Itoa(pid)); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
			t.Fatalf("process %d is still there:\n%s", pid, b)
		}
		time.Sleep(10 * time.Millisecond) // the kernel tells only the parent
	}
}

// orphan starts a process in the box that leaves its session and hears no signal, and returns its pid as the host counts.
func orphan(t *testing.T, c *client.Client, guestPid int) int {
	t.Helper()
	mark := id.New("orphan")
	_, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c",
		`setsid sh -c 'trap "" TERM HUP; while :; do sleep 0.1; done' ` + mark + ` & wait`}})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // this state has no notification
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			b, _ := os.ReadFile(f)
			if strings.HasSuffix(string(b), mark+"\x00") && strings.HasPrefix(string(b), "sh\x00") {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
				if err == nil {
					return pid
				}
			}
		}
	}
	t.Fatal("the orphan is not there")
	return 0
}

// When the guest dies everything inside dies, and how its processes ended can still be read.
func TestAllEndsWithTheGuest(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	sb := create(t, e, spec(t))
	c := dial(t, sb)
	p, err := c.Start(t.Context(), guest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", "exit 43"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	who := pidsOf(t, sb)
	left := orphan(t, c, who.Pid)
	if err := syscall.Kill(who.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, left)
	gone(t, who.Pid)
	gone(t, who.Outer.Pid)
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("Recover: %v", err)
	}
	dir, ok := e.Remnants(sb.Handle().ID)
	if p, err := guest.ReadProcessRecord(dir, p.ID); !ok || err != nil || p.ExitCode == nil || *p.ExitCode != 43 {
		t.Errorf("the record of an ended process: %+v, %v, %v", p, ok, err)
	}
	if err := e.Sweep(t.Context(), sb.Handle().ID); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
}

// The program beside the box may be killed: the box lives on, is found, and can be ended.
func TestBubblewrapItselfKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sb := create(t, e, spec(t))
	who := pidsOf(t, sb)
	left := orphan(t, dial(t, sb), who.Pid)
	if err := syscall.Kill(who.Outer.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, who.Outer.Pid)
	found, err := newExecutor(t, dir).Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if _, err := dial(t, found).Hello(t.Context()); err != nil {
		t.Errorf("Hello: %v", err)
	}
	if err := e.Sweep(t.Context(), sb.Handle().ID); err != nil {
		t.Errorf("Sweep of a living box: %v", err)
	}
	if _, err := dial(t, found).Hello(t.Context()); err != nil {
		t.Errorf("Sweep ended it: %v", err)
	}
	if err := found.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	gone(t, left)
	gone(t, who.Pid)
}

// A server may die between starting a box and writing down who it is: the next one ends it.
func TestABoxWithoutARecordIsEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sb := create(t, e, spec(t))
	who := pidsOf(t, sb)
	left := orphan(t, dial(t, sb), who.Pid)
	if err := os.Remove(filepath.Join(dir, "sandboxes", sb.Handle().ID, "guest.json")); err != nil {
		t.Fatal(err)
	}
	again := newExecutor(t, dir)
	if _, err := again.Recover(t.Context(), executors.Handle{Kind: bubblewrap.Kind, ID: sb.Handle().ID, Version: 1}); !errors.Is(err, executors.ErrGone) {
		t.Fatalf("Recover: %v", err)
	}
	gone(t, who.Pid)
	gone(t, who.Outer.Pid)
	gone(t, left)
}

// littleServer makes a sandbox with a process in it, tells its handle and waits to be killed.
func littleServer() int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	ctx := context.Background()
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: os.Getenv("PARAWORK_TEST_SERVER"), GuestPath: os.Getenv("PARAWORK_TEST_GUEST")})
	if err != nil {
		return fail(err)
	}
	sb, err := e.Create(ctx, executors.Spec{ID: "sbx_killed", TeamID: "team_1", WorkspaceID: "ws_1", Root: os.Getenv("PARAWORK_TEST_ROOT")})
	if err != nil {
		return fail(err)
	}
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: "sbx_killed", Now: time.Now})
	_, err = c.Start(ctx, guest.ProcessSpec{ID: "p_killed", Tty: true, Size: guest.Size{Cols: 80, Rows: 24}, Argv: []string{"/bin/sh", "-c", "read -r x; echo got $x; exit 43"}})
	if err != nil {
		return fail(err)
	}
	handle, err := json.Marshal(sb.Handle())
	if err != nil {
		return fail(err)
	}
	fmt.Printf("%s\n", handle)
	select {}
}

// When the server dies nothing dies.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(self)
	server.Env = append(os.Environ(), "PARAWORK_TEST_SERVER="+filepath.Join(dir, "sandboxes"), "PARAWORK_TEST_GUEST="+guestPath, "PARAWORK_TEST_ROOT="+worktree(t))
	server.Stderr = t.Output()
	pipe, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the little server told no handle: %v", err)
	}
	var handle executors.Handle
	if err := json.Unmarshal(line, &handle); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	sb, err := newExecutor(t, dir).Recover(t.Context(), handle)
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	c := dial(t, sb)
	in, err := c.Input(t.Context(), "p_killed")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Write(1, []byte("hello\r")); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(t.Context(), "p_killed"); err != nil || end.ExitCode == nil || *end.ExitCode != 43 {
		t.Errorf("ended as %+v, %v", end, err)
	}
}
