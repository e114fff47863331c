package kernel

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// preferToKill has the kernel of the system end this process first when memory runs out. Errors do not matter: the guest set the same less strictly.
func preferToKill(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
}

// sessionMemory returns the resident memory in bytes of all processes of a session.
func sessionMemory(session int) int64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	var pages int64
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid pgrp session ... rss is the 24th field; the name may contain anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 22 || string(fields[3]) != strconv.Itoa(session) {
			continue
		}
		rss, _ := strconv.ParseInt(string(fields[21]), 10, 64)
		pages += rss
	}
	return pages * int64(os.Getpagesize())
}

// ownSession starts the interpreter in a session of its own, and ends it when the supervisor is killed.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
