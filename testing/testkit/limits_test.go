package testkit_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/testing/testkit"
)

// grouped skips, loudly, where the kernel's limits cannot be had. As root, and in CI, they can.
func grouped(t *testing.T) {
	t.Helper()
	if s := cgroup.Check(); !s.All() || !s.Freeze {
		if os.Geteuid() == 0 || os.Getenv("CI") == "true" {
			t.Fatalf("limits cannot be tested: %s. %s", s.Reason, s.Cure)
		}
		t.Skipf("NOT TESTED: %s. %s", s.Reason, s.Cure)
	}
}

type limitView struct {
	Limits, Effective, Maximum map[string]float64
	Enforced                   []struct {
		Name     string
		Enforced bool
		How      string
	}
	Applied, Note string
}

type boxView struct {
	State       string
	StateReason string `json:"state_reason"`
	Limits      map[string]float64
	Usage       struct {
		MemoryBytes int64   `json:"memory_bytes"`
		CPUMs       int64   `json:"cpu_ms"`
		CPUPercent  float64 `json:"cpu_percent"`
		Processes   int64
		OOMKills    int64  `json:"oom_kills"`
		ThrottledMs int64  `json:"throttled_ms"`
		DiskBytes   *int64 `json:"disk_bytes"`
	}
}

func limitsHarness(t *testing.T) *testkit.Instance {
	t.Helper()
	grouped(t)
	return testkit.Start(t, `"sandboxing": {"limits": {"maximum": {"memoryMb": 4096}}}`)
}

func boxOf(h *testkit.Instance, ws testkit.Workspace) (v boxView) {
	h.API("GET", "/workspaces/"+ws.ID+"/sandbox", nil, &v)
	return v
}

func limit(h *testkit.Instance, ws testkit.Workspace, body map[string]any) (v limitView) {
	h.API("PUT", "/workspaces/"+ws.ID+"/limits", body, &v)
	return v
}

func timeline(h *testkit.Instance, ws testkit.Workspace) string {
	var v struct{ Items []struct{ Text string } }
	h.API("GET", "/workspaces/"+ws.ID+"/activity", nil, &v)
	var out []string
	for _, i := range v.Items {
		out = append(out, i.Text)
	}
	return strings.Join(out, "\n")
}

// hog is a program that wants more memory than it may have.
const hog = `x=$(head -c 600000000 /dev/zero | tr '\0' a); echo ${#x}`

// An agent that runs out of memory says so in words, and so does a workspace whose agent lives on; the neighbours notice nothing.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	h := limitsHarness(t)
	project := h.Sample()
	ws, neighbour := h.Workspace(project, "Hog"), h.Workspace(project, "Neighbour")
	p := h.Refused(http.StatusBadRequest, "limit_above_maximum", "PUT", "/workspaces/"+ws.ID+"/limits", map[string]any{"memory_mb": 9999})
	if !strings.Contains(p.Message, "memory_mb") || !strings.Contains(p.Message, "4 GiB") {
		t.Errorf("the refusal names neither field nor maximum: %s", p.Message)
	}
	h.Refused(http.StatusBadRequest, "invalid_limit", "PUT", "/workspaces/"+ws.ID+"/limits", map[string]any{"processes": 3})
	v := limit(h, ws, map[string]any{"memory_mb": 256})
	if v.Effective["memory_mb"] != 256 || v.Maximum["memory_mb"] != 4096 || len(v.Enforced) != 5 || !v.Enforced[1].Enforced {
		t.Errorf("limits: %+v", v)
	}
	beside := h.Run(neighbour.ID, "sh", "-c", "while read l; do echo got $l; done")
	s := h.Run(ws.ID, "sh", "-c", "exec sh -c '"+strings.ReplaceAll(hog, "'", `'\''`)+"'")
	if got := h.Ended(s.ID); got.StateReason != "killed: out of memory at 256 MiB" {
		t.Errorf("ended as %+v", got)
	}
	if u := boxOf(h, ws).Usage; u.OOMKills != 1 {
		t.Errorf("usage: %+v", u)
	}
	term := h.Attach(beside.ID, "from=0")
	must(t, term.Type("x\r"))
	must(t, term.See("got x"))
	// A child is killed, the session lives: the timeline tells.
	h.Run(ws.ID, "sh", "-c", "("+hog+"); echo alive; sleep 1000")
	h.Wait("the timeline reports it", func() bool {
		return strings.Contains(timeline(h, ws), "The kernel ended a process: out of memory at 256 MiB")
	})
	// The guest is the last to go: the sandbox is still the same.
	if got := boxOf(h, ws); got.State != "running" {
		t.Errorf("sandbox: %+v", got)
	}
	// More, while it lives.
	if v := limit(h, ws, map[string]any{"memory_mb": 2048}); v.Applied != "now" {
		t.Errorf("not applied: %+v", v)
	}
	if got := boxOf(h, ws).Limits["memory_mb"]; got != 2048 {
		t.Errorf("the sandbox has %v", got)
	}
	more := h.Run(ws.ID, "sh", "-c", hog)
	if got := h.Ended(more.ID); got.State != "exited" || !strings.HasPrefix(string(h.Output(more.ID, 0)), "600000000") {
		t.Errorf("with more memory it ended as %+v: %q", got, h.Output(more.ID, 0))
	}
}

