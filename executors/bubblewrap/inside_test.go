//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

// insideEnv has this test program, run in a box, make the calls that must not work there.
const insideEnv = "PARAWORK_TEST_INSIDE"

// inside makes them, says how each was answered, and reports whether that was what the program is for.
func inside() bool {
	if os.Getenv(insideEnv) == "" {
		return false
	}
	say := func(name string, nr uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		fmt.Printf("%s=%d\n", name, errno)
	}
	for name, nr := range bubblewrap.Forbidden() {
		say(name, nr)
	}
	say("clone of a user namespace", unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
	say("clone of a network", unix.SYS_CLONE, unix.CLONE_NEWNET|uintptr(unix.SIGCHLD))
	say("clone3", unix.SYS_CLONE3)
	say("TIOCSTI", unix.SYS_IOCTL, 0, unix.TIOCSTI)
	say("TIOCSTI with other upper bits", unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI)
	say("TIOCLINUX", unix.SYS_IOCTL, 0, 0x541c)
	say("personality that makes all memory run", unix.SYS_PERSONALITY, 0x400000)
	say("personality asked", unix.SYS_PERSONALITY, 0xffffffff)
	for name, family := range map[string]uintptr{"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_VSOCK": unix.AF_VSOCK, "AF_PACKET": unix.AF_PACKET, "AF_ALG": unix.AF_ALG} {
		say(name, unix.SYS_SOCKET, family, unix.SOCK_DGRAM)
	}
	say("netlink of routes", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	say("netlink of devices", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
	if bubblewrap.X32 > 0 {
		say("x32", bubblewrap.X32|uintptr(unix.SYS_GETPID))
	}
	return true
}

// output runs a program in a box to its end and returns what it printed.
func output(t *testing.T, c *client.Client, s guest.ProcessSpec) string {
	t.Helper()
	s.ID = id.New("p")
	if _, err := c.Start(t.Context(), s); err != nil {
		t.Fatalf("Start: %v", err)
	}
	out, err := c.Output(t.Context(), s.ID, guest.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	b, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	end, err := c.Wait(t.Context(), s.ID)
	if err != nil || end.ExitCode == nil || *end.ExitCode != 0 {
		t.Fatalf("%q ended as %+v, %v; it printed %q", s.Argv, end, err, b)
	}
	return string(b)
}

// sh runs a shell line in a box.
func sh(t *testing.T, c *client.Client, line string) string {
	t.Helper()
	return output(t, c, guest.ProcessSpec{Argv: []string{"/bin/sh", "-c", line}})
}

func TestFilter(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	s := spec(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.Root, "calls"), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, create(t, e, s))
	got := make(map[string]string)
	for line := range strings.Lines(output(t, c, guest.ProcessSpec{Argv: []string{filepath.Join(s.Root, "calls")}, Env: map[string]string{insideEnv: "1"}})) {
		if name, errno, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			got[name] = errno
		}
	}
	want := map[string]syscall.Errno{
		"clone of a user namespace": unix.EPERM, "clone of a network": unix.EPERM, "clone3": unix.ENOSYS, "TIOCSTI": unix.EPERM, "TIOCSTI with other upper bits": unix.EPERM,
		"TIOCLINUX": unix.EPERM, "personality that makes all memory run": unix.EPERM, "personality asked": 0, "AF_UNIX": 0, "AF_INET": 0, "AF_INET6": 0,
		"AF_VSOCK": unix.EAFNOSUPPORT, "AF_PACKET": unix.EAFNOSUPPORT, "AF_ALG": unix.EAFNOSUPPORT, "netlink of routes": 0, "netlink of devices": unix.EPROTONOSUPPORT,
	}
	if bubblewrap.X32 > 0 {
		want["x32"] = unix.ENOSYS
	}
	for name := range bubblewrap.Forbidden() {
		want[name] = unix.EPERM
	}
	for name, errno := range want {
		if got[name] != fmt.Sprint(int(errno)) {
			t.Errorf("%s was answered with %q, want %d (%v)", name, got[name], int(errno), errno)
		}
	}
}

// What a box sees is its worktree, its home and the system; of the host there is nothing.
func TestWhatABoxSees(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, t.TempDir())
	s := spec(t)
	c := dial(t, create(t, e, s))
	for line, want := range map[string]string{
		"id -u; id -g; id -un; id -G":                     "1000\n1000\nagent\n1000\n",
		"hostname; cat /etc/hostname":                     "parawork\nparawork\n",
		"echo $HOME; cd; pwd; echo hi > file && cat file": "/home/agent\n/home/agent\nhi\n",
		"cut -d: -f1 /etc/passwd | tr '\\n' ' '":          "root agent nobody ",
		"cat /etc/resolv.conf":                            "",
		"ls /home /run /var":                              "/home:\nagent\n\n/run:\nparawork\n\n/var:\nrun\ntmp\n",
		"stat -c %a /tmp /dev/shm":                        "1777\n1777\n",
		"touch /tmp/x /var/tmp/y && ls /tmp/x /tmp/y":     "/tmp/x\n/tmp/y\n",
		"for d in / /usr /etc /dev /opt /home /opt/parawork; do touch $d/x 2>/dev/null && echo $d; done; true":            "",
		"tr '\\0' ' ' < /proc/1/cmdline | cut -d' ' -f1,2; all=$(ps ax -o comm=); echo \"$all\" | sort -u | tr '\\n' ' '": "/opt/parawork/parawork-guest serve\nparawork-guest ps sh ",
		"env | grep -v -E '^(LC_|LANG|TZ)' | cut -d= -f1 | sort | tr '\\n' ' '":                                           "HOME LOGNAME PARAWORK_PROCESS PARAWORK_SANDBOX_ID PATH PWD SHELL TERM USER ",
		"touch " + s.Root + "/made && stat -c %u " + s.Root + "/made":                                                     "1000\n",
		"umask": "0022\n",
		"cat /sys/kernel/* /etc/shadow /etc/ssh/* /root/.bashrc 2>/dev/null; ls -d /etc/ssl/private 2>/dev/null; true": "",
		"ulimit -c": "0\n",
	} {
		if got := sh(t, c, line); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", line, got, want)
		}
	}
	links := strings.Fields(sh(t, c, "ls /"))
	for _, name := range links {
		if !slices.Contains([]string{"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "opt", "proc", "run", "sbin", "tmp", "usr", "var"}, name) && !strings.HasPrefix(s.Root, "/"+name) {
			t.Errorf("the box sees /%s", name)
		}
	}
	if os.Geteuid() == 0 {
		var own, made unix.Stat_t
		if err := unix.Lstat(s.Root, &own); err != nil {
			t.Fatal(err)
		}
		if err := unix.Lstat(filepath.Join(s.Root, "made"), &made); err != nil || made.Uid != own.Uid || made.Uid == 0 {
			t.Errorf("a file made in the box belongs to %d, %v", made.Uid, err)
		}
	}
}
