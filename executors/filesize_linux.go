package executors

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundFiles limits the size of files that these processes, and all they start, may write; 0 = unlimited. Without the right to raise an
// earlier limit, running processes keep it.
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
				_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &now, nil) // the disk usage scan enforces the limit too
			}
		}
	}
}
