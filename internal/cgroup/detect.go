package cgroup

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is one line of mountinfo for a control group hierarchy.
type mount struct {
	v2          bool
	root, point string
	writable    bool
	controllers []string // v1
}

// reasons collects why something is missing.
type reasons struct {
	reason, cure string
	failed       []string
	root         bool
	all          []mount
}

func (w *reasons) add(err error) { w.failed = append(w.failed, err.Error()) }

// Texts for a machine whose groups cannot be used.
const (
	cureRoot = "Run the server as root, or as a systemd service with Delegate=yes (for one's own user: " +
		"systemd-run --user --scope -p Delegate=yes parawork serve)."
	cureMount   = "Give the server control groups: mount cgroup2 at /sys/fs/cgroup; in a container, let it write there (--cgroupns=private and a writable /sys/fs/cgroup)."
	cureKernel  = "Use a kernel with the controllers cpu, memory and pids; on some small machines memory needs cgroup_enable=memory at boot."
	reasonMount = "no control groups are mounted on this machine"
	reasonRead  = "the control groups are mounted read-only here"
	reasonOwner = "the server's user may not make control groups"
)

// words returns what is missing and the cure.
func (w *reasons) words(s Support) (string, string) {
	if s.Version == 0 && len(w.failed) == 0 {
		return w.reason, w.cure
	}
	var missing []string
	for _, one := range []struct {
		have bool
		word string
	}{{s.CPU, "CPU"}, {s.Memory, "memory"}, {s.Processes, "processes"}, {s.Freeze, "freezing"}} {
		if !one.have {
			missing = append(missing, one.word)
		}
	}
	reason := "no control group for " + strings.Join(missing, ", ") + " can be used"
	cure := cureKernel
	if len(w.failed) > 0 {
		reason += " (" + strings.Join(w.failed, "; ") + ")"
	}
	if !w.root {
		cure = cureRoot
	}
	return reason, cure
}

var errNothing = errors.New("no usable hierarchy")

// detect finds the hierarchies this process may make groups in. Each controller is used in one of them.
func detect(fs fsys) ([]hierarchy, *reasons, error) {
	why := &reasons{reason: reasonMount, cure: cureMount, root: fs.Root()}
	mounts := parseMounts(read(fs, "/proc/self/mountinfo"))
	own := parseSelf(read(fs, "/proc/self/cgroup"))
	why.all = mounts
	var out []hierarchy
	taken := func(c string) bool {
		return slices.ContainsFunc(out, func(h hierarchy) bool { return slices.Contains(h.has, c) })
	}
	for _, m := range mounts {
		if m.v2 {
			continue
		}
		var use []string
		for _, c := range []string{memory, pids, cpu, cpuacct, freezer, "cpuset"} {
			if slices.Contains(m.controllers, c) && !taken(c) {
				use = append(use, c)
			}
		}
		if len(use) == 0 || len(use) == 1 && use[0] == "cpuset" {
			continue
		}
		base, ok := usable(fs, m, own[use[0]], why)
		if ok {
			out = append(out, hierarchy{base: base, has: use})
		}
	}
	for _, m := range mounts {
		if !m.v2 || slices.ContainsFunc(out, func(h hierarchy) bool { return h.v2 }) {
			continue
		}
		base, ok := usable(fs, m, own[""], why)
		if !ok {
			continue
		}
		offered := strings.Fields(read(fs, path.Join(base, "cgroup.controllers")))
		h := hierarchy{v2: true, base: base}
		for _, c := range []string{memory, pids, cpu} {
			if slices.Contains(offered, c) && !taken(c) {
				h.has = append(h.has, c)
			}
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, why, errNothing
	}
	return out, why, nil
}

// usable returns the folder below which groups may be made: for root the top of the mount, for others the group they were given.
func usable(fs fsys, m mount, own string, why *reasons) (string, bool) {
	if !m.writable {
		why.reason, why.cure = reasonRead, cureMount
		return "", false
	}
	mine := ownDir(m, own)
	top := m.point
	if why.root {
		// The kernel's own root group may contain processes next to groups. What a container calls the root may not: there the server moves
		// itself aside in its group.
		if m.v2 && fs.Exists(path.Join(top, "cgroup.type")) {
			return mine, true
		}
		return top, true
	}
	if !fs.Writable(mine) || !fs.Writable(path.Join(mine, "cgroup.procs")) {
		why.reason, why.cure = reasonOwner, cureRoot
		return "", false
	}
	return mine, true
}

// ownDir returns the folder of the group this process is in, or its parent when that is the leaf the server moved to.
func ownDir(m mount, own string) string {
	rel, ok := strings.CutPrefix(path.Clean("/"+own), path.Clean(m.root))
	if !ok || strings.HasPrefix(own, "/..") {
		return m.point
	}
	dir := path.Join(m.point, rel)
	if path.Base(dir) == ownLeaf {
		dir = path.Dir(dir)
	}
	return dir
}

// parseMounts parses the control group mounts of a mountinfo file.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		super := strings.Split(r[2], ",")
		m := mount{v2: r[0] == "cgroup2", root: unescape(l[3]), point: unescape(l[4]),
			writable: !slices.Contains(strings.Split(l[5], ","), "ro") && !slices.Contains(super, "ro")}
		if !m.v2 {
			m.controllers = super
		}
		out = append(out, m)
	}
	return out
}

// parseSelf parses a process's groups by controller; "" is the v2 hierarchy.
func parseSelf(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			out[c] = f[2]
		}
	}
	return out
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