// A fork bomb stays in its sandbox: the server and the neighbours answer, and the sandbox can be ended.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	h := limitsHarness(t)
	project := h.Sample()
	ws, neighbour := h.Workspace(project, "Bomb"), h.Workspace(project, "Neighbour")
	limit(h, ws, map[string]any{"processes": 64})
	beside := h.Run(neighbour.ID, "sh", "-c", "while read l; do echo got $l; done")
	term := h.Attach(beside.ID, "from=0")
	h.Run(ws.ID, "sh", "-c", "(for i in $(seq 1 300); do sleep 1000 & done); exec sleep 1000")
	h.Wait("the timeline tells that processes were refused", func() bool {
		return strings.Contains(timeline(h, ws), "the limit of 64 processes is reached")
	})
	must(t, term.Type("x\r"))
	must(t, term.See("got x"))
	if u := boxOf(h, ws).Usage; u.Processes > 64 {
		t.Errorf("usage: %+v", u)
	}
	if got := boxOf(h, ws); got.State != "running" { // the guest has the threads it needs
		t.Errorf("sandbox: %+v", got)
	}
	h.API("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil)
	if got := boxOf(h, ws); got.State != "gone" {
		t.Errorf("after the end: %+v", got)
	}
}

// A paused sandbox is suspended, says so, and stays suspended over a restart of the server.
func TestPause(t *testing.T) {
	t.Parallel()
	h := limitsHarness(t)
	ws := h.Workspace(h.Sample(), "Pause")
	s := h.Run(ws.ID, "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.02; done")
	counted := func() string {
		b, _ := os.ReadFile(filepath.Join(ws.Path, "count"))
		return string(b)
	}
	moves := func() bool {
		before := counted()
		time.Sleep(150 * time.Millisecond)
		return counted() != before
	}
	h.Wait("it counts", func() bool { return counted() != "" })
	var v boxView
	h.API("POST", "/workspaces/"+ws.ID+"/pause", nil, &v)
	if v.State != "paused" || !strings.HasPrefix(v.StateReason, "It was paused by ") {
		t.Errorf("paused: %+v", v)
	}
	if moves() {
		t.Error("it goes on although it is paused")
	}
	check := func() {
		t.Helper()
		var w struct {
			State       string
			StateReason string `json:"state_reason"`
		}
		h.API("GET", "/workspaces/"+ws.ID, nil, &w)
		if w.State != "paused" || w.StateReason == "" {
			t.Errorf("the workspace is %+v", w)
		}
		var got testkit.Session
		h.API("GET", "/sessions/"+s.ID, nil, &got)
		if !strings.Contains(got.StateReason, "paused") {
			t.Errorf("the session says %+v", got)
		}
		h.Refused(http.StatusConflict, "workspace_paused", "POST", "/sessions/"+s.ID+"/input", map[string]any{"text": "x"})
		var c struct {
			State       string
			StateReason string `json:"state_reason"`
		}
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "true"}, &c)
		if c.State != "failed" || !strings.Contains(c.StateReason, "Wake the workspace") {
			t.Errorf("a command says %+v", c)
		}
		h.Refused(http.StatusConflict, "workspace_paused", "POST", "/workspaces/"+ws.ID+"/commit", map[string]any{"message": "x"})
	}
	check()
	h.Kill()
	h.Boot()
	h.Wait("it is suspended again", func() bool { return !moves() })
	check()
	h.API("POST", "/workspaces/"+ws.ID+"/wake", nil, &v)
	if v.State != "running" || v.StateReason != "" {
		t.Errorf("woken: %+v", v)
	}
	h.Wait("it counts again", moves)
	term := h.Attach(s.ID, "from=0")
	must(t, term.Type("x\r"))
	// Ended while paused: it is woken for its end.
	h.API("POST", "/workspaces/"+ws.ID+"/pause", nil, nil)
	h.API("POST", "/sessions/"+s.ID+"/stop", nil, nil)
	if got := h.Ended(s.ID); got.State != "exited" || !strings.HasPrefix(got.StateReason, "stopped by ") {
		t.Errorf("stopped: %+v", got)
	}
}

