// Package usage measures what processes of a sandbox use.
package usage

import (
	"bytes"
	"os"
	"strconv"
)

// Memory returns the bytes of memory that a process and its descendants share with nobody.
func Memory(root int) int64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	parents := make(map[int]int, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may contain anything.
		if f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(f) > 1 {
			parents[pid], _ = strconv.Atoi(string(f[1]))
		}
	}
	var pages int64
	for pid := range parents {
		for at, steps := pid, 0; at > 0 && steps < 64; at, steps = parents[at], steps+1 {
			if at == root {
				pages += privatePages(pid)
				break
			}
		}
	}
	return pages * int64(os.Getpagesize())
}

func privatePages(pid int) int64 {
	statm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(statm)
	if len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return max(resident-shared, 0)
}
