//go:build linux

// Command attacker does what a hostile agent would try from inside a sandbox, one try per call, using system calls directly: nothing
// depends on the tools of an image. It prints one line and exits 0 when the sandbox held, 1 when the try succeeded, and 2 when
// the try could not be made at all.
//
// With serve it listens instead, as a program the host connects to: it prints its port and echoes what it receives.
//
//	attacker TRY [ARGUMENT]
//	attacker serve
package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errHeld says that a try was refused in a way that is no kernel error.
var errHeld = errors.New("held")

func main() {
	if len(os.Args) < 2 {
		fmt.Println("usage: attacker TRY [ARGUMENT]")
		os.Exit(2)
	}
	if os.Args[1] == "serve" {
		serve()
		return
	}
	name, arg := os.Args[1], ""
	if len(os.Args) > 2 {
		arg = os.Args[2]
	}
	try, ok := tries[name]
	if !ok {
		fmt.Println("no such try:", name)
		os.Exit(2)
	}
	what, err := try(arg)
	if err != nil {
		fmt.Printf("held: %s %s: %v\n", name, arg, err)
		return
	}
	fmt.Printf("BREACH: %s %s: %s\n", name, arg, what)
	os.Exit(1)
}

// tries by name. A nil error is a breach.
var tries = map[string]func(arg string) (string, error){
	"read":      read,
	"list":      list,
	"write":     write,
	"device":    device,
	"unix":      connectUnix,
	"tcp":       connectTCP,
	"udp":       sendUDP,
	"socket":    socket,
	"syscall":   call,
	"procs":     strangers,
	"fds":       descriptors,
	"environ":   environ,
	"identity":  identity,
	"setuid":    setuid,
	"hardlink":  hardlink,
	"guest":     guestMemory,
	"interface": interfaces,
}

func read(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 64)
	n, err := f.Read(b)
	if n == 0 {
		return "", errors.Join(err, errHeld)
	}
	return fmt.Sprintf("%q", b[:n]), nil
}

// list reads a folder: its names alone are a leak.
func list(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", errHeld
	}
	return fmt.Sprintf("%d names, first %q", len(entries), entries[0].Name()), nil
}

func write(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.WriteString("x\n"); err != nil {
		return "", err
	}
	return "written", nil
}

func device(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return "", err
	}
	_ = f.Close()
	return "opened", nil
}

func connectUnix(name string) (string, error) {
	c, err := net.DialTimeout("unix", name, 2*time.Second) // a leading @ is the abstract namespace
	if err != nil {
		return "", err
	}
	_ = c.Close()
	return "connected", nil
}

func connectTCP(addr string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return "", err
	}
	_ = c.Close()
	return "connected", nil
}

func sendUDP(addr string) (string, error) {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x00\x00\x10\x00\x01")); err != nil {
		return "", err
	}
	return "sent", nil
}

// sockets are kinds of sockets that reach the kernel, the wire or the machine below.
var sockets = map[string]func() (int, error){
	"vsock":     func() (int, error) { return unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"packet":    func() (int, error) { return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"raw":       func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"alg":       func() (int, error) { return unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	"key":       func() (int, error) { return unix.Socket(unix.AF_KEY, unix.SOCK_RAW, 2) },
	"bluetooth": func() (int, error) { return unix.Socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1) },
}

func socket(kind string) (string, error) {
	make, ok := sockets[kind]
	if !ok {
		return "", fmt.Errorf("no such kind: %w", errHeld)
	}
	fd, err := make()
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "opened", nil
}

// strangers looks for processes from outside this sandbox, by their command lines.
func strangers(marker string) (string, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return "", err
	}
	for _, d := range dirs {
		if filepath.Base(d) == fmt.Sprint(os.Getpid()) {
			continue // its own command line contains the word
		}
		b, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err == nil && marker != "" && strings.Contains(string(b), marker) {
			return fmt.Sprintf("%s is %q", d, b), nil
		}
	}
	if _, err := os.Stat("/proc/kcore"); err == nil {
		if _, err := read("/proc/kcore"); err == nil {
			return "/proc/kcore can be read", nil
		}
	}
	return "", fmt.Errorf("%d processes: %w", len(dirs), errHeld)
}

// descriptors looks for file descriptors left open by those who made the sandbox.
func descriptors(string) (string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(to, "/dev/") || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/proc/") {
			continue
		}
		found = append(found, e.Name()+" is "+to)
	}
	if len(found) == 0 {
		return "", errHeld
	}
	sort.Strings(found)
	return strings.Join(found, ", "), nil
}

