package hostproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// readProc reads one process; os.ErrNotExist when there is none.
func readProc(pid int) (Proc, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			err = os.ErrNotExist
		}
		return Proc{}, err
	}
	// The name in parentheses may contain anything, parentheses too: count fields from the last one.
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return Proc{}, fmt.Errorf("unexpected /proc/%d/stat", pid)
	}
	p := Proc{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	if p.ppid, err = strconv.Atoi(f[1]); err != nil {
		return Proc{}, fmt.Errorf("unexpected parent in /proc/%d/stat: %w", pid, err)
	}
	if p.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return Proc{}, fmt.Errorf("unexpected start time in /proc/%d/stat: %w", pid, err)
	}
	return p, nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// table reads the whole process table.
func table() map[int]Proc {
	out := make(map[int]Proc)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			out[pid] = p
		}
	}
	return out
}

// arguments returns the arguments a process was started with.
func arguments(pid int) ([]string, error) { return entries(pid, "cmdline") }

// environ returns the environment a process was started with.
func environ(pid int) ([]string, error) { return entries(pid, "environ") }

// entries reads a file of a process whose entries end with NUL.
func entries(pid int, name string) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}
