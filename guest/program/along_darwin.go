package program

import (
	"os/exec"
	"syscall"
)

// OwnGroup makes a program the leader of a process group.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// StartAlong starts a program.
func StartAlong(cmd *exec.Cmd) error { return cmd.Start() }