// environ looks for a word in every readable environment.
func environ(word string) (string, error) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) {
			return f, nil
		}
	}
	return "", errHeld
}

// identity checks the agent's identity in its sandbox: an unprivileged user that can never gain privileges.
func identity(string) (string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	status := string(b)
	field := func(name string) string {
		for l := range strings.SplitSeq(status, "\n") {
			if v, ok := strings.CutPrefix(l, name+":"); ok {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	switch {
	case os.Geteuid() == 0:
		return "the agent is root", nil
	case strings.Trim(field("CapEff"), "0") != "" || strings.Trim(field("CapPrm"), "0") != "" || strings.Trim(field("CapBnd"), "0") != "" && field("NoNewPrivs") != "1":
		return "capabilities " + field("CapEff") + " " + field("CapBnd"), nil
	case field("NoNewPrivs") != "1" && field("NoNewPrivs") != "":
		return "new privileges can be had", nil
	case field("Seccomp") == "0":
		return "no filter of system calls", nil
	}
	return "", errHeld
}

// setuid makes a setuid-root program of itself and checks whether it gains rights.
func setuid(dir string) (string, error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "suid")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		return "", err
	}
	if err := os.Chown(path, 0, 0); err != nil {
		return "", err
	}
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		return "", err
	}
	return "made a program that runs as root", nil
}

// hardlink pulls a file of the system into the worktree.
func hardlink(path string) (string, error) {
	to := fmt.Sprintf("pulled-%d", os.Getpid())
	if err := os.Link(path, to); err != nil {
		return "", err
	}
	defer os.Remove(to)
	return "linked", nil
}

// guestMemory tries to read the guest's memory, which holds its token.
func guestMemory(string) (string, error) {
	files, _ := filepath.Glob("/proc/[0-9]*/exe")
	tried := 0
	for _, exe := range files {
		dir := filepath.Dir(exe)
		b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !strings.Contains(string(b), "parawork-guest") {
			continue
		}
		tried++
		for _, name := range []string{"mem", "environ", "maps"} {
			if _, err := read(filepath.Join(dir, name)); err == nil {
				return filepath.Join(dir, name) + " can be read", nil
			}
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil && len(entries) > 0 {
			return filepath.Join(dir, "fd") + " can be read", nil
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(dir), &pid); err == nil {
			if err := unix.PtraceAttach(pid); err == nil {
				return "traced", nil
			}
			local := make([]byte, 8)
			_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &local[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			if err == nil {
				return "its memory was read", nil
			}
		}
	}
	if tried == 0 {
		return "", fmt.Errorf("no guest to be seen: %w", errHeld)
	}
	return "", errHeld
}

// interfaces looks for a network besides the loopback.
func interfaces(string) (string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return "there is " + i.Name, nil
		}
	}
	return "", errHeld
}

// call makes one system call an agent must not make.
func call(name string) (string, error) {
	do, ok := calls[name]
	if !ok {
		return "", fmt.Errorf("no such call: %w", errHeld)
	}
	if errno := do(); errno != 0 {
		return "", errno
	}
	return "allowed", nil
}

func raw(n uintptr, args ...uintptr) syscall.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.Syscall6(n, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

// serve echoes each line of each caller until it is killed.
func serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(2)
		}
		go func() {
			defer c.Close()
			for lines := bufio.NewScanner(c); lines.Scan(); {
				fmt.Fprintf(c, "you said %s\n", lines.Text())
			}
		}()
	}
}
