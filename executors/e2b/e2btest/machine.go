package e2btest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest/envd"
	"github.com/parawork/parawork/internal/cgroup"
)

// ErrNoSandboxes says that sandboxes cannot be made on this machine.
var ErrNoSandboxes = errors.New("bubblewrap does not work here")

// probe tries once whether bubblewrap works here.
var probe = sync.OnceValue(func() error {
	args := append(namespaces(false), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true")
	out, err := exec.Command("bwrap", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %v: %s", ErrNoSandboxes, err, bytes.TrimSpace(out))
	}
	return nil
})

// asRoot reports whether sandboxes have users of their own.
func asRoot() bool { return os.Geteuid() == 0 }

func namespaces(hostNetwork bool) []string {
	args := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "e2b.local"}
	if !hostNetwork {
		args = append(args, "--unshare-net")
	}
	if asRoot() {
		return append(args, "--cap-add", "ALL")
	}
	return append(args, "--unshare-user", "--uid", strconv.Itoa(insideUID), "--gid", strconv.Itoa(insideUID))
}

// Of the default user inside.
const (
	insideUser = "user"
	insideUID  = 1000
	envdPort   = 49983
)

// machine is what runs of a sandbox: an envd in namespaces of its own over the sandbox's tree.
type machine struct {
	cmd    *exec.Cmd
	group  *cgroup.Group // nil = processes are stopped one by one
	socket string
	ports  string
	client *http.Client
	done   chan struct{} // it has ended
	stderr *bytes.Buffer
}

// makeTree lays out what a sandbox sees as /.
func (s *Server) makeTree(root string, b *sandbox) error {
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{"", 0o755}, {"etc", 0o755}, {"home", 0o755}, {"home/user", 0o755}, {"root", 0o700}, {"run", 0o755}, {"run/e2b", 0o755}, {"tmp", 0o1777},
		{"var", 0o755}, {"var/tmp", 0o1777}, {"opt", 0o755}, {"usr", 0o755}, {"mnt", 0o755}, {"srv", 0o755}, {"dev", 0o755}, {"proc", 0o755}, {"sys", 0o755}, {".e2b", 0o755}} {
		path := filepath.Join(root, d.path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		mode := d.mode & 0o777
		if d.mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if to, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(to, filepath.Join(root, l)); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	files := map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group":  "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 e2b.local\n", "etc/hostname": "e2b.local\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n", "run/e2b/.E2B_SANDBOX": "true", "run/e2b/.E2B_SANDBOX_ID": b.id,
		"run/e2b/.E2B_TEMPLATE_ID": b.template.id,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if asRoot() {
		return os.Chown(filepath.Join(root, "home/user"), insideUID, insideUID)
	}
	return nil
}

// boot starts a sandbox's machine over its tree and waits for its envd.
func (s *Server) boot(ctx context.Context, b *sandbox) (m *machine, err error) {
	base := filepath.Join(s.dir, b.id)
	root := filepath.Join(base, "root")
	if _, err := os.Stat(root); err != nil { // else it is a disk that has been paused
		if err := s.makeTree(root, b); err != nil {
			return nil, err
		}
		if b.template.layer != "" {
			if out, err := exec.CommandContext(ctx, "cp", "-a", b.template.layer+"/.", root).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("laying out the template: %w: %s", err, out)
			}
		}
	}
	m = &machine{socket: filepath.Join(base, "e.sock"), ports: filepath.Join(base, "p.sock"), done: make(chan struct{}), stderr: &bytes.Buffer{}}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	for _, path := range []string{m.socket, m.ports} {
		_ = os.Remove(path)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return nil, err
		}
		l.SetUnlinkOnClose(false)
		f, err := l.File()
		_ = l.Close()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gateW.Close()
	files = append(files, gateR)
	m.cmd = exec.Command(s.program, append([]string{"launch", "bwrap"}, s.arguments(root, b)...)...)
	m.cmd.ExtraFiles = files
	m.cmd.Stderr = m.stderr
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.launcher.Start(m.cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.done)
	}()
	if s.tree != nil {
		if m.group, err = s.tree.Make(b.id, cgroup.Limits{}); err == nil {
			err = m.group.Join(m.cmd.Process.Pid)
		}
		if err != nil {
			m.kill()
			return nil, err
		}
	}
	if _, err := gateW.Write([]byte{1}); err != nil {
		m.kill()
		return nil, err
	}
	m.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", m.socket)
		}}}
	if err := m.init(ctx, b); err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// arguments of bubblewrap for a sandbox.
