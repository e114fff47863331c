//go:build linux

package docker_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/testing/testdocker"
)

// TestGVisor runs the suite behind gVisor's kernel. It needs runsc, which `make test-gvisor` builds.
func TestGVisor(t *testing.T) {
	runsc := os.Getenv("PARAWORK_TEST_RUNSC")
	if runsc == "" {
		t.Skip("gVisor was not asked for; run make test-gvisor")
	}
	runtimes := map[string]any{"runtimes": map[string]any{"runsc": map[string]any{"path": runsc, "runtimeArgs": []string{"--host-uds=open", "--ignore-cgroups"}}}}
	b, err := json.Marshal(runtimes)
	if err != nil {
		t.Fatal(err)
	}
	d, err := testdocker.StartWith(string(b))
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	behind := func(t *testing.T, dir string) *docker.Executor {
		return newWith(t, dir, func(c *docker.Config) { c.Host, c.Runtime = d.Host, "runsc" })
	}
	t.Run("suite", func(t *testing.T) {
		executortest.Run(t, executortest.Config{Abilities: []string{"Destroyer", "RemnantKeeper", "Remover", "RunRecorder", "Stopper"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser", "SinglePipe"},
			New: func(t *testing.T, dir string) executors.Executor { return behind(t, dir) }})
	})
	t.Run("a kernel of its own", func(t *testing.T) {
		e := behind(t, t.TempDir())
		c, err := e.Capabilities(t.Context())
		if err != nil || !c.Available || c.Boundary != executors.KernelBoundary || !strings.Contains(c.Isolation, "gVisor") {
			t.Errorf("Capabilities: %+v, %v", c, err)
		}
		sb := create(t, e, boxed(t))
		if out := run(t, sb, "uname -r; dmesg 2>/dev/null | head -3; id -u; git log --format=%s -1; touch ~/x && echo written"); !strings.Contains(out, "gvisor") ||
			!strings.Contains(out, "600100007") || !strings.Contains(out, "start\n") || !strings.Contains(out, "written") {
			t.Errorf("in the container: %q", out)
		}
	})
}
