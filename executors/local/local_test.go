//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/guest"
	_ "github.com/parawork/parawork/guest/changes" // what the guest binary is made of: a change there makes these tests run again
	"github.com/parawork/parawork/guest/client"
	_ "github.com/parawork/parawork/guest/daemon"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testguest"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	if os.Getenv("PARAWORK_TEST_SERVER") != "" {
		os.Exit(littleServer())
	}
	os.Exit(testguest.Run(m, &guestPath))
}

func newExecutor(t *testing.T, dir string) *local.Executor {
	t.Helper()
	e, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "sandboxes"), GuestPath: guestPath,
		Grace: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, executortest.Config{Abilities: []string{"Destroyer", "RemnantKeeper", "Remover"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser"},
		New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	executortest.Faults(t, executortest.Here(func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }, nil))
}

// create makes a sandbox that is destroyed when the test ends.
func create(t *testing.T, e *local.Executor, s executors.Spec) executors.Sandbox {
	t.Helper()
	sb, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

func spec(t *testing.T) executors.Spec {
	return executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", Root: executortest.GitRoot(t)}
}

func dial(t *testing.T, sb executors.Sandbox) *client.Client {
	t.Helper()
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now})
	t.Cleanup(c.Close)
	return c
}

// A worktree that is reached through a link, as that of a data folder on another disk, is known by the name its programs see.
func TestWorktreeBehindALink(t *testing.T) {
	t.Parallel()
	s := spec(t)
	want, err := filepath.EvalSymlinks(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.Root, link); err != nil {
		t.Fatal(err)
	}
	s.Root = link
	c := dial(t, create(t, newExecutor(t, t.TempDir()), s))
	h, err := c.Hello(t.Context())
	if err != nil || h.Root != want {
		t.Errorf("the guest says %q, %v; programs see %q", h.Root, err, want)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	teams := func(n int, err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, err }
	}
	for name, test := range map[string]struct {
		cfg       local.Config
		available bool
	}{
		"one team":         {local.Config{Enabled: true, GuestPath: guestPath, TeamCount: teams(1, nil)}, true},
		"nobody asks":      {local.Config{Enabled: true, GuestPath: guestPath}, true},
		"two teams":        {local.Config{Enabled: true, GuestPath: guestPath, TeamCount: teams(2, nil)}, false},
		"cannot count":     {local.Config{Enabled: true, GuestPath: guestPath, TeamCount: teams(0, errors.New("no"))}, false},
		"switched off":     {local.Config{GuestPath: guestPath}, false},
		"no guest program": {local.Config{Enabled: true, GuestPath: filepath.Join(dir, "none")}, false},
	} {
		test.cfg.Dir = dir
		e, err := local.New(test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Capabilities(ctx)
		if err != nil || c.Available != test.available || c.Isolated || !strings.HasPrefix(c.Isolation, "No isolation") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if !c.Available && (c.Reason == "" || c.Cure == "") {
			t.Errorf("%s: no reason or no cure: %+v", name, c)
		}
	}
}

func TestLongSocketPath(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(t.TempDir(), strings.Repeat("a-folder-with-a-long-name/", 8))
	sb := create(t, newExecutor(t, deep), spec(t))
	if _, err := dial(t, sb).Hello(t.Context()); err != nil {
		t.Errorf("Hello: %v", err)
	}
}

func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := local.New(local.Config{Enabled: true, Dir: dir, GuestPath: guestPath,
		Env: func() []string { return append(os.Environ(), "PW_SECRET_KEY=do-not-tell") }})
	if err != nil {
		t.Fatal(err)
	}
	sb := create(t, e, spec(t))
	if strings.Contains(string(sb.Handle().State), sb.Token()) || len(sb.Token()) < 64 {
		t.Error("the handle, which is stored, carries the token, or the token is short")
	}
	hello, err := dial(t, sb).Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"environ", "cmdline"} {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(hello.Pid) + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "do-not-tell") || strings.Contains(string(b), sb.Token()) {
			t.Errorf("%s of the guest shows a secret", file)
		}
	}
	info, err := os.Stat(filepath.Join(dir, sb.Handle().ID, "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info.Mode(), err)
	}
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

func TestGuestIsReapedAndGone(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	sb := create(t, e, spec(t))
	c := dial(t, sb)
	p := start(t, c, "exit 43")
	if _, err := c.Wait(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	hello, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(hello.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, hello.Pid)
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) {
		t.Errorf("Recover: %v", err)
	}
	// How its processes ended can still be read, until it is swept away.
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

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	sb := create(t, e, spec(t))
	if err := e.Sweep(t.Context(), sb.Handle().ID); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, sb).Hello(t.Context()); err != nil {
		t.Errorf("Hello: %v", err)
	}
}