func (s *Server) arguments(root string, b *sandbox) []string {
	args := append(namespaces(s.cfg.HostNetwork), "--bind", root, "/", "--ro-bind", "/usr", "/usr", "--dev", "/dev", "--proc", "/proc",
		"--ro-bind", s.program, "/.e2b/envd", "--clearenv", "--setenv", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--chdir", "/")
	show := append(append([]string{"/etc/ssl", "/etc/ca-certificates", "/etc/alternatives", "/etc/matplotlibrc", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"},
		s.cfg.Show...), b.template.Show...)
	if s.cfg.HostNetwork {
		show = append(show, "/etc/resolv.conf")
	}
	for _, l := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		if st, err := os.Lstat(l); err == nil && st.IsDir() {
			show = append(show, l)
		}
	}
	for _, p := range show {
		_ = os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755) // bubblewrap would make it root's alone
		args = append(args, "--ro-bind-try", p, p)
	}
	if real := os.Getenv(RealEnv); real != "" {
		args = append(args, "--ro-bind", real, envd.RealAt)
	}
	return append(args, "/.e2b/envd", "envd")
}

// RealEnv names an environment variable with the path of a real envd (github.com/e2b-dev/infra, packages/envd), which then serves the
// sandboxes of tests in place of this package's own: so the two are compared by hand. Only for sandboxes with a network of their own.
const RealEnv = "E2BTEST_ENVD"

// init waits for envd and gives it what the orchestrator gives it.
func (m *machine) init(ctx context.Context, b *sandbox) error {
	in := envd.Init{AccessToken: b.token, EnvVars: map[string]string{"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": b.id, "E2B_TEMPLATE_ID": b.template.id,
		"E2B_EVENTS_ADDRESS": "http://192.0.2.1"}, DefaultUser: insideUser, OneUser: !asRoot(), MemoryMB: int64(b.template.MemoryMB), CPUCount: b.template.CPUs}
	for k, v := range b.envVars {
		in.EnvVars[k] = v
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	go func() {
		select {
		case <-m.done: // nobody will answer
			cancel()
		case <-ctx.Done():
		}
	}()
	res, err := m.call(ctx, http.MethodPost, "/init", body)
	if err != nil {
		return fmt.Errorf("envd does not answer: %w: %s", err, m.errors())
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return fmt.Errorf("envd refuses its settings: %s", text)
	}
	return nil
}

// errors is what the machine said, once it has ended.
func (m *machine) errors() string {
	select {
	case <-m.done:
		return m.stderr.String()
	default:
		return ""
	}
}

func (m *machine) call(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://envd"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return m.client.Do(req)
}

// kill ends all processes of the machine and waits for that. The first process inside goes, and with it all that it can see; bubblewrap
// outside reaps it and leaves.
func (m *machine) kill() {
	ctx, cancel := background()
	defer cancel()
	inside := children(m.cmd.Process.Pid)
	for _, pid := range inside {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if len(inside) == 0 { // it has not begun
		_ = m.cmd.Process.Kill()
	}
	if m.group != nil {
		_ = m.group.Unfreeze(ctx) // where they are frozen, they die of it
	}
	select {
	case <-m.done:
	case <-time.After(5 * time.Second): // it was just beginning
		_ = m.cmd.Process.Kill()
		<-m.done
	}
	if m.group != nil {
		_ = m.group.Destroy(ctx)
	}
	if m.client != nil {
		m.client.CloseIdleConnections()
	}
}

// children are the processes that one has started and not reaped.
func children(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		if all := descendants(pid); len(all) > 1 {
			return all[1:2]
		}
		return nil
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// freeze suspends or resumes all processes.
func (m *machine) freeze(still bool) error {
	ctx, cancel := background()
	defer cancel()
	if m.group != nil {
		if still {
			return m.group.Freeze(ctx)
		}
		return m.group.Unfreeze(ctx)
	}
	sig := syscall.SIGCONT
	if still {
		sig = syscall.SIGSTOP
	}
	for hit := map[int]bool{}; ; { // until nobody new was found
		found := false
		for _, pid := range descendants(m.cmd.Process.Pid) {
			if !hit[pid] {
				hit[pid], found = true, true
				_ = syscall.Kill(pid, sig)
			}
		}
		if !found {
			return nil
		}
	}
}

// descendants are a process and all below it.
func descendants(pid int) []int {
	children := map[int][]int{}
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		p, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		if i := strings.LastIndex(string(b), ") "); i > 0 {
			if f := strings.Fields(string(b)[i+2:]); len(f) > 1 {
				if parent, err := strconv.Atoi(f[1]); err == nil {
					children[parent] = append(children[parent], p)
				}
			}
		}
	}
	out := []int{pid}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}
