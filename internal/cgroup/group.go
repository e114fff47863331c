package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Group is the processes of one sandbox.
type Group struct {
	t    *Tree
	name string
}

// Name of the group below its tree.
func (g *Group) Name() string { return g.name }

func (g *Group) dir(h hierarchy) string { return path.Join(h.base, g.t.name, g.name) }

// file returns the path of a controller's file in this group, "" when the controller is not available.
func (g *Group) file(controller, v1, v2 string) (file string, unified bool) {
	h, ok := g.t.with(controller)
	switch {
	case !ok:
		return "", false
	case h.v2:
		return path.Join(g.dir(h), v2), true
	}
	return path.Join(g.dir(h), v1), false
}

// Join moves a process, with all its threads, into the group. What it starts from then on is in it too: a launcher joins, and then executes
// the program.
func (g *Group) Join(pid int) error {
	for _, h := range g.t.in {
		if err := g.t.fs.Write(path.Join(g.dir(h), "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("moving process %d into the control group %s: %w", pid, g.name, err)
		}
	}
	return nil
}

// FD returns the group's folder for syscall.SysProcAttr.CgroupFD, so that a process begins its life in the group. It is nil where the group
// has more than a v2 hierarchy: use Join there.
func (g *Group) FD() (*os.File, error) {
	if len(g.t.in) != 1 || !g.t.in[0].v2 {
		return nil, nil
	}
	return os.Open(g.dir(g.t.in[0]))
}

// Set changes the group's limits while it lives. ErrInUse when more memory is in use than the new limit: the processes that use it must not
// be killed for it.
func (g *Group) Set(l Limits) error {
	if missing := g.t.support.Missing(l); len(missing) > 0 {
		return fmt.Errorf("no limit of %s can be enforced here: %s", strings.Join(missing, ", "), g.t.support.Reason)
	}
	return g.set(l, false)
}

func (g *Group) set(l Limits, fresh bool) error {
	if err := g.setMemory(l.MemoryBytes, fresh); err != nil {
		return fmt.Errorf("limiting the memory of %s: %w", g.name, err)
	}
	if file, _ := g.file(pids, "pids.max", "pids.max"); file != "" {
		text := unlimitedV2 // both versions say max here
		if l.Processes > 0 {
			text = strconv.FormatInt(min(max(l.Processes, leastProcesses), mostProcesses), 10)
		}
		if err := g.t.fs.Write(file, text); err != nil {
			return fmt.Errorf("limiting the processes of %s: %w", g.name, err)
		}
	}
	if err := g.setCPU(l.CPUs); err != nil {
		return fmt.Errorf("limiting the CPU of %s: %w", g.name, err)
	}
	return nil
}

func (g *Group) setCPU(cpus float64) error {
	file, v2 := g.file(cpu, "cpu.cfs_quota_us", "cpu.max")
	if file == "" {
		return nil
	}
	period := strconv.Itoa(periodMicros)
	if v2 {
		text := unlimitedV2 + " " + period
		if cpus > 0 {
			text = strconv.FormatInt(quota(cpus), 10) + " " + period
		}
		return g.t.fs.Write(file, text)
	}
	text := unlimitedV1
	if cpus > 0 {
		text = strconv.FormatInt(quota(cpus), 10)
		if err := g.t.fs.Write(path.Join(path.Dir(file), "cpu.cfs_period_us"), period); err != nil {
			return err
		}
	}
	return g.t.fs.Write(file, text)
}

func (g *Group) setMemory(bytes int64, fresh bool) error {
	file, v2 := g.file(memory, "memory.limit_in_bytes", "memory.max")
	if file == "" {
		return nil
	}
	if bytes > 0 {
		bytes = min(max(bytes, leastMemory), mostMemory)
		if !fresh && g.memoryUsed() > bytes {
			return ErrInUse
		}
	}
	dir := path.Dir(file)
	if v2 {
		limit, swap := unlimitedV2, unlimitedV2
		if bytes > 0 {
			limit, swap = strconv.FormatInt(bytes, 10), "0"
		}
		if s := path.Join(dir, "memory.swap.max"); g.t.fs.Exists(s) { // not there without swap in the kernel
			if err := g.t.fs.Write(s, swap); err != nil {
				return err
			}
		}
		return g.t.fs.Write(file, limit)
	}
	text := unlimitedV1
	if bytes > 0 {
		text = strconv.FormatInt(bytes, 10)
	}
	both := path.Join(dir, "memory.memsw.limit_in_bytes")
	if !g.t.fs.Exists(both) {
		return busyIsInUse(g.t.fs.Write(file, text))
	}
	// Memory may never be above memory plus swap: when lowering, memory is set first; when raising, last.
	err := g.t.fs.Write(file, text)
	if err == nil {
		return busyIsInUse(g.t.fs.Write(both, text))
	}
	if !errors.Is(err, syscall.EINVAL) {
		return busyIsInUse(err)
	}
	if err := g.t.fs.Write(both, text); err != nil {
		return busyIsInUse(err)
	}
	return busyIsInUse(g.t.fs.Write(file, text))
}

func busyIsInUse(err error) error {
	if isBusy(err) {
		return ErrInUse
	}
	return err
}

// Processes returns the ids of all processes in the group and in groups made below it.
func (g *Group) Processes() []int {
	seen := make(map[int]bool)
	var out []int
	for _, h := range g.t.in {
		g.walk(g.dir(h), 0, func(dir string) {
			for f := range strings.FieldsSeq(read(g.t.fs, path.Join(dir, "cgroup.procs"))) {
				if pid, err := strconv.Atoi(f); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					out = append(out, pid)
				}
			}
		})
	}
	return out
}

// Groups below a group are made by the sandbox itself: they are followed to this depth.
const maxDepth = 16

// walk visits dir and all groups below it, the deepest first.
func (g *Group) walk(dir string, depth int, visit func(dir string)) {
	if depth < maxDepth {
		below, _ := g.t.fs.Dirs(dir)
		for _, name := range below {
			g.walk(path.Join(dir, name), depth+1, visit)
		}
	}
	visit(dir)
}

// clear removes those of the group's folders that are empty.
func (g *Group) clear() error {
	var last error
	for _, h := range g.t.in {
		g.walk(g.dir(h), 0, func(dir string) {
			if err := g.t.fs.Rmdir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				last = fmt.Errorf("removing the control group %s: %w", dir, err)
			}
		})
	}
	return last
}
