package billing

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is the time since the machine was started. Unlike Go's own monotonic clock it goes on while the machine sleeps, as sandboxes
// elsewhere do.
func elapsed() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(began)
	}
	return time.Duration(ts.Nano())
}

var began = time.Now()
