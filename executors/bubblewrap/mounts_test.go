//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/guest"
)

// boxed is a spec with a box of its own: a worktree, a git dir and a home below a folder that only the server may enter.
func boxed(t *testing.T) (s executors.Spec, home string) {
	t.Helper()
	s = spec(t)
	box := executors.MountSpec{Home: "/home/agent", UID: -1, GID: -1}
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		if err := unix.Lstat(s.Root, &st); err != nil {
			t.Fatal(err)
		}
		box.UID, box.GID = int(st.Uid), int(st.Gid)
	}
	home = filepath.Join(t.TempDir(), "boxes", "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if box.UID >= 0 {
		if err := os.Chown(home, box.UID, box.GID); err != nil {
			t.Fatal(err)
		}
	}
	box.Mounts = []executors.Mount{{Source: s.Root, Target: s.Root}, {Source: home, Target: box.Home}}
	s.MountSpec = &box
	return s, home
}

func TestBoxIsUsedExactly(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	s, home := boxed(t)
	tools := t.TempDir()
	gate := t.TempDir()
	for path, text := range map[string]string{filepath.Join(home, "kept"): "kept", filepath.Join(tools, "tool"): "#!/bin/sh\necho tool\n", filepath.Join(gate, "egress"): ""} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.MountSpec.Mounts = append(s.MountSpec.Mounts, executors.Mount{Source: tools, Target: "/opt/tools", ReadOnly: true})
	s.Caches = []executors.Mount{{Source: tools, Target: "/home/agent/.cache/tools", ReadOnly: true}}
	c := dial(t, create(t, e, s))
	for line, want := range map[string]string{
		"cat ~/kept":                    "kept",
		"/opt/tools/tool":               "tool\n",
		"~/.cache/tools/tool":           "tool\n",
		"touch /opt/tools/x || echo no": "no\n",
		"touch ~/mine; echo $?":         "0\n",
	} {
		if got := sh(t, c, line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "mine")); err != nil {
		t.Errorf("the home is not the workspace's: %v", err)
	}
	got := output(t, c, guest.ProcessSpec{Argv: []string{"tool"}, Env: map[string]string{"PATH": "/opt/tools"}})
	if got != "tool\n" {
		t.Errorf("a tool by its name: %q", got)
	}
}

// What an agent has written in one sandbox must not decide what the next one shows, or where.
func TestMountsAnAgentBends(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Run("a link in the way of a target", func(t *testing.T) {
		t.Parallel()
		e := newExecutor(t, t.TempDir())
		s, home := boxed(t)
		if err := os.Symlink("/oldroot"+outside, filepath.Join(home, ".cache")); err != nil {
			t.Fatal(err)
		}
		s.Caches = []executors.Mount{{Source: t.TempDir(), Target: "/home/agent/.cache/go/mod"}}
		if s.MountSpec.UID >= 0 {
			if err := os.Chown(s.Caches[0].Source, s.MountSpec.UID, s.MountSpec.GID); err != nil {
				t.Fatal(err)
			}
		}
		c := dial(t, create(t, e, s))
		if got := sh(t, c, "touch ~/.cache/go/mod/x && test ! -L ~/.cache && echo fine"); got != "fine\n" {
			t.Errorf("%q", got)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
			t.Errorf("outside of the box: %v, %v", entries, err)
		}
	})
	for name, bend := range map[string]func(s *executors.Spec, home string){
		"a source the box may write": func(s *executors.Spec, home string) {
			s.Caches = []executors.Mount{{Source: filepath.Join(home, "cache"), Target: "/opt/cache", ReadOnly: true}}
		},
		"a source that is a link": func(s *executors.Spec, home string) {
			s.Caches = []executors.Mount{{Source: filepath.Join(filepath.Dir(home), "link"), Target: "/opt/cache", ReadOnly: true}}
		},
		"a source that is not there": func(s *executors.Spec, _ string) {
			s.Caches = []executors.Mount{{Source: "/no/such/folder", Target: "/opt/cache", ReadOnly: true}}
		},
		"a target that is everything": func(s *executors.Spec, home string) {
			s.Caches = []executors.Mount{{Source: outside, Target: "/", ReadOnly: true}}
		},
		"a relative target": func(s *executors.Spec, home string) {
			s.Caches = []executors.Mount{{Source: outside, Target: "opt", ReadOnly: true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t, t.TempDir())
			s, home := boxed(t)
			if err := os.Mkdir(filepath.Join(home, "cache"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(filepath.Dir(home), "link")); err != nil {
				t.Fatal(err)
			}
			bend(&s, home)
			if sb, err := e.Create(t.Context(), s); err == nil {
				_ = sb.Destroy(t.Context())
				t.Error("it was made")
			}
		})
	}
}

// What an agent leaves in its folders does not keep them from being removed.
func TestFoldersWithoutRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newExecutor(t, dir)
	sb := create(t, e, spec(t))
	c := dial(t, sb)
	sh(t, c, "mkdir -p /run/parawork/guest/a/b ~/x/y && touch ~/x/y/z && chmod 0 /run/parawork/guest/a/b /run/parawork/guest/a ~/x/y ~/x")
	if err := sb.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "sandboxes")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A path of the host is shown where an operator asks for it, and its programs are found.
func TestPaths(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	tools := filepath.Join(t.TempDir(), "tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "mytool"), []byte("#!/bin/sh\necho mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(t.TempDir(), "sandboxes"), GuestPath: guestPath, Paths: []string{tools},
		Env: func() []string {
			return []string{"PATH=" + tools + ":/no/such:/usr/bin", "LANG=C.UTF-8", "PW_SECRET=do-not-tell", "AWS_SECRET_ACCESS_KEY=do-not-tell"}
		}})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, create(t, e, spec(t)))
	if got := sh(t, c, "mytool; echo $LANG; case $PATH in *no/such*) echo seen;; esac; env; cat /proc/*/environ 2>/dev/null; true"); !strings.HasPrefix(got, "mine\nC.UTF-8\n") || strings.Contains(got, "seen") || strings.Contains(got, "do-not-tell") {
		t.Errorf("%q", got)
	}
}

// A box whose machine's owner has chosen so has the machine's network, its names and its proxy; every other has none.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: filepath.Join(t.TempDir(), "sandboxes"), GuestPath: guestPath,
		Env: func() []string { return []string{"HTTPS_PROXY=http://proxy.example:3128", "SECRET=x", "PATH=/usr/bin"} }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with l
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "neighbour")
			_ = c.Close()
		}
	}()
	ask := "bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port) + " && cat <&3' 2>&1; echo \" $HTTPS_PROXY$SECRET\"; cat /etc/hosts"
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := boxed(t)
	s.Network = executors.Network{Mode: executors.NetworkHost}
	if got := sh(t, dial(t, create(t, e, s)), ask); got != "neighbour http://proxy.example:3128\n"+string(hosts) {
		t.Errorf("with the machine's network: %q", got)
	}
	s, _ = boxed(t)
	if got := sh(t, dial(t, create(t, e, s)), ask); !strings.Contains(got, "refused") || strings.Contains(got, "proxy.example") || strings.Contains(got, "neighbour") {
		t.Errorf("without it: %q", got)
	}
}