// Disk bombs of every kind are stopped with what they wrote left in place, and can be tidied up.
func TestDiskLimit(t *testing.T) {
	t.Parallel()
	grouped(t)
	h := testkit.Start(t, `"sandboxing": {"limits": {"diskEverySeconds": 1}}`)
	project := h.Sample()
	for name, bomb := range map[string]string{
		"many files":     `mkdir m; cd m; i=0; while [ $i -lt 40 ]; do i=$((i+1)); head -c 1000000 /dev/zero > $i; done`,
		"empty files":    `mkdir m; cd m; seq 1 20000 | xargs touch`,
		"one large file": `head -c 80000000 /dev/zero > big`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := h.Workspace(project, "Disk "+name)
			limit(h, ws, map[string]any{"disk_mb": 30})
			h.Run(ws.ID, "sh", "-c", bomb+"; echo done; sleep 1000")
			var got boxView
			h.Wait("it is paused", func() bool { got = boxOf(h, ws); return got.State == "paused" })
			if got.StateReason != "It was stopped: the disk limit of 30 MiB is reached; nothing was deleted." {
				t.Errorf("reason %q", got.StateReason)
			}
			if !strings.Contains(timeline(h, ws), "disk limit of 30 MiB") {
				t.Error("the timeline does not tell")
			}
			if got.Usage.DiskBytes == nil || *got.Usage.DiskBytes < 29<<20 {
				t.Errorf("usage: %+v", got.Usage)
			}
			if name != "many files" {
				return
			}
			h.API("POST", "/workspaces/"+ws.ID+"/wake", nil, nil)
			h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "rm -r m"}, nil)
			h.Wait("there is room again", func() bool {
				got = boxOf(h, ws)
				return got.Usage.DiskBytes != nil && *got.Usage.DiskBytes < 5<<20 && got.State == "running"
			})
		})
	}
	// Holes are not counted: they take no room.
	ws := h.Workspace(project, "Sparse")
	limit(h, ws, map[string]any{"disk_mb": 30})
	must(t, syscall.Truncate(sparse(t, ws.Path), 1<<40))
	h.Run(ws.ID, "sh", "-c", "echo here; sleep 1000")
	h.Wait("its disk was looked at", func() bool { u := boxOf(h, ws).Usage; return u.DiskBytes != nil })
	if u := boxOf(h, ws).Usage; *u.DiskBytes > 5<<20 {
		t.Errorf("a hole counts: %d", *u.DiskBytes)
	}
}

