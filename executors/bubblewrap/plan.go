//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/guest/launch"
)

// The agent's user inside, whatever the user outside.
const (
	insideUser = "agent"
	insideUID  = 1000
)

// Descriptors of a launch with a fixed number; the files of /etc follow.
const (
	dataArgs = iota
	dataFilter
	dataToken
	dataFiles
)

// openFiles is how many files one process of a sandbox may have open.
const openFiles = 64 << 10

// plan is the argument list of bubblewrap under construction. Order matters: later mounts cover earlier ones.
type plan struct {
	bwrap   string
	staged  bool // the launch mounts the sources, because the sandbox's user could not reach them
	args    []string
	sources []string
	data    [][]byte
	command []string // the environment inside; bubblewrap takes it only from its own arguments, which nobody inside sees
}

func (p *plan) add(args ...string) { p.args = append(p.args, args...) }

// system mounts a part of the host's system at its own path, if it exists.
func (p *plan) system(path string) { p.add("--ro-bind-try", path, path) }

// mount mounts a file or folder that is not accessible to everybody outside.
func (p *plan) mount(m executors.Mount) {
	op, source := "--bind", m.Source
	if m.ReadOnly {
		op = "--ro-bind"
	}
	if p.staged {
		p.sources = append(p.sources, m.Source)
		source = launch.Staged(len(p.sources) - 1)
	}
	p.add(op, source, m.Target)
}

// file makes a file that exists only in the sandbox.
func (p *plan) file(target, content string) {
	p.data = append(p.data, []byte(content))
	p.add("--perms", "0644", "--file", strconv.Itoa(launch.DataFD(len(p.data)-1)), target)
}

// tmpfs makes an in-memory folder that can grow to size.
func (p *plan) tmpfs(target, perms string, size int64) {
	p.add("--perms", perms, "--size", strconv.FormatInt(size, 10), "--tmpfs", target)
}

// plan returns the bubblewrap plan for s. own is the guest's folder.
func (e *Executor) plan(s executors.Spec, box executors.MountSpec, own, token string) (*plan, error) {
	p, err := e.base(box, s.Network.Mode == executors.NetworkHost)
	if err != nil {
		return nil, err
	}
	p.data[dataToken] = []byte(token)
	mounts := slices.Concat(box.Mounts, s.Caches, []executors.Mount{
		{Source: e.cfg.GuestPath, Target: executors.InsideGuest, ReadOnly: true}, {Source: own, Target: executors.InsideGuestDir}})
	if s.Gate != "" {
		mounts = append(mounts, executors.Mount{Source: s.Gate, Target: executors.InsideGate, ReadOnly: true})
	}
	if err := check(mounts, e.cfg.Log); err != nil {
		return nil, err
	}
	for _, m := range mounts {
		p.mount(m)
	}
	home := cmp.Or(box.Home, "/home/"+insideUser)
	env := e.environ(home, mounts)
	if s.Network.Mode == executors.NetworkHost {
		env = append(env, executors.ProxyEnv(e.cfg.Env())...)
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		p.add("--setenv", name, value)
	}
	for _, entry := range executors.GuestEnv(s.Env) {
		name, value, _ := strings.Cut(entry, "=")
		p.add("--setenv", name, value)
	}
	p.add("--setenv", hostproc.Mark, s.ID, "--remount-ro", "/", "--chdir", s.Root)
	p.command = []string{executors.InsideGuest, "serve", "--sandbox", s.ID, "--root", s.Root, "--dir", executors.InsideGuestDir, "--listen-fd", strconv.Itoa(launch.ListenFD), "--token-fd", strconv.Itoa(launch.DataFD(dataToken)), "--home", home}
	if s.Gate != "" {
		p.command = append(p.command, "--egress", executors.InsideGateSock)
	}
	return p, nil
}

// base is what every sandbox has: namespaces, the filter, the read-only system, an /etc that reveals nothing of the host, and in-memory
// folders of limited size. Its network is an empty one of its own, or the host's.
func (e *Executor) base(box executors.MountSpec, hostNetwork bool) (*plan, error) {
	bwrap, err := e.program()
	if err != nil {
		return nil, err
	}
	p := &plan{bwrap: bwrap, staged: box.UID >= 0, data: make([][]byte, dataFiles)}
	p.data[dataFilter] = filter()
	p.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns",
		"--uid", strconv.Itoa(insideUID), "--gid", strconv.Itoa(insideUID), "--hostname", "parawork", "--as-pid-1",
		"--info-fd", strconv.Itoa(launch.InfoFD), "--seccomp", strconv.Itoa(launch.DataFD(dataFilter)), "--clearenv")
	if !hostNetwork {
		p.add("--unshare-net")
	}
	p.add("--ro-bind", "/usr", "/usr")
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if to, err := os.Readlink(name); err == nil {
			p.add("--symlink", to, name)
		} else {
			p.system(name)
		}
	}
	p.etc(hostNetwork)
	memory := e.cfg.TmpMB << 20
	p.add("--proc", "/proc", "--dev", "/dev")
	p.tmpfs("/dev/shm", "1777", memory)
	p.add("--remount-ro", "/dev")
	p.tmpfs("/tmp", "1777", memory)
	p.tmpfs("/run", "0755", 16<<20)
	p.add("--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run", "--dir", "/home")
	for _, path := range e.cfg.Paths {
		if source, err := filepath.EvalSymlinks(path); err == nil { // Capabilities reports missing paths
			p.mount(executors.Mount{Source: source, Target: path, ReadOnly: true})
		}
	}
	return p, nil
}

