package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kernel is a v2 hierarchy that keeps the kernel's rules: files exist where their controller was handed down, a group that hands
// controllers down holds no processes, values are checked, and only empty groups are removed.
type kernel struct {
	root    bool   // who asks is root
	mount   string // where it is mounted
	self    string // the group this process is in
	given   string // what a user may write below, "" = nothing
	offered []string
	contain bool // the top is a container's, not the kernel's own
	groups  map[string]*fakeGroup
	slept   time.Duration
}

type fakeGroup struct {
	files map[string]string
	procs map[int]bool
}

const selfPid = 4242

func newKernel(offered ...string) *kernel {
	k := &kernel{root: true, mount: "/sys/fs/cgroup", self: "/", offered: offered, groups: map[string]*fakeGroup{}}
	k.groups[k.mount] = &fakeGroup{files: map[string]string{"cgroup.controllers": strings.Join(offered, " "), "cgroup.subtree_control": "",
		"cgroup.procs": ""}, procs: map[int]bool{}}
	k.groups[k.mount].procs[selfPid] = true
	return k
}

// enter puts this process into a group made for it.
func (k *kernel) enter(dir string) {
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		parent := path.Join(k.mount, k.self)
		k.mustHandDown(parent)
		k.self = path.Join(k.self, part)
		if err := k.mkdir(path.Join(k.mount, k.self)); err != nil {
			panic(err)
		}
	}
	for _, g := range k.groups {
		delete(g.procs, selfPid)
	}
	k.groups[path.Join(k.mount, k.self)].procs[selfPid] = true
}

func (k *kernel) mustHandDown(dir string) {
	k.groups[dir].files["cgroup.subtree_control"] = k.groups[dir].files["cgroup.controllers"]
}

func (k *kernel) Root() bool            { return k.root }
func (k *kernel) Sleep(d time.Duration) { k.slept += d }
func (k *kernel) Kill(pid int) error {
	for _, g := range k.groups {
		delete(g.procs, pid)
	}
	return nil
}

func (k *kernel) find(file string) (*fakeGroup, string, error) {
	g := k.groups[path.Dir(file)]
	if g == nil {
		return nil, "", os.ErrNotExist
	}
	if _, ok := g.files[path.Base(file)]; !ok {
		return nil, "", os.ErrNotExist
	}
	return g, path.Base(file), nil
}

func (k *kernel) Read(file string) (string, error) {
	switch file {
	case "/proc/self/mountinfo":
		return fmt.Sprintf("25 1 0:22 / / rw - ext4 /dev/sda rw\n30 25 0:26 / %s rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", k.mount), nil
	case "/proc/self/cgroup":
		return "0::" + k.self + "\n", nil
	}
	g, name, err := k.find(file)
	if err != nil {
		return "", err
	}
	switch name {
	case "cgroup.procs":
		var out []string
		for pid := range g.procs {
			out = append(out, strconv.Itoa(pid))
		}
		return strings.Join(out, "\n"), nil
	case "cgroup.events":
		return fmt.Sprintf("populated %d\nfrozen %s\n", min(1, len(g.procs)), g.files["cgroup.freeze"]), nil
	}
	return g.files[name], nil
}

func (k *kernel) allowed(file string) bool {
	return k.root || k.given != "" && strings.HasPrefix(file+"/", path.Join(k.mount, k.given)+"/")
}