func sparse(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "hole")
	must(t, os.WriteFile(path, nil, 0o644))
	return path
}

// A configuration that promises what cannot be kept is refused, in words.
func TestLimitsOfConfig(t *testing.T) {
	t.Parallel()
	grouped(t)
	h := testkit.Start(t, fmt.Sprintf(`"sandboxing": {"defaultProvider": "local", "local": {"resourceLimits": {"maxCpu": %q, "maxMemory": 300}}, "limits": {"default": {"memoryMb": 200}}}`, "50%"))
	project := h.Sample()
	ws := h.Workspace(project, "Config")
	var v limitView
	h.API("GET", "/workspaces/"+ws.ID+"/limits", nil, &v)
	if v.Effective["memory_mb"] != 200 || v.Maximum["memory_mb"] != 300 || v.Effective["cpus"] <= 0 || v.Effective["processes"] != 4096 {
		t.Errorf("limits: %+v", v)
	}
	h.API("PATCH", "/projects/"+project, map[string]any{"limits": map[string]any{"memory_mb": 250, "wall_minutes": 600}}, nil)
	h.API("GET", "/workspaces/"+ws.ID+"/limits", nil, &v)
	if v.Effective["memory_mb"] != 250 || v.Effective["wall_minutes"] != 600 {
		t.Errorf("with the project's: %+v", v)
	}
	h.Run(ws.ID, "sh", "-c", "sleep 1000")
	if got := boxOf(h, ws); got.Limits["memory_mb"] != 250 {
		t.Errorf("sandbox: %+v", got)
	}
}

func (d *death) pause() { _ = d.Try("POST", "/workspaces/"+d.ws.ID+"/pause", nil, nil) }

// paused covers a sandbox stored as paused that kept running: it is suspended, and resumes when it is woken.
func (d *death) paused() {
	if got := boxOf(d.Instance, d.ws); got.State != "paused" {
		d.t.Errorf("after the restart: %+v", got)
	}
	var got boxView
	d.API("POST", "/workspaces/"+d.ws.ID+"/wake", nil, &got)
	if got.State != "running" {
		d.t.Errorf("woken: %+v", got)
	}
	d.runs()
}

// The second team is a stranger on the machine: from then on sandboxes have limits nobody had to set.
func TestLimitsWithTheSecondTeam(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, bubbled(t))
	ws := h.WorkspaceIn("bubblewrap", h.Sample(), "Shared")
	var v limitView
	h.API("GET", "/workspaces/"+ws.ID+"/limits", nil, &v)
	if v.Effective["cpus"] != 0 || v.Effective["memory_mb"] != 0 || v.Effective["disk_mb"] != 0 {
		t.Errorf("with one team: %+v", v.Effective)
	}
	h.API("POST", "/teams", map[string]string{"name": "Quay"}, nil)
	h.API("GET", "/workspaces/"+ws.ID+"/limits", nil, &v)
	if v.Effective["cpus"] != 2 || v.Effective["memory_mb"] != 4096 || v.Effective["processes"] != 4096 || v.Effective["disk_mb"] != 20480 {
		t.Errorf("with two teams: %+v", v.Effective)
	}
	h.API("PUT", "/workspaces/"+ws.ID+"/limits", map[string]any{"cpus": 3}, nil)
	h.API("GET", "/workspaces/"+ws.ID+"/limits", nil, &v)
	if v.Effective["cpus"] != 3 {
		t.Errorf("what the workspace says: %+v", v.Effective)
	}
	h.Refused(400, "protocol_not_allowed", "POST", "/teams/"+h.Team+"/projects", map[string]any{"source": map[string]string{"kind": "url", "url": "git://example.com/a.git"}})
}
