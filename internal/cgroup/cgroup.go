// Package cgroup limits, measures, freezes and kills groups of processes with the kernel's control groups, in whichever version the
// machine has them: v2, v1, or v1 next to a v2 hierarchy without controllers. Where none are usable it says why, and what
// to do about it.
//
// A Tree is the server's own subtree; below it is one Group per sandbox, by name. A group is one folder in each hierarchy in use, all
// of the same path. The package stores nothing in memory: after a restart a group is found again by its name.
package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
)

// Limits limit a group. 0 = unlimited.
type Limits struct {
	CPUs        float64 // cores
	MemoryBytes int64   // without any swap in addition
	Processes   int64   // and threads
}

// Support says what this machine supports, and why something is missing.
type Support struct {
	Version   int  // 2, 1, or 0 for none
	CPU       bool // Limits.CPUs is enforced
	Memory    bool
	Processes bool
	Freeze    bool
	Count     bool   // memory and CPU time are counted
	Where     string // the folder of the server's subtree, for people
	Reason    string // why something is missing; "" = nothing is
	Cure      string
}

// All reports whether every limit is enforced.
func (s Support) All() bool { return s.CPU && s.Memory && s.Processes }

// Missing names the limits of l that would not be enforced, in words.
func (s Support) Missing(l Limits) []string {
	var out []string
	add := func(wanted, have bool, word string) {
		if wanted && !have {
			out = append(out, word)
		}
	}
	add(l.CPUs > 0, s.CPU, "CPU")
	add(l.MemoryBytes > 0, s.Memory, "memory")
	add(l.Processes > 0, s.Processes, "processes")
	return out
}

// Errors of groups.
var (
	ErrNone  = errors.New("no such control group")
	ErrInUse = errors.New("more memory is in use than the new limit")
)

// Controllers as the kernel names them.
const (
	memory  = "memory"
	pids    = "pids"
	cpu     = "cpu"
	cpuacct = "cpuacct" // v1 only: v2 counts CPU time without a controller
	freezer = "freezer" // v1 only: v2 freezes without a controller
)

// hierarchy is one hierarchy of control groups, as the kernel calls it.
type hierarchy struct {
	v2   bool
	base string   // the folder below which the server may make groups
	has  []string // controllers used in it
}

// Tree is the server's own part of the hierarchies.
type Tree struct {
	fs      fsys
	name    string // path of the subtree below each base
	in      []hierarchy
	support Support
}

// Open finds the hierarchies this process may use and makes the subtree root ("parawork/<instance>") in each. Finding none is no error:
// Support says why, and Make fails. Where the server was given a subtree of a v2 hierarchy, it moves itself into a leaf of it, because
// groups with controllers must not contain processes next to groups.
func Open(root string) (*Tree, error) { return open(system{}, root, true) }

// Check returns what Open would find. It changes nothing.
func Check() Support {
	t, err := open(system{}, "parawork", false)
	if err != nil {
		return Support{Reason: err.Error()}
	}
	return t.support
}

func open(fs fsys, root string, make bool) (*Tree, error) {
	root = path.Clean(root)
	if path.IsAbs(root) || root == "." || strings.Contains(root, "..") {
		return nil, fmt.Errorf("cgroup: %q is no valid subtree name", root)
	}
	t := &Tree{fs: fs, name: root}
	found, why, err := detect(fs)
	if err != nil {
		t.support = Support{Reason: why.reason, Cure: why.cure}
		return t, nil
	}
	for _, h := range found {
		if !make {
			t.in = append(t.in, h)
			continue
		}
		err := t.prepare(&h)
		if err != nil {
			why.add(err)
			continue
		}
		t.in = append(t.in, h)
	}
	t.support = t.supported(why)
	return t, nil
}

// Support says what this tree supports.
func (t *Tree) Support() Support { return t.support }

// prepare makes the subtree in one hierarchy and delegates its controllers down.
func (t *Tree) prepare(h *hierarchy) error {
	dir := h.base
	if h.v2 && len(h.has) > 0 {
		if err := t.handDown(dir, h, true); err != nil {
			return err
		}
	}
	for part := range strings.SplitSeq(t.name, "/") {
		dir = path.Join(dir, part)
		if err := t.fs.Mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making %s: %w", dir, err)
		}
		if h.v2 && len(h.has) > 0 {
			if err := t.handDown(dir, h, false); err != nil {
				return err
			}
		}
		if !h.v2 && slices.Contains(h.has, "cpuset") {
			_ = t.fs.Write(path.Join(dir, "cgroup.clone_children"), "1") // otherwise nobody could join the groups below
		}
	}
	return nil
}

