package hostgit

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// session says how git is started: in a session of its own, without a terminal to prompt on, as one group to kill. A passing one ends when
// the server is killed, by the signal on which git removes its lock files: otherwise it would write into what the next start cleans up. The
// others run to their end, because half a merge, or half of the moved refs, must not be left.
func session(passing bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if passing {
		attr.Pdeathsig = syscall.SIGTERM
	}
	return attr
}

// boundMemory limits what a process may allocate. Mapped files do not count.
func boundMemory(pid int, bytes int64) {
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}, nil)
}
