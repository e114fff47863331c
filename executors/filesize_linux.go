package executors

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundFiles sets how large a file of these processes, and of all they start, may become; 0 = as large as may be. Without the right to
// raise what was set before, it stays for those that run.
func boundFiles(pids []int, diskMB int64) {
	most := uint64(unix.RLIM_INFINITY)
	if diskMB > 0 {
		most = uint64(diskMB) << 20
	}
	for _, pid := range pids {
		if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most}, nil); errors.Is(err, syscall.EPERM) {
			var now unix.Rlimit
			if unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &now) == nil {
				now.Cur = min(most, now.Max)
				_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &now, nil) // the walk over the disk bounds it too
			}
		}
	}
}
