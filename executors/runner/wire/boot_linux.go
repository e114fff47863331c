package wire

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootOf identifies this boot of the machine, and when it began.
func bootOf(now time.Time) (string, time.Time) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var info unix.Sysinfo_t
	if err != nil || unix.Sysinfo(&info) != nil || len(strings.Fields(string(b))) != 1 {
		return bootUnknown, now
	}
	return strings.TrimSpace(string(b)), now.Add(-time.Duration(info.Uptime) * time.Second)
}
