//go:build linux && (amd64 || arm64)

package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/guest/launch"
	"github.com/parawork/parawork/internal/fault"
)

// Create makes a sandbox for s with a guest in it, or finds the one that was made for s.ID before. On error it leaves nothing behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if !e.cfg.Enabled {
		return nil, fault.New(fault.Unavailable, "executor_unavailable",
			"This server does not allow process sandboxes. Set sandboxing.bubblewrap.enabled to true in config.json.")
	}
	if info, err := os.Lstat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	var began time.Time // zero: nothing was launched
	sb, started, err := e.Make(ctx, s, func(ctx context.Context, start hostproc.Start) (hostproc.Record, <-chan struct{}, error) {
		began = time.Now()
		return e.launch(ctx, start)
	})
	if err != nil {
		if !began.IsZero() {
			e.probe.forget() // what worked a minute ago may no longer work
		}
		return nil, err
	}
	if started {
		e.probe.took(time.Since(began))
	}
	return sb, nil
}

// bounded adds to a launch the per-process kernel limits, and the groups it belongs to.
func (e *Executor) bounded(l launch.Spec, s executors.Spec) launch.Spec {
	if s.Limits.DiskMB > 0 { // no single file may be larger than the limit for all files
		l.Limits.FileSize = uint64(s.Limits.DiskMB) << 20
	}
	if l.UID < 0 {
		return l
	}
	l.Groups = s.Groups
	if s.Limits.Processes > 0 && (e.cfg.Groups == nil || !e.cfg.Groups.Support().Processes) {
		l.Limits.Processes = uint64(s.Limits.Processes) // the user belongs to this sandbox only
	}
	return l
}

// box returns what the workspace sees of the host: what s says, or the least that works.
func (e *Executor) box(s executors.Spec, dir string) (executors.MountSpec, error) {
	if s.MountSpec != nil {
		if root() && s.MountSpec.UID <= 0 || s.MountSpec.UID == 0 {
			return executors.MountSpec{}, errors.New("a box of a root server needs a user of its own")
		}
		return *s.MountSpec, nil
	}
	b := executors.MountSpec{Home: "/home/agent", UID: -1, GID: -1, Mounts: []executors.Mount{{Source: s.Root, Target: s.Root}}}
	if root() {
		// The worktree's owner works in it, unless that is root.
		var st unix.Stat_t
		if err := unix.Lstat(s.Root, &st); err != nil {
			return b, fmt.Errorf("looking at the worktree: %w", err)
		}
		if st.Uid == 0 || st.Gid == 0 {
			return b, errors.New("the worktree belongs to root, and a box does not run as root")
		}
		b.UID, b.GID = int(st.Uid), int(st.Gid)
	}
	for _, d := range s.GitDirs {
		if !below(d, s.Root) {
			b.Mounts = append(b.Mounts, executors.Mount{Source: d, Target: d})
		}
	}
	home := filepath.Join(dir, "home")
	b.Mounts = append(b.Mounts, executors.Mount{Source: home, Target: b.Home})
	return b, makeOwn(home, b)
}

// makeOwn makes a folder that belongs to the sandbox's user.
func makeOwn(dir string, b executors.MountSpec) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if b.UID < 0 {
		return nil
	}
	return os.Lchown(dir, b.UID, b.GID)
}

// root reports whether the server is root, and so can give sandboxes users of their own.
func root() bool { return os.Geteuid() == 0 }

// launch makes the sandbox and starts the guest as its first process. The started process is bubblewrap, which ends with the guest.
func (e *Executor) launch(ctx context.Context, s hostproc.Start) (who hostproc.Record, ended <-chan struct{}, err error) {
	box, err := e.box(s.Spec, s.Dir)
	if err != nil {
		return who, nil, err
	}
	own := filepath.Join(s.Dir, guestDir)
	if err := makeOwn(own, box); err != nil {
		return who, nil, err
	}
	plan, err := e.plan(s.Spec, box, own, s.Token)
	if err != nil {
		return who, nil, err
	}
	spec := e.bounded(plan.spec(box), s.Spec)
	spec.Env = []string{hostproc.Mark + "=" + s.Spec.ID}
	info, reported, err := os.Pipe()
	if err != nil {
		return who, nil, err
	}
	defer info.Close()
	run, err := e.run(spec, s.Dir, s.Listener, s.Output, reported, func(pid int) error { return e.groups.Enter(pid, s.Spec.ID, s.Spec.Limits) })
	_ = reported.Close()
	if err != nil {
		return who, nil, err
	}
	if who, err = e.identify(ctx, s.Dir, info, run); err == nil {
		err = hostproc.WriteRecord(s.Dir, who)
	}
	if err != nil {
		run.Kill()
		return who, nil, err
	}
	return who, run.Ended, nil
}

// identify waits for the first process of a sandbox and returns its identity and bubblewrap's.
func (e *Executor) identify(ctx context.Context, dir string, info *os.File, run *hostproc.Running) (who hostproc.Record, err error) {
	first, err := first(ctx, info, e.cfg.ReadyIn)
	if err != nil {
		select {
		case <-run.Ended:
			return who, fmt.Errorf("bubblewrap ended at once: %s", hostproc.Tail(dir))
		case <-time.After(100 * time.Millisecond):
			return who, err
		}
	}
	if who.Identity, err = hostproc.Identify(first); err != nil {
		return who, fmt.Errorf("looking at the first process of the box: %w: %s", err, hostproc.Tail(dir))
	}
	who.Outer = run.Identity
	return who, nil
}

// run starts the launch of spec: see guest/launch. Bubblewrap writes information about the sandbox to info. ready is called when its process
// exists and has done nothing yet.
func (e *Executor) run(spec launch.Spec, dir string, listener, output, info *os.File, ready func(pid int) error) (*hostproc.Running, error) {
	reported, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	theirs, notify, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer notify.Close()
	cmd := exec.Command(e.cfg.GuestPath, "launch")
	cmd.Dir, cmd.Env = dir, spec.Env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{listener, theirs, info} // launch.ListenFD and those after it
	if len(spec.Sources) > 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // mounted where nobody else looks
	}
	run, err := hostproc.StartDetached(cmd)
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	if err := ready(run.Pid); err != nil {
		return nil, err // it gets no boot data, and exits
	}
	if err := notify.SetWriteDeadline(time.Now().Add(e.cfg.ReadyIn)); err == nil {
		_, err = notify.Write(reported)
		if err != nil && !errors.Is(err, syscall.EPIPE) { // one that has ended has printed why
			return nil, fmt.Errorf("telling what to launch: %w", err)
		}
	}
	return run, nil
}

// maxInfo limits the size of bubblewrap's information about a sandbox.
const maxInfo = 16 << 10

// first waits for the host pid of the sandbox's first process.
func first(ctx context.Context, info *os.File, within time.Duration) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = info.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := info.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	b, err := io.ReadAll(io.LimitReader(info, maxInfo))
	if err != nil {
		return 0, fmt.Errorf("waiting for the box: %w", err)
	}
	var box struct {
		ChildPid int `json:"child-pid"`
	}
	if err := json.Unmarshal(b, &box); err != nil || box.ChildPid <= 1 {
		return 0, fmt.Errorf("bubblewrap told nothing of the box: %q", b)
	}
	return box.ChildPid, nil
}
