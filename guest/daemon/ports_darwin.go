package daemon

import (
	"context"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
)

// listening needs a table of open files: macOS gives it only to its own tools, which are too slow to be run all the time.
func listening(map[int]member) []int { return nil }

// listeners runs lsof, a tool of the system, each time.
type listeners struct{}

// own reports whether all processes that listen at the port are members. It returns false where that cannot be determined.
func (*listeners) own(ctx context.Context, at netip.AddrPort, members func() map[int]member) bool {
	out, err := exec.CommandContext(ctx, "/usr/sbin/lsof", "-nP", "-Fp", "-sTCP:LISTEN", "-iTCP:"+strconv.Itoa(int(at.Port()))).Output()
	if err != nil {
		return false
	}
	ours, found := members(), false
	for line := range strings.Lines(string(out)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "p")
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(text)
		if _, mine := ours[pid]; err != nil || !mine {
			return false
		}
		found = true
	}
	return found
}