// A guest that is killed leaves its agents without a parent; they are found by their mark.
func TestOrphansOfAKilledGuestAreEnded(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	s := spec(t)
	sb := create(t, e, s)
	c := dial(t, sb)
	p := start(t, c, `trap '' TERM HUP; setsid sh -c 'trap "" TERM HUP; echo $$ > orphan; while :; do sleep 0.1; done' & wait`)
	pid := readPid(t, filepath.Join(s.Root, "orphan"))
	hello, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(hello.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	gone(t, pid)
	gone(t, p.Pid)
}

// A pid that was given to another process, or a record that names one, is never taken for the guest's.
func TestPidUsedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(sleeper.Process.Pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	began := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[19]
	for name, record := range map[string]string{
		"a stranger":         fmt.Sprintf(`{"pid":%d,"start":%s,"boot_id":%q}`, sleeper.Process.Pid, began, strings.TrimSpace(string(boot))),
		"another start time": fmt.Sprintf(`{"pid":%d,"start":1,"boot_id":%q}`, sleeper.Process.Pid, strings.TrimSpace(string(boot))),
		"another boot":       fmt.Sprintf(`{"pid":%d,"start":1,"boot_id":"x"}`, sleeper.Process.Pid),
		"not a record":       `{`,
		"init":               `{"pid":1}`,
	} {
		box := filepath.Join(dir, "sandboxes", "sbx_reused")
		if err := os.MkdirAll(box, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(box, "guest.json"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := e.Recover(t.Context(), executors.Handle{Kind: executors.Local, ID: "sbx_reused", Version: 1})
		if !errors.Is(err, executors.ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(sleeper.Process.Pid) + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
			t.Fatalf("%s: a stranger was ended", name)
		}
	}
}

func TestBadIDs(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a\x00b", strings.Repeat("x", 65)} {
		s := spec(t)
		s.ID = bad
		if _, err := e.Create(t.Context(), s); err == nil {
			t.Errorf("Create took the id %q", bad)
		}
		if _, err := e.Recover(t.Context(), executors.Handle{Kind: executors.Local, ID: bad}); err == nil {
			t.Errorf("Recover took the id %q", bad)
		}
	}
}

// A guest binary that does not work leaves nothing behind.
func TestBrokenGuest(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"ends at once":  "#!/bin/sh\necho I cannot >&2\nexit 3\n",
		"never answers": "#!/bin/sh\nexec sleep 1000\n",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "guest")
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		e, err := local.New(local.Config{Enabled: true, Dir: filepath.Join(dir, "boxes"), GuestPath: path,
			ReadyIn: time.Second, Grace: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Create(t.Context(), spec(t))
		if err == nil {
			t.Fatalf("%s: it was taken", name)
		}
		if name == "ends at once" && !strings.Contains(err.Error(), "I cannot") {
			t.Errorf("the guest's words are missing: %v", err)
		}
		if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%s: left behind: %+v, %v", name, list, err)
		}
	}
}

// Local isolates nothing, by design: it says so, and what an agent reaches there is more than its worktree.
func TestNoIsolation(t *testing.T) {
	got := executortest.Breaches(t, executortest.Config{New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }})
	for _, want := range []string{"procs", "interface"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%s held: is local isolated now? Then its words must change. Breaches: %v", want, got)
		}
	}
	c, err := newExecutor(t, t.TempDir()).Capabilities(t.Context())
	if err != nil || c.Isolated || !strings.HasPrefix(c.Isolation, "No isolation") {
		t.Errorf("it says %+v, %v", c, err)
	}
}
