//go:build linux || darwin

package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/internal/fault"
)

// allowed are the names of the server's environment that guests, and through them agents, receive.
var allowed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// guestEnv picks the allowed entries of the server's environment.
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

// Create starts a guest for s, or finds the one that was started for s.ID before. On error it leaves nothing behind.
func (e *Executor) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	if !e.cfg.Enabled {
		return nil, fault.New(fault.Unavailable, "executor_unavailable",
			"This server does not allow local places. Set sandboxing.local.enabled to true in config.json.")
	}
	if info, err := os.Stat(s.Root); err != nil || !info.IsDir() || !filepath.IsAbs(s.Root) {
		return nil, fault.New(fault.Unavailable, "worktree_missing", "The workspace's folder %q is not there.", s.Root)
	}
	sb, _, err := e.Make(ctx, s, e.launch)
	return sb, err
}

// launch starts the guest process.
func (e *Executor) launch(_ context.Context, s hostproc.Start) (who hostproc.Record, ended <-chan struct{}, err error) {
	cmd := exec.Command(e.cfg.GuestPath, guestArgs(s.Spec, s.Dir)...)
	cmd.Dir = s.Dir
	cmd.Env = append(guestEnv(e.cfg.Env(), s.Spec.ID), executors.GuestEnv(s.Spec.Env)...)
	cmd.Stdout, cmd.Stderr = s.Output, s.Output
	cmd.ExtraFiles = []*os.File{s.Listener} // fd 3
	run, err := hostproc.StartDetached(cmd)
	if err != nil {
		return who, nil, err
	}
	who.Identity = run.Identity
	err = hostproc.WriteRecord(s.Dir, who)
	if err == nil { // it starts nothing before it is asked, so that all it starts is in the group
		err = e.enter(run.Pid, s.Spec)
	}
	if err != nil {
		run.Kill()
		return who, nil, err
	}
	return who, run.Ended, nil
}
