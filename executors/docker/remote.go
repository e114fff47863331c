//go:build linux || darwin

package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/guest/bootfile"
	"github.com/parawork/parawork/internal/fault"
)

// An engine that does not share this machine's files and sockets - on another machine, or in a virtual machine such as Docker Desktop's -
// cannot mount anything of this machine. Its containers have a disk of their own: the executor copies the guest program in, the server syncs
// the workspace's files through the guest, and each pipe to the guest is a small program in the container (guest/bridge), as is the way out
// (guest/egressbridge). A container that has ended keeps its disk, so it is started again instead of made anew.

// Paths in such a container.
const (
	remoteDir      = "/var/lib/parawork"      // the guest user's
	remoteGuest    = remoteDir + "/guest"     // the guest's own folder
	remoteSocket   = remoteDir + "/socket"    // the guest's socket
	remoteBootFile = remoteDir + "/boot-file" // boot file: the guest reads its token and settings from it
	remoteGate     = remoteDir + "/egress"    // the way out
	remoteEnded    = remoteDir + "/ended"     // exists when a host told the guest to shut down
	remoteUID      = 1000
)

// isRemote reports whether the engine shares nothing with this machine.
func (e *Executor) isRemote(ctx context.Context) (bool, error) {
	if !e.remoteAsKnown() {
		if _, err := e.About(ctx); err != nil {
			return false, inWords(err)
		}
	}
	return e.remoteAsKnown(), nil
}

// remoteAsKnown is isRemote from what is known, without a call to the engine.
func (e *Executor) remoteAsKnown() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.remote != "" || e.cfg.Remote || runtime.GOOS != "linux" || e.virtual
}

// virtual reports whether the engine runs in a virtual machine on this machine.
func virtual(info system.Info) bool {
	return strings.Contains(info.OperatingSystem, "Docker Desktop")
}

// goArch returns the engine's processor architecture as Go calls it.
func goArch(info system.Info) string {
	switch info.Architecture {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return info.Architecture
}

// owner is the user of a container with a disk of its own.
func (r record) owner() owner {
	if r.AsRoot {
		return owner{}
	}
	return owner{remoteUID, remoteUID}
}

// remoteRoot is the path of the worktree in a container with a disk of its own.
func remoteRoot(s executors.Spec) string {
	if s.Inside != "" {
		return path.Clean(s.Inside)
	}
	return path.Clean(s.Root)
}

// startRemote makes the container of s on an engine that shares nothing with this machine, and starts the guest in it. The caller cleans up
// after an error.
func (e *Executor) startRemote(ctx context.Context, s executors.Spec) (*sandbox, error) {
	root, home := remoteRoot(s), defaultHome
	if s.MountSpec != nil && s.MountSpec.Home != "" {
		home = path.Clean(s.MountSpec.Home)
	}
	if !path.IsAbs(root) || root == "/" || !path.IsAbs(home) || home == "/" {
		return nil, fmt.Errorf("the worktree %q and the home %q must be absolute, and not the whole container", root, home)
	}
	if s.MountSpec != nil {
		for _, m := range s.MountSpec.Mounts {
			if m.Source != s.Root && m.Target != home {
				return nil, fault.New(fault.Unavailable, "docker_no_mounts",
					"The Docker engine does not see this %s's folders, so %s cannot be shown in the container. Work on a copy instead.", e.cfg.here(), m.Source)
			}
		}
	}
	img, name, err := e.imageOf(ctx, s)
	if err != nil {
		return nil, err
	}
	info, err := e.About(ctx)
	if err != nil {
		return nil, inWords(err)
	}
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	dir, err := hostproc.MakeFolder(e.cfg.Dir, s.ID, e.cfg.Kind)
	if err != nil {
		return nil, err
	}
	token, err := hostproc.MakeToken(dir, e.cfg.Rand)
	if err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepCreate, "", "")
	sb := &sandbox{e: e, id: s.ID, token: token, rec: record{Engine: info.ID, Image: name, Runtime: e.cfg.Runtime, Remote: true, AsRoot: e.cfg.Root, Root: root, Home: home, Gate: s.Gate}}
	e.opened(sb)
	p := plan{e: e, spec: s, owner: sb.rec.owner(), home: home, instance: instance, info: info, image: img}
	cfg, host := p.config(), p.remoteHost()
	cfg.Cmd = p.remoteArgs(root)
	made, err := e.api.ContainerCreate(ctx, cfg, host, &network.NetworkingConfig{}, nil, containerName(s.ID))
	if err != nil {
		return nil, refused(err, name, e.cfg.Runtime)
	}
	sb.rec.Container = made.ID
	if err := hostproc.WriteRecord(dir, sb.rec); err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepGuest, "", "")
	if err := e.bring(ctx, sb); err != nil {
		return nil, err
	}
	if err := e.raise(ctx, sb); err != nil {
		return nil, err
	}
	return sb, e.checkImage(ctx, sb, img.ID)
}

// raise starts a stopped container, sends the guest its boot file, and waits for the guest.
func (e *Executor) raise(ctx context.Context, sb *sandbox) error {
	content, err := json.Marshal(bootfile.BootFile{Token: sb.token})
	if err != nil {
		return err
	}
	if err := e.copyIn(ctx, sb, entry{path: remoteBootFile, mode: 0o400, uid: sb.rec.owner().uid, content: content}); err != nil {
		return err
	}
	if err := e.writeRun(sb.id, runRecord{}); err != nil { // another run begins
		return err
	}
	if err := e.api.ContainerStart(ctx, sb.rec.Container, container.StartOptions{}); err != nil {
		return refused(err, sb.rec.Image, e.cfg.Runtime)
	}
	if err := e.ready(ctx, sb); err != nil {
		return err
	}
	sb.startCarrying()
	return nil
}

