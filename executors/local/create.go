//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/fault"
)

// allowed are the names of the server's environment that guests, and through them agents, are given.
var allowed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// guestEnv picks the allow-listed entries of the server's environment.
func guestEnv(environ []string, id string) []string {
	var out []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && (slices.Contains(allowed, name) || strings.HasPrefix(name, "LC_")) {
			out = append(out, entry)
		}
	}
	return append(out, hostproc.Mark+"="+id)
}

// Create starts a guest for s, or finds the one that was started for s.ID before. On error nothing is left behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if err := hostproc.CheckID(s.ID); err != nil {
		return nil, err
	}
	if !e.cfg.Enabled {
		return nil, fault.New(fault.Unavailable, "executor_unavailable",
			"This server does not allow local places. Set sandboxing.local.enabled to true in config.json.")
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	defer e.turns.Lock(s.ID)()
	found, err := e.find(ctx, executors.Handle{Kind: executors.Local, ID: s.ID})
	if err == nil {
		return found, nil
	}
	if !errors.Is(err, executors.ErrGone) {
		return nil, err
	}
	if err := e.destroy(ctx, s.ID); err != nil { // rests of an earlier try
		return nil, err
	}
	sb, err := e.start(ctx, s)
	if err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if derr := e.destroy(cctx, s.ID); derr != nil {
			err = errors.Join(err, derr)
		}
		return nil, fmt.Errorf("starting the guest of sandbox %s: %w", s.ID, err)
	}
	return sb, nil
}

// start makes the folder and starts the guest in it. The caller cleans up after an error.
func (e *Executor) start(ctx context.Context, s executors.Spec) (*sandbox, error) {
	dir, err := hostproc.MakeFolder(e.cfg.Dir, s.ID, executors.Local)
	if err != nil {
		return nil, err
	}
	token, err := hostproc.MakeToken(dir, e.cfg.Rand)
	if err != nil {
		return nil, err
	}
	listener, err := hostproc.Listen(dir)
	if err != nil {
		return nil, err
	}
	output, err := hostproc.OpenOutput(dir)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	defer output.Close()
	who, ended, err := e.launch(s, dir, listener, output)
	if err != nil {
		return nil, err
	}
	sb := &sandbox{e: e, id: s.ID, dir: dir, token: token, who: who, Confined: e.groups().Of(s.ID)}
	if err := e.guest(sb).Ready(ctx, e.cfg.ReadyIn, ended); err != nil {
		return nil, err
	}
	return sb, nil
}

// launch starts the guest process in a session of its own, so that nothing that ends the server ends it. ended is closed
// when the process has ended and was reaped.
func (e *Executor) launch(s executors.Spec, dir string, listener, output *os.File) (hostproc.Identity, <-chan struct{}, error) {
	cmd := exec.Command(e.cfg.GuestPath, guestArgs(s, dir)...)
	cmd.Dir = dir
	cmd.Env = append(guestEnv(e.cfg.Env(), s.ID), executors.GuestEnv(s.Env)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{listener} // fd 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := cmd.Start()
	_ = listener.Close() // only the guest has it now: when it ends, dialing fails at once
	if err != nil {
		return hostproc.Identity{}, nil, err
	}
	pid := cmd.Process.Pid
	who, err := hostproc.Identify(pid)
	ended := make(chan struct{})
	go func() { // ends with the guest process; nobody could wait for it, since the guest outlives the server
		defer close(ended)
		hostproc.Reap(cmd)
	}()
	if err == nil {
		err = hostproc.WriteRecord(dir, who)
	}
	if err == nil { // it starts nothing before it is asked, so that all it starts is in the group
		err = e.enter(pid, s)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return hostproc.Identity{}, nil, err
	}
	return who, ended, nil
}