// spec returns the launch of the plan.
func (p *plan) spec(box executors.MountSpec) launch.Spec {
	data := slices.Clone(p.data)
	data[dataArgs] = []byte(strings.Join(p.args, "\x00") + "\x00")
	return launch.Spec{Sources: p.sources, UID: box.UID, GID: box.GID, Limits: launch.Limits{OpenFiles: openFiles}, Data: data, Path: p.bwrap,
		Args: append([]string{"bwrap", "--args", strconv.Itoa(launch.DataFD(dataArgs)), "--"}, p.command...)}
}

// environ returns the environment of the guest, from which that of programs is picked: the host's language and time zone, the sandbox's
// home, and the part of the host's PATH that is visible inside.
func (e *Executor) environ(home string, mounts []executors.Mount) []string {
	seen := []string{"/usr", "/bin", "/sbin"}
	seen = append(seen, e.cfg.Paths...)
	for _, m := range mounts {
		seen = append(seen, m.Target)
	}
	path := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
	out := []string{"HOME=" + home, "USER=" + insideUser, "LOGNAME=" + insideUser, "SHELL=" + shell(), "XDG_RUNTIME_DIR=/tmp"}
	for _, entry := range e.cfg.Env() {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PATH":
			var mine []string
			for _, dir := range filepath.SplitList(value) {
				if slices.ContainsFunc(seen, func(s string) bool { return below(dir, s) }) && !slices.Contains(path, dir) {
					mine = append(mine, dir)
				}
			}
			path = append(mine, path...)
		case name == "LANG", name == "LANGUAGE", name == "TZ", strings.HasPrefix(name, "LC_"):
			out = append(out, entry)
		}
	}
	return append(out, "PATH="+strings.Join(path, ":"))
}

// shell returns the shell people expect, as far as the host has it.
func shell() string {
	if info, err := os.Stat("/bin/bash"); err == nil && info.Mode().IsRegular() {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// check rejects mounts that an agent could redirect: what it may write must not decide what is mounted, or where.
func check(mounts []executors.Mount, log interface{ Warn(string, ...any) }) error {
	for i, m := range mounts {
		if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Target) || filepath.Clean(m.Target) == "/" {
			return fmt.Errorf("mount of %q at %q: both must be absolute, and not the whole box", m.Source, m.Target)
		}
		info, err := os.Lstat(m.Source)
		if err != nil {
			return fmt.Errorf("looking at what the box is to see: %w", err)
		}
		if info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("%s, which the box is to see, is a link", m.Source)
		}
		for j, w := range mounts {
			if w.ReadOnly || j == i {
				continue
			}
			if below(m.Source, w.Source) && filepath.Clean(m.Source) != filepath.Clean(w.Source) {
				return fmt.Errorf("%s, which the box is to see, lies in %s, which it may write", m.Source, w.Source)
			}
			if j < i && below(m.Target, w.Target) {
				if err := straighten(w, m.Target, log); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// straighten makes sure that the path to target through a writable folder of the sandbox contains no link: while the sandbox is made, a link
// would be followed outside. It removes a link on the path.
func straighten(w executors.Mount, target string, log interface{ Warn(string, ...any) }) error {
	rel, err := filepath.Rel(w.Target, target)
	if err != nil || rel == "." {
		return err
	}
	dir, err := os.OpenRoot(w.Source)
	if err != nil {
		return fmt.Errorf("looking at the way to %s: %w", target, err)
	}
	defer dir.Close()
	at := ""
	for part := range strings.SplitSeq(rel, "/") {
		at = filepath.Join(at, part)
		info, err := dir.Lstat(at)
		if err != nil {
			return nil // it is made
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		log.Warn("link in the way of what a box is to see removed", "link", filepath.Join(w.Source, at))
		if err := dir.Remove(at); err != nil {
			return fmt.Errorf("removing a link in the way to %s: %w", target, err)
		}
		return nil
	}
	return nil
}
