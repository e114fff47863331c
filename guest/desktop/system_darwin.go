package desktop

import (
	"os/exec"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startAlong(cmd *exec.Cmd) error { return cmd.Start() }
