// Package hostedtest has the machines of stand-ins for services: each is a tree of its own, seen as / by its processes, in namespaces of its own that
// bubblewrap makes. What machines share with this one is read-only: /usr. All processes of a machine end with it, and with the test.
package hostedtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/internal/guestbin"
)

// Path is where programs are found in a machine.
const Path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Guest builds the guest once.
var Guest = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "parawork-guest")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // others run it
		return "", err
	}
	path := filepath.Join(dir, "parawork-guest")
	build := exec.Command("go", "build", "-o", path, "github.com/parawork/parawork/cmd/parawork-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the guest: %w: %s", err, out)
	}
	return path, nil
})

// GuestInside is where a machine whose image has the guest's program has it.
func GuestInside() (string, error) {
	path, err := Guest()
	if err != nil {
		return "", err
	}
	hash, err := guestbin.Hash(path)
	return hosted.ImageGuest + hash, err
}

// probe tries once whether bubblewrap works here.
var probe = sync.OnceValue(func() error {
	args := append(namespaces(), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true")
	if out, err := exec.Command("bwrap", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("bubblewrap does not work here: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
})

// Need skips a test where machines cannot be made.
func Need(t testing.TB) {
	t.Helper()
	if err := probe(); err != nil {
		t.Skip(err)
	}
}

func namespaces() []string {
	args := []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--hostname", "machine"}
	if os.Geteuid() == 0 {
		return append(args, "--cap-add", "ALL")
	}
	return append(args, "--unshare-user", "--uid", "0", "--gid", "0")
}

// marker is seen by who sees a machine's tree as /.
const marker = "/.machine"

// Machine is one that runs.
type Machine struct {
	Root string // its disk, as this machine sees it

	cmd  *exec.Cmd
	init int            // the first process in it
	hold io.WriteCloser // it ends when this closes
	done chan struct{}
}

// Boot starts a machine over a disk, which is laid out where it is empty. It has the guest's program in its image where withGuest says so.
func Boot(root string, withGuest bool) (*Machine, error) {
	if err := layOut(root); err != nil {
		return nil, err
	}
	args := append(namespaces(), "--bind", root, "/", "--ro-bind", "/usr", "/usr", "--dev", "/dev", "--proc", "/proc", "--clearenv", "--chdir", "/", "--info-fd", "3")
	for _, p := range []string{"/etc/ssl", "/etc/alternatives", "/etc/ld.so.cache"} {
		_ = os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755) // bubblewrap would make it root's alone
		args = append(args, "--ro-bind-try", p, p)
	}
	if withGuest {
		inside, err := GuestInside()
		if err != nil {
			return nil, err
		}
		path, _ := Guest() // it is there
		args = append(args, "--ro-bind", path, inside)
	}
	m := &Machine{Root: root, done: make(chan struct{})}
	m.cmd = exec.Command("bwrap", append(args, "/usr/bin/cat")...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said := &bytes.Buffer{}
	m.cmd.Stderr = said
	hold, err := m.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	m.hold = hold
	infoR, infoW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer infoR.Close()
	m.cmd.ExtraFiles = []*os.File{infoW}
	err = m.cmd.Start()
	_ = infoW.Close()
	if err != nil {
		return nil, err
	}
	go func() { // ends with the machine
		_ = m.cmd.Wait()
		close(m.done)
	}()
	var info struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(infoR).Decode(&info); err != nil || info.Pid == 0 {
		m.Kill()
		return nil, fmt.Errorf("starting a machine: %w: %s", err, said)
	}
	m.init = info.Pid
	for range 500 { // until its tree is in place
		if err := m.Command(context.Background(), []string{"/usr/bin/test", "-e", marker, "-a", "-d", "/proc/1"}, nil, "/").Run(); err == nil {
			return m, nil
		}
		time.Sleep(2 * time.Millisecond) // nothing tells
	}
	m.Kill()
	return nil, errors.New("a machine did not start")
}

// Command is a program in the machine. Its process group ends with Kill of this package; a context's end kills it, too.
func (m *Machine) Command(ctx context.Context, argv, env []string, dir string) *exec.Cmd {
	args := []string{"-t", strconv.Itoa(m.init), "-m", "-u", "-i", "-n", "-p"}
	if os.Geteuid() != 0 {
		args = append(args, "-U", "--preserve-credentials")
	}
	args = append(append(args, "-r", "-w", "/usr/bin/env", "-C", dir), argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append([]string{Path}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return KillGroup(cmd) }
	return cmd
}

// KillGroup ends a program with everything that stayed in its group.
func KillGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// Kill ends everything in the machine. Its disk stays.
func (m *Machine) Kill() {
	_ = m.hold.Close()
	if m.init != 0 {
		_ = syscall.Kill(m.init, syscall.SIGKILL)
	} else {
		_ = m.cmd.Process.Kill()
	}
	<-m.done
}

// Has reports whether a path is there.
func (m *Machine) Has(path string) bool {
	_, err := os.Stat(filepath.Join(m.Root, path))
	return err == nil
}

// layOut lays out what a machine sees as /.
func layOut(root string) error {
	if _, err := os.Stat(filepath.Join(root, "etc")); err == nil {
		return nil
	}
	for _, d := range []string{"", "etc", "home", "root", "run", "tmp", "var/tmp", "var/lib", "opt", "usr", "mnt", "dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if to, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(to, filepath.Join(root, l)); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(filepath.Join(root, marker), nil, 0o644); err != nil {
		return err
	}
	for name, text := range map[string]string{"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n", "hosts": "127.0.0.1 localhost\n"} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
