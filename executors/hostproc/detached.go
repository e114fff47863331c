//go:build linux || darwin

package hostproc

import (
	"os/exec"
	"syscall"
)

// Running is a process that was started here and survives the server.
type Running struct {
	Pid      int
	Identity Identity
	Ended    <-chan struct{} // closed when it has ended and was reaped
}

// StartDetached starts cmd in a session of its own, so that it survives whatever ends the server.
func StartDetached(cmd *exec.Cmd) (*Running, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid, ended := cmd.Process.Pid, make(chan struct{})
	who, err := Identify(pid) // before the process is reaped: the kernel forgets one that ends at once only then
	go func() {               // ends with the process; nobody could wait for it, since it outlives the server
		defer close(ended)
		Reap(cmd)
	}()
	run := &Running{Pid: pid, Identity: who, Ended: ended}
	if err != nil {
		run.Kill()
		return nil, err
	}
	return run, nil
}

// Kill kills it, unless it has ended.
func (r *Running) Kill() {
	select {
	case <-r.Ended:
	default:
		_ = syscall.Kill(r.Pid, syscall.SIGKILL)
	}
}
