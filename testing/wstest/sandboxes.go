package wstest

import (
	"os"
	"syscall"
	"testing"
)

// Owner is the owner of a file.
func Owner(t *testing.T, path string) int {
	t.Helper()
	fi, err := os.Lstat(path)
	Must(t, err)
	return int(fi.Sys().(*syscall.Stat_t).Uid)
}
