package executortest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/id"
)

// secretWord is in everything an agent must not find: files, names, environments, command lines.
const secretWord = "parawork-secret-7f3a"

// try is one thing a hostile agent does. See attacker.
type try struct{ name, arg string }

func (a try) String() string { return strings.TrimSpace(a.name + " " + a.arg) }

// Isolation runs everything that must be impossible inside an isolated sandbox: the agent's program makes each try from inside.
func Isolation(t *testing.T, cfg Config) {
	t.Helper()
	h := newHost(t, cfg)
	b := h.box
	for _, a := range h.tries() {
		t.Run(a.String(), func(t *testing.T) {
			out, code := h.attempt(t, b, a)
			switch code {
			case 0:
			case 1:
				t.Error(out)
			default:
				t.Errorf("the try could not be made (exit %d): %s", code, out)
			}
		})
	}
	t.Run("the host is unchanged", func(t *testing.T) { h.unharmed(t) })
}

// Breaches returns the tries that succeed, for executors that do not isolate: their documentation states what that means.
func Breaches(t *testing.T, cfg Config) []string {
	t.Helper()
	h := newHost(t, cfg)
	var got []string
	for _, a := range h.tries() {
		if a.name == "write" || a.name == "syscall" || a.name == "device" || a.name == "setuid" {
			continue // an executor without isolation would really do it
		}
		if _, code := h.attempt(t, h.box, a); code == 1 {
			got = append(got, a.String())
		}
	}
	return got
}

// host is the machine around the sandbox under attack, with the things an agent would want.
type host struct {
	dir       string // of the server: its database, configuration and keys
	neighbour string // another workspace's worktree
	open      string // a file anybody on this machine may read
	home      string // of the server's user
	tcp       string // a service on the host's loopback
	addr      string // the same on an address of the host's network, "" when it has none
	abstract  string // an abstract socket
	socket    string // a socket in a folder anybody may enter, as Docker's
	pid       int    // a process of the host's
	box       *box
}

func newHost(t *testing.T, cfg Config) *host {
	t.Helper()
	t.Setenv("PARAWORK_TEST_SECRET", secretWord)
	h := &host{dir: t.TempDir(), open: sharedFile(t)}
	for _, name := range []string{"parawork.db", "config.json", "secret.key"} {
		h.put(t, filepath.Join(h.dir, name), 0o644) // worse than in reality: a sandbox must not depend on the host's file modes
	}
	h.neighbour = GitRoot(t)
	h.put(t, filepath.Join(h.neighbour, "plans.txt"), 0o644)
	h.home = t.TempDir()
	h.put(t, filepath.Join(h.home, ".ssh", "id_ed25519"), 0o644)
	h.listen(t)
	sleeper := exec.Command("sleep", "86400")
	sleeper.Args = []string{secretWord, "86400"} // its command line shows whether other processes are visible
	sleeper.Path, _ = exec.LookPath("sleep")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	h.pid = sleeper.Process.Pid
	program := attackerProgram(t)
	made := cfg
	made.Root = func(t *testing.T) string {
		root := cfg.Root
		if root == nil {
			root = GitRoot
		}
		dir := root(t)
		b, err := os.ReadFile(program)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "attacker"), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	h.box = makeBox(t, made)
	return h
}

func (h *host) put(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(secretWord+"\n"), mode); err != nil {
		t.Fatal(err)
	}
}

// sharedFile is a world-readable file of the host: only isolation protects it.
func sharedFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "parawork-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "open.txt")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(secretWord+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// listen opens services of the host: the agent must reach none.
func (h *host) listen(t *testing.T) {
	t.Helper()
	accept := func(l net.Listener) string {
		t.Cleanup(func() { _ = l.Close() })
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(accept(l))
	h.tcp = "127.0.0.1:" + port
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
				h.addr = net.JoinHostPort(ip.IP.String(), port)
			}
		}
	}
	h.abstract = "@" + id.New("parawork-test")
	l, err = net.Listen("unix", h.abstract)
	if err != nil {
		t.Fatal(err)
	}
	accept(l)
	h.socket = filepath.Join(filepath.Dir(h.open), "engine.sock")
	l, err = net.Listen("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	accept(l)
	if err := os.Chmod(h.socket, 0o777); err != nil {
		t.Fatal(err)
	}
}

