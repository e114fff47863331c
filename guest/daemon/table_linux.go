package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of CPU times in /proc: USER_HZ, the same on all architectures Go runs on.
const tick = 10 * time.Millisecond

// processTable reads the whole process table.
func processTable() map[int]proc {
	out := make(map[int]proc)
	dir, err := os.Open("/proc")
	if err != nil {
		return out
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as far as it could be read
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			out[pid] = p
		}
	}
	return out
}

// readProc reads one process.
func readProc(pid int) (proc, error) {
	var buf [1024]byte
	b, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return proc{}, err
	}
	// The name in parentheses may contain anything, parentheses too: fields are counted from the last one.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 22 {
		return proc{}, fmt.Errorf("unexpected /proc/%d/stat", pid)
	}
	num := func(i int) (n int64) {
		n, perr := strconv.ParseInt(f[i], 10, 64)
		if perr != nil {
			err = fmt.Errorf("unexpected field in /proc/%d/stat: %w", pid, perr)
		}
		return n
	}
	p := proc{pid: pid, zombie: f[0] == "Z" || f[0] == "X", ppid: int(num(1)), group: int(num(2)), session: int(num(3)), foreground: int(num(5)), start: uint64(num(19)),
		cpu: time.Duration(num(11)+num(12)+num(13)+num(14)) * tick, rss: num(21) * int64(os.Getpagesize())}
	return p, err
}

// age is how long ago p was started.
func (p proc) age() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-time.Duration(p.start)*tick)
}

// name is the process's own name, "" when it is gone.
func (p proc) name() string {
	var buf [64]byte
	b, err := readSmall("/proc/"+strconv.Itoa(p.pid)+"/comm", buf[:])
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// readSmall reads a file of /proc into buf with one call.
func readSmall(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// environMarks reads the marks of a sandbox and a process from the environment a program was started with, "" where there are
// none.
func environMarks(pid int) (sandbox, process string) {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte(processMark+"=")); ok {
			process = string(v)
		} else if v, ok := bytes.CutPrefix(entry, []byte(sandboxMark+"=")); ok {
			sandbox = string(v)
		}
	}
	return sandbox, process
}

// ignores reports whether a process ignores sig.
func ignores(pid int, sig syscall.Signal) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return err == nil && mask&(1<<(uint(sig)-1)) != 0
		}
	}
	return false
}

// bootID distinguishes this run of the machine from others.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
