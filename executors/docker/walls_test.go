//go:build linux

package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testdocker"
)

// boxed is a spec as the Manager makes it: a worktree and a home of a user of its own.
func boxed(t *testing.T) executors.Spec {
	t.Helper()
	s := spec(t)
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	s.MountSpec = &executors.MountSpec{Home: "/home/agent", UID: 600100007, GID: 600100007,
		Mounts: []executors.Mount{{Source: s.Root, Target: s.Root}, {Source: home, Target: "/home/agent"}}}
	if os.Getuid() != 0 {
		s.MountSpec.UID, s.MountSpec.GID = -1, -1
		return s
	}
	for _, dir := range []string{s.Root, home} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				err = os.Lchown(path, s.MountSpec.UID, s.MountSpec.GID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestWalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := newExecutor(t, dir)
	s := boxed(t)
	ro := filepath.Join(t.TempDir(), "ro")
	if err := os.Mkdir(ro, 0o755); err != nil {
		t.Fatal(err)
	}
	s.MountSpec.Mounts = append(s.MountSpec.Mounts, executors.Mount{Source: ro, Target: "/shown", ReadOnly: true})
	s.Env = map[string]string{"GIVEN": "to all"}
	sb := create(t, e, s)
	for line, want := range map[string]string{
		"grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\n\\t' '  '": "CapBnd: 0000000000000000 NoNewPrivs: 1 Seccomp: 2",
		"id -u; id -g; id -un; whoami":                      "600100007\n600100007\nagent\nagent\n",
		"echo $HOME $USER $GIVEN":                           "/home/agent agent to all",
		"touch ~/x /tmp/x a-new-file && echo written":       "written",
		"touch /x 2>&1; touch /usr/x 2>&1; touch /run/x":    "Read-only file system",
		"touch /shown/x":                                    "Read-only file system",
		"touch /opt/parawork/parawork-guest":                "cannot touch",
		"ls /sys/class/net | tr '\\n' ' '":                  "lo ",
		"cat " + secret:                                     "No such file",
		"ls " + filepath.Join(dir, "sandboxes"):             "No such file",
		"cat /etc/resolv.conf":                              "nameserver 127.0.0.1",
		"ls /var/run/docker.sock /run/docker.sock":          "No such file",
		"cat /run/parawork/guest/token":                     "No such file",
		"cat /proc/1/environ; cat /proc/1/mem":              "Permission denied",
		"ls /run/parawork/call; rm /run/parawork/call/host": "Read-only file system",
		"env; tr '\\0' ' ' </proc/1/cmdline":                "--token-file /run/parawork/guest/token",
		"ulimit -c":                                         "0",
		"touch a-new-file; git status --short":              "?? a-new-file",
		"mknod /tmp/d c 1 1 || echo refused":                "refused",
		"mount -t tmpfs none /mnt 2>&1 || echo refused":     "refused",
		"cat /proc/sys/kernel/hostname":                     "parawork",
	} {
		if os.Getuid() != 0 && strings.Contains(want, "600100007") {
			continue
		}
		out := run(t, sb, line)
		if strings.Contains(line, "status |") {
			out = strings.ReplaceAll(out, "CapEff: 0000000000000000 ", "")
			out = strings.Join(strings.Fields(out), " ")
		}
		if !strings.Contains(out, want) {
			t.Errorf("%q printed %q, want %q", line, out, want)
		}
		if strings.Contains(out, sb.Token()) || strings.Contains(out, "of the host") {
			t.Errorf("%q printed a secret: %q", line, out)
		}
	}
	if entries, err := os.ReadDir(ro); err != nil || len(entries) > 0 {
		t.Errorf("written to what is shown read-only: %v, %v", entries, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	s := spec(t)
	s.Limits = executors.Limits{MemoryMB: 96, Processes: 60, CPUs: 0.5}
	sb := create(t, e, s)
	meter := sb.(executors.Metered)
	f, err := meter.Figures()
	if err != nil || f.MemoryBytes <= 0 || f.Processes <= 0 || f.CPUMs < 0 || f.OOMKills != 0 {
		t.Fatalf("Figures: %+v, %v", f, err)
	}
	out, end := outcome(t, sb, "sh -c 'x=$(head -c 300000000 /dev/zero | tr \"\\0\" a); echo ${#x}'; echo $?")
	if !strings.Contains(out, "137") && end.Signal == "" {
		t.Errorf("300 MB where 96 MiB are allowed: %q, %+v", out, end)
	}
	if f, err = meter.Figures(); err != nil || f.OOMKills == 0 || f.MemoryPeak < 50<<20 {
		t.Errorf("Figures after the kill: %+v, %v", f, err)
	}
	if h, err := dial(t, sb).Hello(t.Context()); err != nil || h.SandboxID != s.ID {
		t.Errorf("the guest after the kill: %+v, %v", h, err)
	}
	if out := run(t, sb, "i=0; while [ $i -lt 100 ]; do sleep 20 >/dev/null 2>&1 & i=$((i+1)); done"); !strings.Contains(strings.ToLower(out), "fork") {
		t.Errorf("100 processes where 60 are allowed: %q", out)
	}
	limiter := sb.(executors.Limiter)
	if err := limiter.SetLimits(executors.Limits{MemoryMB: 600, Processes: 500}); err != nil { // the processes above may live still
		t.Fatalf("SetLimits: %v", err)
	}
	if out := run(t, sb, "sh -c 'x=$(head -c 300000000 /dev/zero | tr \"\\0\" a); echo ${#x}'; echo $?"); out != "300000000\n0\n" {
		t.Errorf("300 MB where 600 MiB are allowed: %q", out)
	}
	if err := limiter.SetLimits(executors.Limits{}); err != nil {
		t.Errorf("SetLimits to none: %v", err)
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := spec(t)
	for what, c := range map[string]struct {
		change func(*docker.Config)
		image  string
		code   string
		words  string
	}{
		"no such image":        {image: "parawork-test-none:1", code: "image_missing", words: "docker pull"},
		"no agent image":       {change: func(c *docker.Config) { c.Image = docker.AgentImage }, code: "image_missing", words: "parawork docker build"},
		"an image without git": {image: testdocker.Bare, code: "image_incomplete", words: "no git"},
		"no such runtime":      {change: func(c *docker.Config) { c.Runtime = "runsc-none" }, code: "docker_runtime_missing", words: "runsc"},
		"no engine":            {change: func(c *docker.Config) { c.Host = "unix://" + dir + "/none" }, code: "docker_unreachable", words: "Install and start Docker"},
	} {
		e := newWith(t, t.TempDir(), func(cfg *docker.Config) {
			if c.change != nil {
				c.change(cfg)
			}
		})
		s := s
		s.Image = c.image
		sb, err := e.Create(t.Context(), s)
		if err == nil {
			_ = sb.Destroy(t.Context())
		}
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", what, err)
		}
		if list, err := e.List(t.Context()); len(list) > 0 {
			t.Errorf("%s left %v behind, %v", what, list, err)
		}
	}
	for what, c := range map[string]struct {
		change func(*docker.Config)
		reason string
	}{
		"no engine":        {func(c *docker.Config) { c.Host = "unix://" + dir + "/none" }, "does not answer"},
		"another machine":  {func(c *docker.Config) { c.Host = "tcp://127.0.0.1:1" }, "tcp://127.0.0.1:1 does not answer"},
		"over ssh":         {func(c *docker.Config) { c.Host = "ssh://host" }, "Permission denied"},
		"no runtime":       {func(c *docker.Config) { c.Runtime = "runsc-none" }, "does not know the runtime"},
		"no guest program": {func(c *docker.Config) { c.GuestPath = dir + "/none" }, "guest program"},
	} {
		got, err := newWith(t, t.TempDir(), c.change).Capabilities(t.Context())
		if err != nil || got.Available || !strings.Contains(got.Reason, c.reason) || got.Cure == "" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		if away := strings.Contains(what, "another") || strings.Contains(what, "ssh"); got.OwnDisk != away {
			t.Errorf("%s: a disk of its own: %v", what, got.OwnDisk)
		}
	}
	if c, err := newWith(t, t.TempDir(), func(c *docker.Config) { c.Runtime = "runsc" }).Capabilities(t.Context()); err != nil || c.Boundary != executors.KernelBoundary {
		t.Errorf("gVisor: %+v, %v", c, err)
	}
	c, err := newExecutor(t, t.TempDir()).Capabilities(t.Context())
	if err != nil || !c.Available || c.Boundary != executors.ContainerBoundary || c.Host || !c.Isolated || !c.Pause {
		t.Errorf("Capabilities: %+v, %v", c, err)
	}
}
