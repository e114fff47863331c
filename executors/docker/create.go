//go:build linux || darwin

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

const (
	// insideCall is where a container finds the folder with its host's socket.
	insideCall = "/run/parawork/call"
	// insideCA is where a derived image stores the machine's extra certificates.
	insideCA = "/opt/parawork-install/ca.pem"
	// defaultHome is the agents' home where the workspace brings none: it ends with the container.
	defaultHome = "/home/agent"
	// defaultPids limits the processes of a sandbox without a limit.
	defaultPids = 4096
	mib         = 1 << 20
)

func containerName(id string) string { return "parawork-" + id }

// Create starts a container with a guest for s, or finds the one that was started for s.ID before. On error it leaves nothing behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := hostproc.CheckID(s.ID); err != nil {
		return nil, err
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	remote, err := e.isRemote(ctx)
	if err != nil {
		return nil, err
	}
	defer e.turns.Lock(s.ID)()
	found, err := e.find(ctx, executors.Handle{Kind: e.cfg.Kind, ID: s.ID})
	if err == nil {
		return found, nil
	}
	if !errors.Is(err, executors.ErrGone) {
		return nil, err
	}
	if err := e.destroy(ctx, s.ID); err != nil { // leftovers of an earlier try
		return nil, err
	}
	start := e.start
	if remote {
		start = e.startRemote
	}
	sb, err := start(ctx, s)
	if err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		if derr := e.destroy(cctx, s.ID); derr != nil {
			err = errors.Join(err, derr)
		}
		return nil, fmt.Errorf("starting the container of sandbox %s: %w", s.ID, err)
	}
	return sb, nil
}

// start makes the folder, the listener and the container. The caller cleans up after an error.
func (e *Executor) start(ctx context.Context, s executors.Spec) (*sandbox, error) {
	img, name, err := e.imageOf(ctx, s)
	if err != nil {
		return nil, err
	}
	executors.SayStep(ctx, executors.StepCreate, "", "")
	info, err := e.About(ctx)
	if err != nil {
		return nil, inWords(err)
	}
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	o, home := ownerOf(s.MountSpec), defaultHome
	if s.MountSpec != nil && s.MountSpec.Home != "" {
		home = s.MountSpec.Home
	}
	token, err := e.furnish(s, o, home)
	if err != nil {
		return nil, err
	}
	listener, err := listen(ctx, e.callDir(s.ID), token)
	if err != nil {
		return nil, err
	}
	sb := &sandbox{e: e, id: s.ID, token: token, listener: listener, rec: record{Engine: info.ID, Image: name, Runtime: e.cfg.Runtime}}
	e.opened(sb)
	p := plan{e: e, spec: s, owner: o, home: home, instance: instance, info: info, image: img}
	made, err := e.api.ContainerCreate(ctx, p.config(), p.host(), &network.NetworkingConfig{}, nil, containerName(s.ID))
	if err != nil {
		return nil, refused(err, name, e.cfg.Runtime)
	}
	sb.rec.Container = made.ID
	if err := hostproc.WriteRecord(e.dir(s.ID), sb.rec); err != nil {
		return nil, err
	}
	if err := e.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return nil, refused(err, name, e.cfg.Runtime)
	}
	if err := e.ready(ctx, sb); err != nil {
		return nil, err
	}
	if err := e.hideToken(s.ID); err != nil {
		return nil, err
	}
	return sb, e.checkImage(ctx, sb, img.ID)
}

// plan returns what a container is made from.
type plan struct {
	e        *Executor
	spec     executors.Spec
	owner    owner
	home     string
	instance string
	info     system.Info
	image    image.InspectResponse
}

func (p *plan) user() string {
	if rootless, _ := mapped(p.info); rootless && p.owner.uid == os.Getuid() {
		return "0:0" // the engine's user, which is also the server's, is root inside
	}
	return fmt.Sprintf("%d:%d", p.owner.uid, p.owner.gid)
}

