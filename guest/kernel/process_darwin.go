package kernel

import "syscall"

// preferToKill does nothing: macOS has no such preference.
func preferToKill(int) {}

// sessionMemory is unknown on macOS without privileges: 0.
func sessionMemory(int) int64 { return 0 }

// ownSession starts the interpreter in a session of its own.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}
