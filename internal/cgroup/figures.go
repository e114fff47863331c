package cgroup

import (
	"path"
	"strconv"
	"strings"
)

// Figures of a group since it was made.
type Figures struct {
	CPUMs        int64 // time used
	ThrottledMs  int64 // time throttled by the CPU limit
	MemoryBytes  int64 // without inactive page cache
	MemoryPeak   int64 // with the page cache; 0 = this kernel does not report it
	Processes    int64 // and threads
	OOMKills     int64 // processes the kernel killed for lack of memory
	ForksRefused int64 // forks refused by the limit of processes
}

// Figures reads the group's counters: a handful of small files. What this machine does not count is 0.
func (g *Group) Figures() (Figures, error) {
	var f Figures
	if _, err := g.t.Find(g.name); err != nil {
		return f, err
	}
	g.cpuFigures(&f)
	if file, v2 := g.file(memory, "memory.usage_in_bytes", "memory.current"); file != "" {
		dir := path.Dir(file)
		f.MemoryBytes = g.memoryUsed()
		if v2 {
			f.MemoryPeak = number(read(g.t.fs, path.Join(dir, "memory.peak")))
			f.OOMKills = field(read(g.t.fs, path.Join(dir, "memory.events")), "oom_kill")
		} else {
			f.MemoryPeak = number(read(g.t.fs, path.Join(dir, "memory.max_usage_in_bytes")))
			f.OOMKills = field(read(g.t.fs, path.Join(dir, "memory.oom_control")), "oom_kill")
		}
	}
	if file, _ := g.file(pids, "pids.current", "pids.current"); file != "" {
		f.Processes = number(read(g.t.fs, file))
		f.ForksRefused = field(read(g.t.fs, path.Join(path.Dir(file), "pids.events")), "max")
	}
	return f, nil
}

func (g *Group) cpuFigures(f *Figures) {
	if h, ok := g.t.with(cpuacct); ok {
		f.CPUMs = number(read(g.t.fs, path.Join(g.dir(h), "cpuacct.usage"))) / 1e6
	} else if h, ok := g.t.unified(); ok {
		f.CPUMs = field(read(g.t.fs, path.Join(g.dir(h), "cpu.stat")), "usage_usec") / 1e3
	}
	if file, v2 := g.file(cpu, "cpu.stat", "cpu.stat"); v2 {
		f.ThrottledMs = field(read(g.t.fs, file), "throttled_usec") / 1e3
	} else if file != "" {
		f.ThrottledMs = field(read(g.t.fs, file), "throttled_time") / 1e6
	}
}

// memoryUsed is the memory the kernel could not reclaim easily: what is in use, less the inactive page cache.
func (g *Group) memoryUsed() int64 {
	file, v2 := g.file(memory, "memory.usage_in_bytes", "memory.current")
	if file == "" {
		return 0
	}
	cache := "total_inactive_file"
	if v2 {
		cache = "inactive_file"
	}
	return max(0, number(read(g.t.fs, file))-field(read(g.t.fs, path.Join(path.Dir(file), "memory.stat")), cache))
}

// field returns the number after a word in a file of lines "word number".
func field(text, word string) int64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			return number(rest)
		}
	}
	return 0
}

func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