func (p *plan) config() *container.Config {
	env := []string{"HOME=" + p.home, "USER=" + p.userName(), "LOGNAME=" + p.userName()}
	if p.image.Config == nil || !slices.ContainsFunc(p.image.Config.Env, func(v string) bool { return strings.HasPrefix(v, "LANG=") }) {
		env = append(env, "LANG=C.UTF-8")
	}
	if prep := p.e.cfg.Prepare; prep != nil {
		if len(prep.CA) > 0 {
			env = append(env, "NODE_EXTRA_CA_CERTS="+insideCA)
		}
		for _, v := range recipe.Env(prep.Agents) { // the image is read-only, so agents must not try to update themselves
			env = append(env, v.Name+"="+v.Value)
		}
	}
	if p.spec.Network.Mode == executors.NetworkHost {
		env = append(env, executors.ProxyEnv(os.Environ())...)
	}
	env = append(env, executors.GuestEnv(p.spec.Env)...)
	timeout := 10
	return &container.Config{
		Image: p.image.ID, Hostname: "parawork", User: p.user(), Env: env, WorkingDir: "/",
		Entrypoint: []string{executors.InsideGuest}, Cmd: p.guestArgs(),
		Labels: map[string]string{labelManaged: "true", labelInstance: p.instance, labelWorkspace: p.spec.WorkspaceID,
			labelSandbox: p.spec.ID},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, StopSignal: "SIGTERM", StopTimeout: &timeout,
	}
}

func (p *plan) userName() string {
	if p.owner.uid == 0 {
		return "root"
	}
	return "agent"
}

// guestArgs returns the guest's command line. It contains no secret.
func (p *plan) guestArgs() []string {
	args := []string{"serve", "--sandbox", p.spec.ID, "--root", p.spec.Root, "--dir", executors.InsideGuestDir,
		"--call", insideCall + "/" + socketName, "--token-file", executors.InsideGuestDir + "/" + hostproc.TokenName, "--own-env", "--home", p.home}
	if p.spec.Gate != "" {
		args = append(args, "--egress", executors.InsideGateSock)
	}
	return args
}

func (p *plan) host() *container.HostConfig {
	uid, gid, _ := strings.Cut(p.user(), ":")
	// The runtime gives an in-memory folder the mode it has in the image: an image whose /tmp is not world-writable must not matter.
	tmpfs := map[string]string{"/tmp": "rw,exec,nosuid,nodev,size=1g,mode=1777,uid=" + uid + ",gid=" + gid, "/run": "rw,nosuid,nodev,size=16m,mode=755"}
	mounts := p.mounts()
	if !slices.ContainsFunc(mounts, func(m executors.Mount) bool { return filepath.Clean(m.Target) == filepath.Clean(p.home) }) {
		tmpfs[p.home] = "rw,exec,nosuid,nodev,size=512m,mode=700,uid=" + uid + ",gid=" + gid
	}
	h := &container.HostConfig{
		Mounts: binds(mounts), Tmpfs: tmpfs, NetworkMode: network.NetworkNone, ReadonlyRootfs: true, Privileged: false,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"}, IpcMode: container.IPCModePrivate,
		CgroupnsMode: container.CgroupnsModePrivate, Runtime: p.e.cfg.Runtime, ShmSize: 256 * mib,
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
		Resources: resources(p.spec.Limits),
	}
	if p.spec.Network.Mode == executors.NetworkHost {
		h.NetworkMode = network.NetworkHost
	} else {
		h.DNS, h.DNSSearch = []string{"127.0.0.1"}, []string{"."} // not this machine's resolver
	}
	files := mostFiles()
	for _, g := range p.spec.Groups {
		h.GroupAdd = append(h.GroupAdd, strconv.Itoa(g))
	}
	h.Ulimits = []*container.Ulimit{{Name: "nofile", Soft: files, Hard: files}, {Name: "core", Soft: 0, Hard: 0}}
	if _, userns := mapped(p.info); userns {
		h.UsernsMode = "host" // otherwise the worktree's user does not exist inside; that user is not one of the machine's own
	}
	return h
}

// mostFiles returns how many files a process may have open: no more than the server itself may, because where limits cannot be raised the
// engine could not start anything.
func mostFiles() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Max > 65536 {
		return 65536
	}
	return int64(l.Max)
}