// handDown enables the hierarchy's controllers for the groups below dir. It drops from h those that cannot be enabled.
func (t *Tree) handDown(dir string, h *hierarchy, top bool) error {
	control := path.Join(dir, "cgroup.subtree_control")
	now := strings.Fields(read(t.fs, control))
	var last error
	var got []string
	moved := false
	for _, c := range h.has {
		if slices.Contains(now, c) {
			got = append(got, c)
			continue
		}
		err := t.fs.Write(control, "+"+c)
		if err != nil && top && !moved && isBusy(err) {
			moved = true
			if merr := stepAside(t.fs, dir); merr == nil {
				err = t.fs.Write(control, "+"+c)
			}
		}
		if err != nil {
			last = fmt.Errorf("handing %s down in %s: %w", c, dir, err)
			continue
		}
		got = append(got, c)
	}
	h.has = got
	if len(got) == 0 && last != nil {
		return last
	}
	return nil
}

// ownLeaf is the group the server moves itself to inside a subtree it was given.
const ownLeaf = "parawork-server"

// stepAside moves this process out of dir into a leaf below it.
func stepAside(fs fsys, dir string) error {
	leaf := path.Join(dir, ownLeaf)
	if err := fs.Mkdir(leaf); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fs.Write(path.Join(leaf, "cgroup.procs"), "0")
}

// with returns the hierarchy that holds a controller.
func (t *Tree) with(controller string) (hierarchy, bool) {
	for _, h := range t.in {
		if slices.Contains(h.has, controller) {
			return h, true
		}
	}
	return hierarchy{}, false
}

// unified returns the v2 hierarchy in use, with or without controllers.
func (t *Tree) unified() (hierarchy, bool) {
	for _, h := range t.in {
		if h.v2 {
			return h, true
		}
	}
	return hierarchy{}, false
}

func (t *Tree) supported(why *reasons) Support {
	var s Support
	have := func(c string) bool { _, ok := t.with(c); return ok }
	s.CPU, s.Memory, s.Processes = have(cpu), have(memory), have(pids)
	u, v2 := t.unified()
	s.Freeze = v2 || have(freezer)
	s.Count = s.Memory && (v2 || have(cpuacct))
	switch {
	case len(t.in) == 0:
	case v2 && len(u.has) > 0:
		s.Version = 2
	case s.CPU || s.Memory || s.Processes:
		s.Version = 1
	case v2:
		s.Version = 2
	default:
		s.Version = 1
	}
	if h, ok := t.with(memory); ok {
		s.Where = path.Join(h.base, t.name)
	} else if len(t.in) > 0 {
		s.Where = path.Join(t.in[0].base, t.name)
	}
	if s.All() && s.Freeze {
		return s
	}
	s.Reason, s.Cure = why.words(s)
	return s
}

// checkName rejects names that are not one plain path element.
func checkName(name string) error {
	if name == "" || len(name) > 100 {
		return fmt.Errorf("cgroup: a group's name must have 1 to 100 characters")
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return fmt.Errorf("cgroup: the name %q has characters other than letters, digits, _ and -", name)
		}
	}
	return nil
}

// Make makes the group name, or uses an existing one, and sets its limits. A limit this machine cannot enforce is an error: ask Support
// first. On error it removes what it made.
func (t *Tree) Make(name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if len(t.in) == 0 {
		return nil, fmt.Errorf("control groups cannot be used here: %s", t.support.Reason)
	}
	if missing := t.support.Missing(l); len(missing) > 0 {
		return nil, fmt.Errorf("no limit of %s can be enforced here: %s", strings.Join(missing, ", "), t.support.Reason)
	}
	g := &Group{t: t, name: name}
	made := false
	for _, h := range t.in {
		switch err := t.fs.Mkdir(g.dir(h)); {
		case err == nil:
			made = true
		case errors.Is(err, os.ErrExist):
		case errors.Is(err, os.ErrNotExist) && t.prepare(&h) == nil && t.fs.Mkdir(g.dir(h)) == nil:
			made = true // somebody had removed the subtree
		default:
			if made {
				g.clear()
			}
			return nil, fmt.Errorf("making the control group %s: %w", name, err)
		}
	}
	if err := g.set(l, true); err != nil {
		if made {
			g.clear()
		}
		return nil, err
	}
	return g, nil
}

// Find returns the group name when it exists in any hierarchy.
func (t *Tree) Find(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := &Group{t: t, name: name}
	for _, h := range t.in {
		if t.fs.Exists(g.dir(h)) {
			return g, nil
		}
	}
	return nil, ErrNone
}

// Names lists the groups of the tree.
func (t *Tree) Names() []string {
	var out []string
	for _, h := range t.in {
		dirs, err := t.fs.Dirs(path.Join(h.base, t.name))
		if err == nil {
			out = append(out, dirs...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// percent is the largest quota for cpu.max.
const (
	periodMicros   = 100_000
	leastMicros    = 1_000
	unlimitedV1    = "-1"
	unlimitedV2    = "max"
	mostCPUs       = 4096
	leastMemory    = 1 << 20
	mostMemory     = math.MaxInt64 / 2
	mostProcesses  = 1 << 22
	leastProcesses = 1
)

func quota(cpus float64) int64 {
	return max(leastMicros, int64(math.Round(min(cpus, mostCPUs)*periodMicros)))
}