// revive finds the container of a sandbox with a disk of its own: a running one, or one that has ended, which it starts again. The caller
// holds the sandbox's turn.
func (e *Executor) revive(ctx context.Context, id string, rec record) (*sandbox, error) {
	c, err := e.api.ContainerInspect(ctx, containerName(id))
	if err != nil {
		return nil, inWords(err)
	}
	rec.Container = c.ID
	if c.State.Running || c.State.Restarting {
		return e.adopt(ctx, id, rec, remoteHelloIn)
	}
	_, err = e.api.ContainerStatPath(ctx, c.ID, remoteEnded)
	if err == nil {
		return nil, executors.GoneBecause("Its guest was asked to end.")
	}
	if !errdefs.IsNotFound(err) {
		return nil, inWords(fmt.Errorf("looking into a container that has ended: %w", err))
	}
	sb, err := e.openRemote(id, rec)
	if err != nil {
		return nil, err
	}
	e.cfg.Log.InfoContext(ctx, "a container that had ended is started again", "sandbox_id", id, "reason", goneBecause(c.State))
	return sb, e.raise(ctx, sb)
}

// openRemote returns the sandbox with its token.
func (e *Executor) openRemote(id string, rec record) (*sandbox, error) {
	if s := e.known(id); s != nil && s.rec.Container == rec.Container {
		return s, nil
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	token, err := hostproc.ReadToken(e.dir(id))
	if hostproc.Unreadable(err) {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", id, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s has no token (%w): %w", id, err, executors.ErrGone)
	}
	e.shut(id)
	s := &sandbox{e: e, id: id, token: token, rec: rec}
	e.opened(s)
	return s, nil
}

// remoteArgs returns the guest's command line. It contains no secret.
func (p *plan) remoteArgs(root string) []string {
	args := []string{"serve", "--sandbox", p.spec.ID, "--root", root, "--make-root", "--dir", remoteGuest, "--listen", remoteSocket, "--boot-file", remoteBootFile,
		"--ended", remoteEnded,
		"--sealed", "--own-env", "--home", p.home}
	if p.spec.Gate != "" {
		args = append(args, "--egress", remoteGate)
	}
	return args
}

// remoteHost is host for a container with a disk of its own, whose root is that disk.
func (p *plan) remoteHost() *container.HostConfig {
	h := p.host()
	h.Mounts, h.ReadonlyRootfs, h.GroupAdd = nil, false, nil
	h.Tmpfs = map[string]string{"/run": "rw,nosuid,nodev,size=16m,mode=755"}
	if p.e.cfg.Root { // the engine's usual walls, and what the machine's owner adds
		h.CapDrop, h.SecurityOpt, h.CapAdd = nil, nil, p.e.cfg.Capabilities
	}
	h.Ulimits = slices.DeleteFunc(h.Ulimits, func(l *container.Ulimit) bool { return l.Name == "nofile" }) // the engine's own settings: this machine's do not apply to it
	return h
}

// entry is a file or folder to copy into a container.
type entry struct {
	path    string
	mode    int64
	uid     int
	folder  bool
	content []byte
	file    string // a file of this machine, instead of content
	link    string // what it links to, instead of content
}

// bring copies into a new container what it needs.
func (e *Executor) bring(ctx context.Context, sb *sandbox) error {
	o := sb.rec.owner()
	passwd, group := names(o, sb.rec.Home)
	all := []entry{{path: "/tmp", mode: 0o1777, folder: true}}
	for _, dir := range []string{sb.rec.Root, sb.rec.Home, remoteDir} {
		for _, above := range ancestors(dir) {
			if !slices.ContainsFunc(all, func(have entry) bool { return have.path == above }) {
				all = append(all, entry{path: above, mode: 0o755, folder: true})
			}
		}
		all = append(all, entry{path: dir, mode: 0o755, uid: o.uid, folder: true})
	}
	all = append(all, entry{path: remoteGuest, mode: 0o700, uid: o.uid, folder: true},
		entry{path: path.Dir(executors.InsideGuest), mode: 0o755, folder: true},
		entry{path: executors.InsideGuest, mode: 0o755, file: e.cfg.GuestPath},
		entry{path: executors.InsideCommand, mode: 0o777, link: executors.InsideGuest},
		entry{path: "/etc/passwd", mode: 0o644, content: []byte(passwd)}, entry{path: "/etc/group", mode: 0o644, content: []byte(group)})
	return e.copyIn(ctx, sb, all...)
}

// ancestors returns the folders above a path, without the root, from the top.
func ancestors(p string) []string {
	var out []string
	for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
		out = append(out, dir)
	}
	slices.Reverse(out)
	return out
}

// copyIn copies files and folders into the container.
func (e *Executor) copyIn(ctx context.Context, sb *sandbox, all ...entry) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeEntries(w, all)) }() // ends with r
	defer r.Close()
	if err := e.api.CopyToContainer(ctx, sb.rec.Container, "/", r, container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("copying into the container: %w", inWords(err))
	}
	return nil
}

func writeEntries(w io.Writer, all []entry) error {
	t := tar.NewWriter(w)
	for _, e := range all {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(e.path, "/"), Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.content))}
		var content io.Reader = bytes.NewReader(e.content)
		if e.folder {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if e.file != "" {
			f, err := os.Open(e.file)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			h.Size, content = info.Size(), f
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(t, content); err != nil {
			return err
		}
	}
	return t.Close()
}

var errClosed = errors.New("the executor was closed")
