package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/testing/onethread"
)

// programs that containers are made with.
var programs = []string{"bwrap", "nsenter", "setpriv", "env"}

// possible says why no containers can be made here, once; nil when they can.
var possible = sync.OnceValue(func() error {
	if os.Geteuid() != 0 {
		return errors.New("it needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return errors.New(p + " is not installed")
		}
	}
	out, err := exec.Command("bwrap", "--unshare-pid", "--unshare-net", "--as-pid-1", "--ro-bind", "/", "/", "--proc", "/proc", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("bubblewrap does not work here: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
})

// identity is who runs in a container.
type identity struct {
	uid, gid     int64
	groups       []int64
	noPrivileges bool // nothing in it gets more rights
	noRights     bool // not even root has any
}

// arguments of setpriv for it.
func (i identity) arguments() []string {
	args := []string{"/usr/bin/setpriv", fmt.Sprintf("--reuid=%d", i.uid), fmt.Sprintf("--regid=%d", i.gid), "--inh-caps=-all"}
	if len(i.groups) == 0 {
		args = append(args, "--clear-groups")
	} else {
		var g []string
		for _, n := range i.groups {
			g = append(g, strconv.FormatInt(n, 10))
		}
		args = append(args, "--groups="+strings.Join(g, ","))
	}
	if i.noPrivileges {
		args = append(args, "--no-new-privs")
	}
	if i.noRights {
		args = append(args, "--bounding-set=-all")
	}
	return append(args, "--")
}

// mounted is something that a container sees.
type mounted struct {
	from, to string
	readOnly bool
}

// boxSpec is a container to be made.
type boxSpec struct {
	dir          string // its root and what it says are kept here
	argv         []string
	env          []string
	cwd          string
	hostname     string
	who          identity
	readOnlyRoot bool
	hostNetwork  bool
	mounts       []mounted
}

// box is a container that runs, or has run.
type box struct {
	spec boxSpec
	cmd  *exec.Cmd
	pid  int // of its process 1
	done chan struct{}
	code int // once done is closed
}

// folders of every root.
var folders = []struct {
	path string
	mode fs.FileMode
}{{"etc", 0o755}, {"home", 0o755}, {"root", 0o700}, {"run", 0o755}, {"tmp", 0o777 | fs.ModeSticky}, {"var", 0o755}, {"var/tmp", 0o777 | fs.ModeSticky},
	{"opt", 0o755}, {"usr", 0o755}, {"mnt", 0o755}, {"srv", 0o755}, {"dev", 0o755}, {"proc", 0o755}, {"sys", 0o755}}

func (b boxSpec) makeRoot() (string, error) {
	root := filepath.Join(b.dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	for _, f := range folders {
		path := filepath.Join(root, f.path)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, f.mode)); err != nil {
			return "", err
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if to, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(to, filepath.Join(root, l)); err != nil && !errors.Is(err, fs.ErrExist) {
				return "", err
			}
		}
	}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
		"group":  "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", "hosts": "127.0.0.1\tlocalhost\n", "hostname": b.hostname + "\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return root, nil
}

// start makes a container. launch starts its program.
func (b boxSpec) start(l *onethread.Launcher) (*box, error) {
	root, err := b.makeRoot()
	if err != nil {
		return nil, err
	}
	bind := "--bind"
	if b.readOnlyRoot {
		bind = "--ro-bind"
	}
	args := []string{"--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", b.hostname, "--as-pid-1", "--cap-add", "ALL", "--info-fd", "3"}
	if !b.hostNetwork {
		args = append(args, "--unshare-net")
	}
	args = append(args, bind, root, "/", "--ro-bind", "/usr", "/usr", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys")
	show := []string{"/etc/ssl", "/etc/ca-certificates", "/etc/alternatives", "/etc/ld.so.cache"}
	if b.hostNetwork {
		show = append(show, "/etc/resolv.conf", "/etc/hosts")
	}
	mounts := slices.Clone(b.mounts)
	for _, p := range show {
		if _, err := os.Stat(p); err == nil {
			mounts = append(mounts, mounted{p, p, true})
		}
	}
	slices.SortStableFunc(mounts, func(a, c mounted) int { return strings.Count(a.to, "/") - strings.Count(c.to, "/") })
	for _, m := range mounts {
		if !strings.HasPrefix(m.to, "/usr/") {
			if err := mountPoint(m.from, filepath.Join(root, m.to)); err != nil {
				return nil, err
			}
		}
		how := "--bind"
		if m.readOnly {
			how = "--ro-bind"
		}
		args = append(args, how, m.from, m.to)
	}
	if b.cwd != "/" { // a runtime makes it
		if _, err := os.Stat(filepath.Join(root, b.cwd)); err != nil {
			args = append(args, "--dir", b.cwd)
		}
	}
	args = append(args, "--chdir", b.cwd, "--")
	args = append(args, b.who.arguments()...)
	args = append(args, b.argv...)
	out, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	infoR, infoW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer infoR.Close()
	one := &box{spec: b, cmd: exec.Command("bwrap", args...), done: make(chan struct{})}
	one.cmd.Env, one.cmd.Stdout, one.cmd.Stderr, one.cmd.ExtraFiles = b.env, out, out, []*os.File{infoW}
	one.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = l.Start(one.cmd)
	_ = infoW.Close()
	if err != nil {
		return nil, err
	}
	go func() { // ends with the container
		_ = one.cmd.Wait()
		one.code = exitCode(one.cmd.ProcessState)
		close(one.done)
	}()
	var info struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(infoR).Decode(&info); err != nil {
		<-one.done
		said, _ := os.ReadFile(out.Name())
		return nil, fmt.Errorf("making a container: %w: %s", err, said)
	}
	one.pid = info.Pid
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, err
	}
	for { // it is a container once its own program runs
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", one.pid))
		if err == nil && exe != bwrap && !strings.HasSuffix(exe, "/setpriv") {
			return one, nil
		}
		select {
		case <-one.done:
			return one, nil
		case <-time.After(time.Millisecond): // nobody tells
		}
	}
}

// mountPoint makes what something is mounted on.
func mountPoint(from, at string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func exitCode(p *os.ProcessState) int {
	if w, ok := p.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return p.ExitCode()
}

// command is one that runs in a container beside its process 1.
func (b *box) command(ctx context.Context, argv []string) *exec.Cmd {
	args := []string{"-t", strconv.Itoa(b.pid), "-m", "-p", "-n", "-i", "-u", "--"}
	args = append(args, b.spec.who.arguments()...)
	args = append(args, "/usr/bin/env", "-C", b.spec.cwd, "--")
	cmd := exec.CommandContext(ctx, "nsenter", append(args, argv...)...)
	cmd.Env = b.spec.env
	return cmd
}

// term asks process 1 to end.
func (b *box) term() { _ = syscall.Kill(b.pid, syscall.SIGTERM) }

// kill ends process 1, and with it all.
func (b *box) kill() {
	select {
	case <-b.done:
	default:
		_ = syscall.Kill(b.pid, syscall.SIGKILL)
	}
}
