package local

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
)

// mostFiles is how many files a process of a sandbox may have open: plenty, but not all that the system has.
const mostFiles = 1 << 19

// bound sets the kernel's per-process limits.
func bound(pid int, l executors.Limits) error {
	limit := func(which int, most uint64) error {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, which, nil, &now); err != nil {
			return err
		}
		now.Max = min(now.Max, most)
		now.Cur = min(now.Cur, now.Max)
		return unix.Prlimit(pid, which, &now, nil)
	}
	err := errors.Join(limit(unix.RLIMIT_CORE, 0), limit(unix.RLIMIT_NOFILE, mostFiles))
	if l.DiskMB > 0 { // no single file may be larger than the limit for all files
		err = errors.Join(err, limit(unix.RLIMIT_FSIZE, uint64(l.DiskMB)<<20))
	}
	if err != nil {
		return fmt.Errorf("bounding process %d: %w", pid, err)
	}
	return nil
}
