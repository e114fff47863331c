package hostproc

import (
	"errors"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// Reap waits for a child without holding a thread: the kernel wakes the poller when the process ends.
func Reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	err := whenEnded(pid, func() bool {
		got, werr := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		return got == pid || errors.Is(werr, unix.ECHILD)
	})
	if err != nil { // an old kernel
		_, _ = cmd.Process.Wait() // its record and its log say how it ended
		return
	}
	_ = cmd.Process.Release()
}

// whenEnded calls done when the process may have ended, until done returns true. It returns an error when the kernel cannot report the end.
func whenEnded(pid int, done func() bool) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return rc.Read(func(uintptr) bool { return done() })
}
