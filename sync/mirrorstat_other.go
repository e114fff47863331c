//go:build !linux

package filesync

import "syscall"

func ctimeOf(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// settleDisk does nothing here: the system writes when it likes.
func settleDisk(string) error { return nil }