// tries are everything an agent might do, with the names of this host's secrets.
func (h *host) tries() []try {
	out := []try{
		{"identity", ""}, {"fds", ""}, {"environ", secretWord}, {"procs", secretWord}, {"guest", ""}, {"interface", ""},
		{"setuid", "."}, {"hardlink", "/usr/bin/env"}, {"hardlink", "/etc/passwd"}, {"list", filepath.Dir(h.open)}, {"list", "/root"}, {"list", "/var/lib"},
		{"list", h.home}, {"list", h.dir}, {"list", h.neighbour}, {"list", fmt.Sprintf("/proc/%d/root/", h.pid)}, {"list", "/sys/fs/cgroup/memory/parawork"},
		{"unix", h.abstract}, {"unix", h.socket}, {"unix", "/var/run/docker.sock"}, {"unix", "/run/containerd/containerd.sock"}, {"unix", "/run/dbus/system_bus_socket"},
		{"tcp", h.tcp}, {"tcp", "169.254.169.254:80"}, {"tcp", "100.100.100.200:80"}, {"tcp", "1.1.1.1:53"}, {"udp", "1.1.1.1:53"}, {"udp", "169.254.169.253:53"},
	}
	if h.addr != "" {
		out = append(out, try{"tcp", h.addr})
	}
	for _, f := range []string{filepath.Join(h.dir, "parawork.db"), filepath.Join(h.dir, "config.json"), filepath.Join(h.dir, "secret.key"), filepath.Join(h.neighbour, "plans.txt"),
		filepath.Join(h.home, ".ssh", "id_ed25519"), h.open, "/etc/shadow", "/etc/machine-id", "/root/.bashrc", "/proc/kcore", "/proc/kmsg", "/proc/sched_debug", "/proc/timer_list",
		fmt.Sprintf("/proc/%d/environ", h.pid), fmt.Sprintf("/proc/%d/cmdline", h.pid), "/sys/kernel/debug", "/sys/firmware/efi", "/proc/1/environ", "/proc/1/mem"} {
		out = append(out, try{"read", f})
	}
	for _, f := range []string{"/usr/bin/env", "/etc/passwd", "/etc/ld.so.preload", "/usr/parawork-test", "/bin/parawork-test", "/opt/parawork/parawork-guest", "/run/parawork/gate/x", "/proc/sys/kernel/core_pattern",
		"/proc/sysrq-trigger", "/proc/sys/kernel/hostname", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.procs", "/proc/1/oom_score_adj",
		h.open, filepath.Join(filepath.Dir(h.open), "new.txt"), filepath.Join(h.neighbour, "new.txt"), filepath.Join(h.dir, "secret.key")} {
		out = append(out, try{"write", f})
	}
	for _, f := range []string{"/dev/mem", "/dev/kmsg", "/dev/port", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop-control", "/dev/kvm", "/dev/fuse", "/dev/vsock", "/dev/vhost-vsock", "/dev/net/tun",
		"/dev/mapper/control", "/dev/userfaultfd", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/input/event0", "/dev/dri/card0", "/dev/hwrng", "/dev/rtc0", "/dev/snapshot", "/dev/autofs"} {
		out = append(out, try{"device", f})
	}
	for _, k := range []string{"vsock", "packet", "raw", "alg", "key", "bluetooth"} {
		out = append(out, try{"socket", k})
	}
	for _, c := range []string{"unshare-user", "unshare-mount", "unshare-net", "setns", "mount", "bind-mount", "remount", "umount", "fsopen", "open_tree", "pivot_root", "chroot", "mknod", "bpf", "perf_event_open",
		"userfaultfd", "keyctl", "add_key", "io_uring_setup", "open_by_handle_at", "init_module", "kexec_load", "reboot", "swapoff", "settimeofday", "sethostname", "syslog", "acct", "quotactl", "setuid-root", "setgid-root",
		"nice", "realtime", "rlimit"} {
		out = append(out, try{"syscall", c})
	}
	return append(out, try{"tty syscall", "tiocsti"})
}

// attempt makes one try inside the sandbox and returns its output.
func (h *host) attempt(t *testing.T, b *box, a try) (string, int) {
	t.Helper()
	name, tty := strings.CutPrefix(a.name, "tty ")
	spec := guest.ProcessSpec{ID: id.New("p"), Argv: []string{filepath.Join(b.inside, "attacker"), name}, Tty: tty, TimeoutMs: 20_000}
	if a.arg != "" {
		spec.Argv = append(spec.Argv, a.arg)
	}
	stream := guest.Stdout
	if tty {
		stream = guest.Terminal
	}
	p, err := b.c.Start(b.ctx, spec)
	if err != nil {
		t.Fatalf("starting the try %s: %v", a, err)
	}
	out, err := b.c.Output(b.ctx, p.ID, stream, 0)
	if err != nil {
		t.Fatalf("reading the try %s: %v", a, err)
	}
	defer out.Close()
	text := readAll(t, out)
	end, err := b.c.Wait(b.ctx, p.ID)
	if err != nil {
		t.Fatalf("waiting for the try %s: %v", a, err)
	}
	if end.Signal == "SIGSYS" { // a filter that kills the caller
		return "ended by the filter of system calls", 0
	}
	if end.ExitCode == nil {
		return fmt.Sprintf("%s (ended by %s, %s)", text, end.Signal, end.Reason), 2
	}
	return strings.TrimSpace(text), *end.ExitCode
}

// unharmed checks that nothing of the host's was changed.
func (h *host) unharmed(t *testing.T) {
	t.Helper()
	for _, path := range []string{h.open, filepath.Join(h.dir, "secret.key"), filepath.Join(h.neighbour, "plans.txt")} {
		if b, err := os.ReadFile(path); err != nil || string(b) != secretWord+"\n" {
			t.Errorf("%s is %q, %v", path, b, err)
		}
	}
	for _, path := range []string{filepath.Join(filepath.Dir(h.open), "new.txt"), filepath.Join(h.neighbour, "new.txt"), "/usr/parawork-test", "/bin/parawork-test", "/etc/ld.so.preload.parawork"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
	if name, err := os.Hostname(); err != nil || name == "owned" {
		t.Errorf("the host is called %q, %v", name, err)
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("reading what a try said: %v", err)
	}
	return string(b)
}

// attackerEnv names a prebuilt attacker, for tests that run as a user who cannot build.
const attackerEnv = "PARAWORK_TEST_ATTACKER"

// attackerProgram builds the agent's program: static, so that it runs in any image.
func attackerProgram(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(attackerEnv); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "attacker")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/parawork/parawork/executors/executortest/attacker")
	cmd.Env = append(slices.Clone(os.Environ()), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the attacker: %v\n%s", err, out)
	}
	return path
}
