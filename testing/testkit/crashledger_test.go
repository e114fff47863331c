package testkit_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testdocker"
	"github.com/parawork/parawork/testing/testkit"
)

// A container that dies by itself is charged for until it died and no longer, whether the server sees that or finds it so when it starts.
func TestACrashedContainerIsChargedUntilItEnded(t *testing.T) {
	t.Parallel()
	d, err := testdocker.Start("--live-restore")
	if err != nil {
		testdocker.Skip(t, err)
	}
	t.Cleanup(d.Stop)
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"defaultProvider":"docker","docker":{"host":%q,"image":%q}}`, d.Host, testdocker.Image))
	project := h.Sample()
	docker := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("docker", append([]string{"-H", d.Host}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %s: %v %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// kill ends the workspace's container behind the server's back and returns the sandbox, and when the engine says that it ended.
	kill := func(ws testkit.Workspace) (sandbox string, at int64) {
		t.Helper()
		var box struct{ ID string }
		h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &box)
		name := "parawork-" + box.ID
		docker("kill", name)
		// The container itself may be removed already: the engine's events are kept for longer.
		died := docker("events", "--since", "1h", "--until", strconv.FormatInt(time.Now().Unix()+1, 10), "--filter", "container="+name,
			"--filter", "event=die", "--format", "{{.TimeNano}}")
		ns, err := strconv.ParseInt(died, 10, 64)
		if err != nil {
			t.Fatalf("the container's end: %q", died)
		}
		return box.ID, ns / 1e6
	}
	ended := func(what, sandbox string, at int64) {
		t.Helper()
		ctx := tenant.All(t.Context(), "a test")
		db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: h.DataDir()})
		must(t, err)
		defer db.Close()
		var end, open int64
		h.Wait("the ledger knows that "+what+" ended", func() bool {
			must(t, db.QueryRow(ctx, `SELECT MAX(ended_at), SUM(CASE WHEN ended_at = 0 THEN 1 ELSE 0 END) FROM segments WHERE sandbox_id = ?`, sandbox).Scan(&end, &open))
			return open == 0
		})
		if off := end - at; off < -1000 || off > 1000 {
			t.Errorf("%s: the ledger ends %d ms from when the container did", what, off)
		}
	}
	up, down := h.Workspace(project, "Up"), h.Workspace(project, "Down")
	for _, ws := range []testkit.Workspace{up, down} {
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"argv": []string{"sleep", "1.5"}, "timeout_ms": 60_000}, nil)
	}
	sandbox, at := kill(up)
	ended("a container that was killed under the server", sandbox, at)

	var box struct{ ID string }
	h.API("GET", "/workspaces/"+down.ID+"/sandbox", nil, &box)
	h.Kill()
	docker("kill", "parawork-"+box.ID)
	finished, err := time.Parse(time.RFC3339Nano, docker("inspect", "--format", "{{.State.FinishedAt}}", "parawork-"+box.ID))
	must(t, err)
	h.Boot()
	ended("a container that was killed while no server ran", box.ID, finished.UnixMilli())
}
