//go:build linux || darwin

package hostproc

import (
	"os/exec"
	"syscall"
)

// Running is a process that was started here and outlives the server.
type Running struct {
	Pid   int
	Ended <-chan struct{} // closed when it has ended and was reaped
}

// StartDetached starts cmd in a session of its own, so that nothing that ends the server ends it.
func StartDetached(cmd *exec.Cmd) (*Running, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid, ended := cmd.Process.Pid, make(chan struct{}) // the process is the reaper's from here on
	go func() {                                        // ends with it; nobody could wait for it, since it outlives the server
		defer close(ended)
		Reap(cmd)
	}()
	return &Running{Pid: pid, Ended: ended}, nil
}

// Kill ends it, unless it has ended.
func (r *Running) Kill() {
	select {
	case <-r.Ended:
	default:
		_ = syscall.Kill(r.Pid, syscall.SIGKILL)
	}
}
