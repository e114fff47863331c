// Package testmodel gives tests the scripted model server, which stands for the providers' real ones, and the agents' own programs.
package testmodel

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// dir is where the model server is built, once in a process; "" before.
var dir string //nolint:gochecknoglobals // a cache of a build, shared by the tests of one process

var build = sync.OnceValues(func() (bin string, err error) {
	if dir, err = os.MkdirTemp("", "parawork-model-"); err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "modelserver")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/parawork/parawork/testing/e2e/modelserver").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the model server: %w\n%s", err, out)
	}
	return bin, nil
})

// Start starts a model server that ends with the test, and returns its address.
func Start(t testing.TB, args ...string) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatalf("the model server did not start: %v", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// Cleanup removes what was built. Call it from TestMain after m.Run.
func Cleanup() {
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

// runs says of each program whether it runs, once it was tried.
var runs sync.Map //nolint:gochecknoglobals // trying takes a second

// Agent returns the path of an agent's real program, which testing/scripts/test-setup.sh installs; the test is skipped without it.
func Agent(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("real agents take a while")
	}
	places := []string{os.Getenv("PARAWORK_TEST_AGENTS")}
	if mod, err := exec.Command("go", "env", "GOMOD").Output(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), ".cache/agents/node_modules/.bin"))
	}
	for _, place := range places {
		path, err := filepath.Abs(filepath.Join(place, name))
		if place == "" || err != nil {
			continue
		}
		works, _ := runs.LoadOrStore(path, sync.OnceValue(func() bool { return exec.Command(path, "--version").Run() == nil }))
		if works.(func() bool)() {
			return path
		}
	}
	t.Skipf("%s is not installed: run testing/scripts/test-setup.sh, or name its folder in PARAWORK_TEST_AGENTS", name)
	return ""
}
