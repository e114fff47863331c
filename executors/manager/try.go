package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// tryRun bounds the program that shows that an executor works.
const tryRun = 30 * time.Second

type trying struct{}

// Trying reports whether a sandbox is made only to see that its executor works: it must not receive anything of its workspace.
func Trying(ctx context.Context) bool { return ctx.Value(trying{}) != nil }

// Try checks that a workspace could work in another executor, while it goes on in its own: it makes a sandbox there, with the image, size
// and network the workspace would get, over the folder root instead of its worktree; it talks to the guest, runs a program, and ends the
// sandbox. It returns the error by which the executor, its quotas or its budgets refuse. The sandbox is charged like any other. lacks names
// the programs that are missing.
func (m *Manager) Try(ctx context.Context, workspaceID string, kind executors.Kind, root string, programs []string) (lacks []string, err error) {
	ctx = context.WithValue(ctx, trying{}, true)
	spec, _, err := m.cfg.Workspaces.Spec(ctx, workspaceID)
	if err != nil {
		return nil, fmt.Errorf("reading which sandbox workspace %s needs: %w", workspaceID, err)
	}
	pol, err := m.cfg.Choice.Policy(ctx, spec.TeamID)
	if err != nil {
		return nil, err
	}
	e, caps, err := m.cfg.Choice.Pick(ctx, pol, kind)
	if err != nil {
		return nil, err
	}
	who := executors.AsOf(ctx)
	if err := m.cfg.Choice.Admit(ctx, e.Kind(), who.UserID); err != nil {
		return nil, err
	}
	spec.ID, spec.WorkspaceID, spec.UserID, spec.Root = id.New(trialPrefix), workspaceID, who.UserID, root
	spec.GitDirs, spec.Folder = nil, ""
	if caps.Isolated && !caps.OwnDisk {
		if spec.MountSpec, err = trialBox(root); err != nil {
			return nil, err
		}
	}
	k := m.newMaking(executors.Record{Handle: executors.Handle{Kind: e.Kind(), ID: spec.ID}, TeamID: spec.TeamID, WorkspaceID: workspaceID, State: executors.Starting,
		StartedAt: m.now(), UserID: cmp.Or(who.UserID, spec.UserID), Purpose: who.Purpose}, caps)
	spared := m.reaper.spare(spec.ID)
	defer func() {
		for _, a := range m.attached() { // release what was made for it
			if a.Ended == nil {
				continue
			}
			a.Ended(k.record())
		}
		spared()
	}()
	mctx, cancel := context.WithTimeout(ctx, max(makeTimeout, time.Duration(caps.MakeMs)*time.Millisecond))
	defer cancel()
	if lacks, err = k.tryMaking(mctx, e, caps, spec, programs); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if fault.KindOf(err) != fault.Internal {
			return nil, err
		}
		m.cfg.Log.Warn("an executor was tried and does not work", "workspace_id", workspaceID, "executor", e.Kind(), "error", err)
		return nil, fault.Wrap(err, fault.Unavailable, "place_does_not_work", "A sandbox was made in %s to try it, and it does not work. See the server's log, or choose another place.", caps.Name)
	}
	return lacks, nil
}

// trialHome is the home inside a trial.
const trialHome = "/home/agent"

// trialBox isolates a trial as the user root was given to, like the workspace's own sandbox: the server's user may not have access to files
// that it does not own. Its home is made beside the folder. nil = the folder belongs to the server.
func trialBox(root string) (*executors.MountSpec, error) {
	fi, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("reading the folder of a trial: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Geteuid() {
		return nil, nil
	}
	uid, gid, home := int(st.Uid), int(st.Gid), filepath.Join(filepath.Dir(root), "home")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Lchown(home, uid, gid)); err != nil {
		return nil, fmt.Errorf("making the home of a trial: %w", err)
	}
	return &executors.MountSpec{Home: trialHome, UID: uid, GID: gid, Mounts: []executors.Mount{{Source: root, Target: root}, {Source: home, Target: trialHome}}}, nil
}

func (k *making) tryMaking(ctx context.Context, e executors.Executor, caps executors.Capabilities, spec executors.Spec, programs []string) (lacks []string, err error) {
	if err := k.m.attached().outfit(ctx, caps, &spec); err != nil {
		return nil, err
	}
	who, err := k.m.cfg.Choice.ForWhom(ctx, spec.TeamID, k.record().UserID, caps)
	if err != nil {
		return nil, err
	}
	if spec.Size, err = choice.Fit(who, spec.Limits); err != nil {
		return nil, err
	}
	k.change(func(r *executors.Record) {
		r.CPUs, r.MemoryMB, r.PriceNano = k.m.cfg.Choice.Charged(who, spec.Size, spec.Limits)
	})
	if err := k.m.cfg.Metering.Afford(ctx, k.m.cfg.Metering.UsageInterval(k.record())); err != nil {
		return nil, err
	}
	sb, err := e.Create(ctx, spec)
	if err != nil {
		k.m.cfg.Metering.Release(ctx, spec.ID)
		k.m.cfg.Choice.Recheck(e)
		return nil, err
	}
	k.change(func(r *executors.Record) { r.Handle = sb.Handle() })
	defer func() {
		k.remove(ctx, sb) // the reaper removes the rest
		k.m.cfg.Metering.Stopped(context.WithoutCancel(ctx), k.m.cfg.Metering.UsageInterval(k.record()), 0, executors.ByServer)
	}()
	if err := k.m.cfg.Metering.Began(ctx, k.m.cfg.Metering.UsageInterval(k.record()), true); err != nil {
		k.m.cfg.Metering.Release(ctx, spec.ID)
		return nil, err
	}
	p, err := k.m.connect(ctx, sb, k.record())
	if err != nil {
		return nil, err
	}
	defer p.Guest.Close()
	argv := []string{"git", "init", "--quiet", "--template=", "tried"}
	if p.OwnDisk { // its folder comes with the repository
		argv = []string{"git", "--version"}
	}
	res, err := p.Run(ctx, executors.SandboxCommand{Argv: argv, TimeoutMs: tryRun.Milliseconds(), Env: map[string]string{"GIT_CONFIG_NOSYSTEM": "1"}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("running git there: %w", err)
	case res.ExitCode != 0:
		return nil, errors.Join(fmt.Errorf("git ended there with exit code %d", res.ExitCode), errors.New(executors.CleanReason(string(res.Stderr))))
	}
	if len(programs) == 0 {
		return nil, nil
	}
	res, err = p.Run(ctx, executors.SandboxCommand{Argv: append([]string{"/bin/sh", "-c", lacksScript, "lacks"}, programs...), TimeoutMs: tryRun.Milliseconds()})
	if err != nil || res.ExitCode != 0 {
		k.m.cfg.Log.InfoContext(ctx, "agents' programs could not be looked for in a trial", "executor", e.Kind(), "exit_code", res.ExitCode, "error", err)
		return nil, nil // the user sees it when starting one
	}
	for name := range strings.FieldsSeq(string(res.Stdout)) {
		if slices.Contains(programs, name) {
			lacks = append(lacks, name)
		}
	}
	return lacks, nil
}

// lacksScript prints those of its arguments that are no programs.
const lacksScript = `for p; do command -v "$p" >/dev/null 2>&1 || echo "$p"; done`