// mounts returns all mounts of host files, in order: the workspace's, and over them the sandbox's own.
func (p *plan) mounts() []executors.Mount {
	s, dir := p.spec, p.e.dir(p.spec.ID)
	out := []executors.Mount{{Source: s.Root, Target: s.Root}}
	if s.MountSpec == nil { // a worktree needs its repository
		for _, d := range s.GitDirs {
			out = append(out, executors.Mount{Source: d, Target: d})
		}
	} else {
		out = append(out, s.MountSpec.Mounts...)
	}
	out = append(out, s.Caches...)
	if s.Gate != "" {
		out = append(out, executors.Mount{Source: s.Gate, Target: executors.InsideGate, ReadOnly: true})
	}
	return append(out,
		executors.Mount{Source: p.e.cfg.GuestPath, Target: executors.InsideGuest, ReadOnly: true},
		executors.Mount{Source: p.e.cfg.GuestPath, Target: executors.InsideCommand, ReadOnly: true},
		executors.Mount{Source: p.e.guestDir(s.ID), Target: executors.InsideGuestDir},
		executors.Mount{Source: p.e.callDir(s.ID), Target: insideCall, ReadOnly: true},
		executors.Mount{Source: filepath.Join(dir, etcName, "passwd"), Target: "/etc/passwd", ReadOnly: true},
		executors.Mount{Source: filepath.Join(dir, etcName, "group"), Target: "/etc/group", ReadOnly: true})
}

// resources converts the limits for the engine.
func resources(l executors.Limits) container.Resources {
	pids := int64(defaultPids)
	if l.Processes > 0 {
		pids = l.Processes
	}
	r := container.Resources{PidsLimit: &pids, NanoCPUs: int64(l.CPUs * 1e9)}
	if l.MemoryMB > 0 {
		r.Memory, r.MemorySwap = l.MemoryMB*mib, l.MemoryMB*mib
	}
	return r
}

// ready waits until the guest has called and says hello as itself.
func (e *Executor) ready(ctx context.Context, sb *sandbox) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.ReadyIn, errors.New("the guest in the container did not call in time"))
	defer cancel()
	actx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended, failed := e.api.ContainerWait(actx, sb.rec.Container, container.WaitConditionNotRunning)
	watched := make(chan struct{})
	go func() { // ends with actx
		defer close(watched)
		select {
		case end := <-ended:
			stop(fmt.Errorf("the container ended at once with exit code %d: %s", end.StatusCode, e.lastWords(ctx, sb.rec.Container)))
		case <-failed: // the hello tells
		case <-actx.Done():
		}
	}()
	c := client.New(client.Config{Dial: sb.await, Token: sb.token, SandboxID: sb.id, Now: e.cfg.Now})
	defer c.Close()
	h, err := c.Hello(actx)
	cause := context.Cause(actx)
	stop(nil)
	<-watched
	if err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return executors.CheckHello(h, sb.id)
}

// lastWords returns the end of the container's output, for a person.
func (e *Executor) lastWords(ctx context.Context, containerID string) string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := e.api.ContainerLogs(ctx, containerID, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "5"})
	if err != nil {
		return "it printed nothing"
	}
	defer r.Close()
	text := plainLog(r, 500)
	return cmp.Or(text, "it printed nothing")
}

// checkImage says, once per image, whether an image lacks a shell or git.
func (e *Executor) checkImage(ctx context.Context, sb *sandbox, imageID string) error {
	e.mu.Lock()
	done := e.complete[imageID]
	e.mu.Unlock()
	if done {
		return nil
	}
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.token, SandboxID: sb.id, Now: e.cfg.Now})
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	lacks, err := missing(ctx, c, sb.id+"-image")
	if err != nil {
		return fmt.Errorf("looking into the image: %w", err)
	}
	if lacks != "" {
		return fault.New(fault.Unavailable, "image_incomplete",
			"The image %q has no %s, which Parawork needs in it. Add it to the image, or choose another image.", sb.rec.Image, lacks)
	}
	e.mu.Lock()
	e.complete[imageID] = true
	e.mu.Unlock()
	return nil
}
