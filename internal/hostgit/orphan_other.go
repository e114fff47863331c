//go:build !linux

package hostgit

import "syscall"

// session says how git is started: in a session of its own, without a terminal to prompt on, as one group to kill. Only Linux can end a
// passing one with the server.
func session(bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

// boundMemory does nothing here.
func boundMemory(int, int64) {}
