//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/executortest"
	_ "github.com/parawork/parawork/guest/changes" // what the guest binary is made of: a change there makes these tests run again
	"github.com/parawork/parawork/guest/client"
	_ "github.com/parawork/parawork/guest/daemon"
	_ "github.com/parawork/parawork/guest/launch"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testguest"
)

// guestPath is the guest binary, built once.
var guestPath string

func TestMain(m *testing.M) {
	if inside() {
		return
	}
	if os.Getenv("PARAWORK_TEST_SERVER") != "" {
		os.Exit(littleServer())
	}
	os.Exit(func() int {
		if guestPath = os.Getenv("PARAWORK_TEST_GUEST"); guestPath != "" {
			return m.Run() // for an ordinary user, who cannot build: see TestOrdinaryUser
		}
		dir, err := os.MkdirTemp("", "parawork-guest")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if guestPath, err = testguest.Build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		// The suite's git looks at worktrees that belong to boxes' users.
		for k, v := range map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"} {
			if err := os.Setenv(k, v); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// need skips a test where boxes cannot be made, and fails it where they must be.
var need = sync.OnceValues(func() (string, error) {
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: os.TempDir(), GuestPath: guestPath})
	if err != nil {
		return "", err
	}
	c, err := e.Capabilities(context.Background())
	if err != nil || c.Available {
		return "", err
	}
	return c.Reason + ". " + c.Cure, nil
})

func needBoxes(t *testing.T) {
	t.Helper()
	reason, err := need()
	if err != nil {
		t.Fatal(err)
	}
	if reason == "" {
		return
	}
	if os.Getenv("CI") == "true" || os.Geteuid() == 0 && bwrapInstalled() {
		t.Fatalf("boxes must work here, but %s", reason)
	}
	t.Skipf("NOT TESTED: no box can be made here: %s", reason)
}

func bwrapInstalled() bool {
	_, err := exec.LookPath("bwrap")
	return err == nil
}

func newExecutor(t *testing.T, dir string) *bubblewrap.Executor {
	t.Helper()
	needBoxes(t)
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(dir, "sandboxes"), GuestPath: guestPath,
		Grace: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// users are those that boxes of these tests have outside, each its own.
var users atomic.Int64

// worktree is a worktree of a user of its own, where users can be given.
func worktree(t *testing.T) string {
	t.Helper()
	dir := executortest.GitRoot(t)
	if os.Geteuid() != 0 {
		return dir
	}
	uid := int(600_900_000 + users.Add(1))
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, executortest.Config{Abilities: []string{"Destroyer", "RemnantKeeper", "Remover"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser"},
		New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }, Root: worktree})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	executortest.Faults(t, executortest.Here(func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }, func(dir string) error {
		if os.Geteuid() != 0 {
			return nil
		}
		uid := int(600_900_000 + users.Add(1))
		return os.Lchown(dir, uid, uid)
	}))
}

func TestIsolation(t *testing.T) {
	executortest.Isolation(t, executortest.Config{New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }, Root: worktree})
}

// create makes a sandbox that is destroyed when the test ends.
func create(t *testing.T, e *bubblewrap.Executor, s executors.Spec) executors.Sandbox {
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
	t.Helper()
	return executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", Root: worktree(t)}
}

func dial(t *testing.T, sb executors.Sandbox) *client.Client {
	t.Helper()
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now})
	t.Cleanup(c.Close)
	return c
}
