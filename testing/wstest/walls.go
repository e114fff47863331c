package wstest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// walls are isolated sandboxes: each command runs in a separate bubblewrap that shows only what the workspace was given. They stand for any
// isolating executor.
type walls struct {
	t  testing.TB
	h  *Env
	mu sync.Mutex
	// by workspace id
	open   map[string]executors.MountSpec
	bad    error
	broken map[string]error
	onRun  func(c executors.SandboxCommand)
	Stream func(c executors.SandboxCommand) (func([]byte) (int, error), bool)
	Answer func(c executors.SandboxCommand) (executors.SandboxResult, bool) // a sandbox that lies
}

// IsolatedEnv is an Env whose workspaces are isolated.
func IsolatedEnv(t testing.TB, change ...func(*assembly.Config)) (*Env, *walls) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed: testing/scripts/test-setup.sh installs it")
		}
		t.Skip("bubblewrap is not installed (apt-get install bubblewrap): isolated workspaces are not tested")
	}
	h := SQLiteEnv(t, append([]func(*assembly.Config){func(c *assembly.Config) { c.Chown = os.Geteuid() == 0 }}, change...)...)
	b := &walls{t: t, h: h, open: make(map[string]executors.MountSpec), broken: make(map[string]error)}
	h.walls = b
	h.S.Records.Connect(b, h.Ses)
	return h, b
}

func (b *walls) Ensure(ctx context.Context, id string) error {
	_, err := b.place(ctx, id)
	return err
}

func (b *walls) place(ctx context.Context, id string) (executors.MountSpec, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bad != nil {
		return executors.MountSpec{}, b.bad
	}
	if err := b.broken[id]; err != nil {
		return executors.MountSpec{}, err
	}
	if box, ok := b.open[id]; ok {
		return box, nil
	}
	if _, _, err := b.h.S.Records.Spec(ctx, id); err != nil {
		return executors.MountSpec{}, err
	}
	box, err := b.h.S.Ingest.PrepareSandbox(ctx, id)
	if err == nil {
		b.open[id] = box
	}
	return box, err
}

// Breaks makes every sandbox return err, nil = none.
func (b *walls) Breaks(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = err
}

// FallFor ends the workspace's sandbox and creates no other while err is not nil.
func (b *walls) FallFor(id string, err error) {
	b.Fall(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[id] = err
}

// Fall ends the workspace's sandbox, as a crash does.
func (b *walls) Fall(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, id)
}

func (b *walls) Destroy(ctx context.Context, id string) error {
	if b.Live(id) {
		run := func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
			return b.RunInSandbox(ctx, id, c)
		}
		if err := b.h.S.Ingest.FetchBeforeEnd(ctx, id, run); err != nil {
			b.t.Logf("leaving the sandbox: %v", err)
		}
	}
	b.Fall(id)
	return nil
}

// Choose and the following methods make walls executors to move between: "local" does not isolate.
func (b *walls) Choose(_ context.Context, _ string, wishes ...executors.Kind) (executors.Kind, error) {
	for _, k := range wishes {
		if k != "" {
			return k, nil
		}
	}
	return "bubblewrap", nil
}

func (b *walls) CheckWish(context.Context, string, executors.Kind) error { return nil }

func (b *walls) Place(_ context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	return executors.Capabilities{Kind: kind, Name: string(kind), Available: true, Isolated: kind != executors.Local}, true
}

func (b *walls) Lost(context.Context, string) bool { return false }

func (b *walls) Leave(ctx context.Context, id string) error { return b.Destroy(ctx, id) }

func (b *walls) Live(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.open[id]
	return ok && b.bad == nil
}

func (b *walls) RunInSandbox(ctx context.Context, id string, c executors.SandboxCommand) (executors.SandboxResult, error) {
	box, err := b.place(ctx, id)
	if err != nil {
		return executors.SandboxResult{}, err
	}
	if b.onRun != nil {
		b.onRun(c)
	}
	if b.Stream != nil {
		if fill, ok := b.Stream(c); ok {
			buf := make([]byte, 64<<10)
			for {
				n, _ := fill(buf)
				if _, err := c.Stdout.Write(buf[:n]); err != nil {
					return executors.SandboxResult{}, err
				}
			}
		}
	}
	if b.Answer != nil {
		if r, ok := b.Answer(c); ok {
			if c.Stdout != nil {
				_, err := c.Stdout.Write(r.Stdout)
				r.Stdout = nil
				return r, err
			}
			return r, nil
		}
	}
	w, err := b.h.S.Records.Workspace(ctx, id)
	if err != nil {
		return executors.SandboxResult{}, err
	}
	if c.TimeoutMs <= 0 {
		c.TimeoutMs = 60_000
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
	defer cancel()
	args := []string{"--unshare-pid", "--unshare-net", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent"}
	for _, m := range box.Mounts {
		for i, c := range m.Target { // only root may create them with bubblewrap
			if c == '/' && i > 0 {
				args = append(args, "--perms", "0755", "--dir", m.Target[:i])
			}
		}
		how := "--bind"
		if m.ReadOnly {
			how = "--ro-bind"
		}
		args = append(args, how, m.Source, m.Target)
	}
	args = append(args, "--chdir", filepath.Join(w.Path, c.Cwd), "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", box.Home)
	for k, v := range c.Env {
		args = append(args, "--setenv", k, v)
	}
	if box.UID >= 0 {
		id := strconv.Itoa(box.UID)
		args = append(args, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--", "setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--bounding-set", "-all")
	}
	cmd := exec.CommandContext(ctx, "bwrap", append(args, c.Argv...)...)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	r := executors.SandboxResult{Stdout: out.Bytes(), Stderr: errs.Bytes()}
	if cmd.ProcessState == nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, fault.New(fault.Timeout, "command_timeout", "It took too long.")
	}
	r.ExitCode = cmd.ProcessState.ExitCode()
	return r, nil
}

// Try runs a shell line like the agent does.
func (b *walls) Try(w workspaces.Workspace, line string) (string, error) {
	r, err := b.RunInSandbox(context.Background(), w.ID, executors.SandboxCommand{Argv: []string{"/bin/sh", "-ec", line}})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("exit %d", r.ExitCode)
	}
	return strings.TrimRight(string(r.Stdout)+string(r.Stderr), "\n"), err
}

func (b *walls) Sh(w workspaces.Workspace, line string) string {
	b.t.Helper()
	out, err := b.Try(w, line)
	if err != nil {
		b.t.Fatalf("in the sandbox: %s: %v\n%s", line, err, out)
	}
	return out
}
