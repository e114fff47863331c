//go:build !linux

package filesync

import "syscall"

func ctimeOf(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// settleDisk does nothing: this system has no call to flush one file system.
func settleDisk(string) error { return nil }
