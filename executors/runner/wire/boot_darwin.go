package wire

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootOf identifies this boot of the machine, and when it began.
func bootOf(now time.Time) (string, time.Time) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	tv, terr := unix.SysctlTimeval("kern.boottime")
	if err != nil || terr != nil || len(strings.Fields(id)) != 1 {
		return bootUnknown, now
	}
	return strings.TrimSpace(id), time.Unix(tv.Unix())
}