func (k *kernel) Write(file, text string) error {
	g, name, err := k.find(file)
	if err != nil {
		return err
	}
	if !k.allowed(file) {
		return syscall.EACCES
	}
	dir := path.Dir(file)
	switch name {
	case "cgroup.subtree_control":
		c := strings.TrimPrefix(text, "+")
		if !slices.Contains(strings.Fields(g.files["cgroup.controllers"]), c) {
			return syscall.ENOENT
		}
		if len(g.procs) > 0 && (dir != k.mount || k.contain) {
			return syscall.EBUSY
		}
		g.files[name] = strings.TrimSpace(g.files[name] + " " + c)
		for child, cg := range k.groups {
			if path.Dir(child) == dir && child != dir {
				k.fill(cg, g.files[name])
			}
		}
	case "cgroup.procs":
		pid, err := strconv.Atoi(text)
		if err != nil {
			return syscall.EINVAL
		}
		pid = cmp.Or(pid, selfPid)
		if g.files["cgroup.subtree_control"] != "" && dir != k.mount {
			return syscall.EBUSY
		}
		for _, other := range k.groups {
			delete(other.procs, pid)
		}
		g.procs[pid] = true
		if pid == selfPid {
			k.self = strings.TrimPrefix(dir, k.mount)
		}
	case "cgroup.kill":
		if text != "1" {
			return syscall.ERANGE
		}
		for child, cg := range k.groups {
			if strings.HasPrefix(child+"/", dir+"/") {
				clear(cg.procs)
			}
		}
	case "cgroup.freeze":
		if text != "0" && text != "1" {
			return syscall.EINVAL
		}
		g.files[name] = text
	case "cpu.max":
		f := strings.Fields(text)
		if len(f) != 2 {
			return syscall.EINVAL
		}
		if n, err := strconv.Atoi(f[0]); f[0] != "max" && (err != nil || n < 1000) {
			return syscall.EINVAL
		}
		g.files[name] = text
	case "memory.max", "memory.swap.max", "pids.max":
		if _, err := strconv.ParseInt(text, 10, 64); text != "max" && err != nil {
			return syscall.EINVAL
		}
		g.files[name] = text
	default:
		return syscall.EACCES // read-only
	}
	return nil
}

// fill gives a group the files of the controllers its parent hands down.
func (k *kernel) fill(g *fakeGroup, controllers string) {
	g.files["cgroup.controllers"] = controllers
	add := func(name, text string) {
		if _, ok := g.files[name]; !ok {
			g.files[name] = text
		}
	}
	for c := range strings.FieldsSeq(controllers) {
		switch c {
		case "memory":
			add("memory.max", "max")
			add("memory.swap.max", "max")
			add("memory.current", "0")
			add("memory.peak", "0")
			add("memory.stat", "anon 0\ninactive_file 0\n")
			add("memory.events", "low 0\noom 0\noom_kill 0\n")
		case "pids":
			add("pids.max", "max")
			add("pids.current", "0")
			add("pids.events", "max 0\n")
		case "cpu":
			add("cpu.max", "max 100000")
		}
	}
}

func (k *kernel) Mkdir(dir string) error {
	if !k.allowed(path.Dir(dir)) {
		return syscall.EACCES
	}
	return k.mkdir(dir)
}

func (k *kernel) mkdir(dir string) error {
	parent := k.groups[path.Dir(dir)]
	if parent == nil {
		return os.ErrNotExist
	}
	if k.groups[dir] != nil {
		return os.ErrExist
	}
	g := &fakeGroup{procs: map[int]bool{}, files: map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.freeze": "0",
		"cgroup.events": "", "cgroup.kill": "", "cgroup.type": "domain", "cpu.stat": "usage_usec 0\nthrottled_usec 0\n"}}
	k.fill(g, parent.files["cgroup.subtree_control"])
	k.groups[dir] = g
	return nil
}

func (k *kernel) Rmdir(dir string) error {
	g := k.groups[dir]
	if g == nil {
		return os.ErrNotExist
	}
	below, _ := k.Dirs(dir)
	if len(g.procs) > 0 || len(below) > 0 {
		return syscall.EBUSY
	}
	delete(k.groups, dir)
	return nil
}

func (k *kernel) Dirs(dir string) ([]string, error) {
	if k.groups[dir] == nil {
		return nil, os.ErrNotExist
	}
	var out []string
	for d := range k.groups {
		if path.Dir(d) == dir && d != dir {
			out = append(out, path.Base(d))
		}
	}
	return out, nil
}

func (k *kernel) Exists(file string) bool {
	if k.groups[file] != nil {
		return true
	}
	if path.Dir(file) == k.mount && path.Base(file) == "cgroup.type" {
		return k.contain
	}
	_, _, err := k.find(file)
	return err == nil
}

func (k *kernel) Writable(file string) bool { return k.Exists(file) && k.allowed(file) }
