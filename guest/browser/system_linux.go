package browser

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// applications are paths of Chromium that are in no PATH.
var applications []string

// ownGroup makes Chromium the leader of a process group. The kernel kills it when the thread that started it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startAlong starts a program that ends with this one, at the latest.
func startAlong(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal of a parent's death is sent when the thread ends: this one lasts as long as the program
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

// userNamespaces reports whether this user may make user namespaces, from which Chromium builds its sandbox.
func userNamespaces() bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	cmd := exec.Command(self, "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}}
	return cmd.Run() == nil
}

// memoryOf returns the bytes of memory that a process and its descendants share with nobody.
func memoryOf(root int) int64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	parents := make(map[int]int, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may contain anything.
		if f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(f) > 1 {
			parents[pid], _ = strconv.Atoi(string(f[1]))
		}
	}
	var pages int64
	for pid := range parents {
		for at, steps := pid, 0; at > 0 && steps < 64; at, steps = parents[at], steps+1 {
			if at == root {
				pages += privatePages(pid)
				break
			}
		}
	}
	return pages * int64(os.Getpagesize())
}

func privatePages(pid int) int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(statm)
	if len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return max(resident-shared, 0)
}
