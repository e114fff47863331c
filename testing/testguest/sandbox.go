package testguest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Processes is how many processes and threads a sandbox of bubblewrap may have.
const Processes = 600

// Only is the only sandbox, of the only workspace: it has what Services of tools ask of sandboxes and of workspaces.
type Only struct {
	At   *executors.Place
	Root string // folder of the workspace's files
}

// Ensure returns the sandbox.
func (o Only) Ensure(context.Context, string) (*executors.Place, error) { return o.At, nil }

// Live returns the sandbox.
func (o Only) Live(string) (*executors.Place, bool) { return o.At, true }

// Place returns what the executor can do: only the server itself does not isolate.
func (o Only) Place(context.Context, executors.Kind) (executors.Capabilities, bool) {
	return executors.Capabilities{Isolated: o.At.Kind != executors.Local}, true
}

// Workspace returns the workspace, and refuses others.
func (o Only) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	if id != o.At.WorkspaceID {
		return workspaces.Workspace{}, fault.New(fault.NotFound, "not_found", "There is no such workspace.")
	}
	return workspaces.Workspace{ID: id, TeamID: o.At.TeamID}, nil
}

// Sandbox makes a sandbox, locally or in bubblewrap, whose guest is the program at guestPath, and ends it with the test. files are written
// into the workspace's folder first, by their paths below it.
func Sandbox(t *testing.T, kind executors.Kind, guestPath string, files map[string]string) Only {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-test") // t.TempDir is no folder that another user may enter
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	root := filepath.Join(dir, "tree")
	must(t, os.Mkdir(root, 0o755))
	for name, content := range files {
		file := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(content), 0o644))
	}

	spec := executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: id.New("ws"), Root: root}
	executor := localExecutor
	if kind != executors.Local {
		executor = bubblewrapExecutor
		spec.MountSpec, spec.Limits = mounts(t, dir, root), executors.Limits{Processes: Processes}
	}
	sandbox, err := executor(t, filepath.Join(dir, "sandboxes"), guestPath).Create(t.Context(), spec)
	must(t, err)
	t.Cleanup(func() {
		if err := sandbox.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	c := client.New(client.Config{Dial: sandbox.Dial, Token: sandbox.Token(), SandboxID: spec.ID})
	t.Cleanup(c.Close)
	place := executors.NewPlace(spec.ID, spec.WorkspaceID, spec.TeamID, kind)
	place.Guest = c
	place.Hello, err = c.Hello(t.Context())
	must(t, err)
	return Only{place, root}
}

func localExecutor(t *testing.T, dir, guestPath string) executors.Executor {
	t.Helper()
	e, err := local.New(local.Config{Enabled: true, Dir: dir, GuestPath: guestPath, Grace: 500 * time.Millisecond})
	must(t, err)
	return e
}

func bubblewrapExecutor(t *testing.T, dir, guestPath string) executors.Executor {
	t.Helper()
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: dir, GuestPath: guestPath, Grace: 500 * time.Millisecond})
	must(t, err)
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available {
		t.Skipf("NOT TESTED: no sandbox of bubblewrap can be made here: %s %v", c.Reason, err)
	}
	return e
}

// mounts shows the workspace's folder and a home, both of which belong to the sandbox's user when the test is root's.
func mounts(t *testing.T, dir, root string) *executors.MountSpec {
	t.Helper()
	home := filepath.Join(dir, "home")
	must(t, os.Mkdir(home, 0o755))
	uid := -1
	if os.Geteuid() == 0 {
		uid = 1_960_000_000
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprint(uid), root, home).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		must(t, os.Chmod(dir, 0o755))
	}
	return &executors.MountSpec{Mounts: []executors.Mount{{Source: root, Target: root}, {Source: home, Target: "/home/agent"}}, Home: "/home/agent", UID: uid, GID: uid}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
