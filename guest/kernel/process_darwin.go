package kernel

import "syscall"

// preferToKill does nothing: macOS has no such preference.
func preferToKill(int) {}

// ownSession starts the interpreter in a session of its own.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
