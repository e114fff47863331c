package daemon

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxPorts bounds what is told of listening ports.
const maxPorts = 256

// listening returns the TCP ports members listen on, sorted.
func listening(members map[int]member) []int {
	if len(members) == 0 {
		return nil
	}
	byInode := make(map[string]int)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" { // LISTEN
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				byInode[f[9]] = int(port)
			}
		}
	}
	if len(byInode) == 0 {
		return nil
	}
	found := make(map[int]bool)
	for pid := range members {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			link, err := os.Readlink(dir + fd.Name())
			inode, ok := strings.CutPrefix(link, "socket:[")
			if err != nil || !ok {
				continue
			}
			if port, ok := byInode[strings.TrimSuffix(inode, "]")]; ok {
				found[port] = true
			}
		}
	}
	ports := slices.Sorted(maps.Keys(found))
	return ports[:min(len(ports), maxPorts)]
}
