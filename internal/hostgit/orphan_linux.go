package hostgit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// session is how git is started: in a session of its own, without a terminal to prompt on, as one group to kill. A passing one
// ends when the server is killed, by the signal on which git removes its lock files: going on, it would write into what the next
// start cleans up. The others go on to their end, since half of a merge or of moved refs is what must not be.
func session(passing bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if passing {
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}

// boundMemory bounds what a process may allocate. What it maps of files does not count.
func boundMemory(pid int, bytes int64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}, nil)
}
