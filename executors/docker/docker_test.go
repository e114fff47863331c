//go:build linux

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/executortest"
	_ "github.com/parawork/parawork/guest/changes" // what the guest binary is made of: a change there makes these tests run again
	"github.com/parawork/parawork/guest/client"
	_ "github.com/parawork/parawork/guest/daemon"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testguest"
)

var (
	guestPath string             // the guest binary, built once
	engine    *testdocker.Daemon // nil where none can be had
	engineErr error
)

func TestMain(m *testing.M) {
	if os.Getenv("PARAWORK_TEST_SERVER") != "" {
		os.Exit(littleServer())
	}
	os.Exit(func() int {
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
		if engine, engineErr = testdocker.Start("--live-restore"); engineErr == nil {
			defer engine.Stop()
			if err := errors.Join(fakeSSH(dir, engine.Host), remotely()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

func newExecutor(t *testing.T, dir string) *docker.Executor {
	t.Helper()
	return newWith(t, dir, func(*docker.Config) {})
}

func newWith(t *testing.T, dir string, change func(*docker.Config)) *docker.Executor {
	t.Helper()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	cfg := docker.Config{Dir: filepath.Join(dir, "sandboxes"), GuestPath: guestPath, Host: engine.Host, Image: testdocker.Image,
		Grace: 500 * time.Millisecond}
	change(&cfg)
	e, err := docker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	executortest.Run(t, executortest.Config{Abilities: []string{"Destroyer", "RemnantKeeper", "Remover", "RunRecorder", "Stopper"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser", "SinglePipe"},
		New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, dir) }})
}

// create makes a sandbox that is destroyed when the test ends.
func create(t *testing.T, e *docker.Executor, s executors.Spec) executors.Sandbox {
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
