package ingest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/transfer"
)

// CheckEnv is the environment of a check, which describes its workspace.
func (s *Service) CheckEnv(ctx context.Context, workspaceID string) (map[string]string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return nil, err
	}
	env := transfer.SetupEnv(p, w)
	env["CI"] = "true" // keep tools from waiting for input or watching files
	return env, nil
}

// checkOutScript checks a commit out into a separate folder in the sandbox, as a repository that shares the worktree's objects: commands
// there see an ordinary checkout, and leave no trace in the worktree or its refs.
const checkOutScript = `set -e
base="${XDG_CACHE_HOME:-$HOME/.cache}/parawork"
mkdir -p "$base" 2>/dev/null || base="${TMPDIR:-/tmp}"
dir="$base/merged-$1"
rm -rf -- "$dir"
[ "$2" = drop ] && exit 0
git init -q --template= --object-format="$(git rev-parse --show-object-format)" "$dir"
common="$(git rev-parse --path-format=absolute --git-common-dir)"
mkdir -p "$dir/.git/objects/info"
printf '%s/objects\n' "$common" > "$dir/.git/objects/info/alternates"
if [ -f "$common/shallow" ]; then cp "$common/shallow" "$dir/.git/shallow"; fi
git -C "$dir" -c core.hooksPath=/dev/null -c core.fsmonitor=false -c advice.detachedHead=false checkout -q -B "$3" "$2" --
printf '%s' "$dir"`

// CheckOut checks a commit of the project out into a separate folder in the workspace's sandbox, on a branch with the given name, with the
// ignored files the project copies into each worktree. There is one such folder per workspace: it replaces the previous one. Errors:
// checkout_failed.
func (s *Service) CheckOut(ctx context.Context, workspaceID, commit, branch string) (string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", err
	}
	if !git.IsCommitID(commit) {
		return "", errors.New("ingest: CheckOut without a commit")
	}
	if target, err := s.repo.BranchTarget(ctx, p, branch); err != nil || !sandboxgit.PlainRef(git.HeadsPrefix+target) {
		branch = "merged"
	} else {
		branch = target
	}
	b, err := s.sandboxes.Open(ctx, w)
	if err != nil {
		return "", err
	}
	if err := s.sandboxes.Supply(ctx, p, w, b, []string{commit}); err != nil {
		return "", err
	}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", checkOutScript, "checkout", w.ID, commit, branch}})
	if err != nil {
		return "", err
	}
	dir := string(r.Stdout)
	if r.ExitCode != 0 || !path.IsAbs(dir) || strings.ContainsAny(dir, "\n\x00") {
		err := &git.CommandError{Sub: "checkout", Result: r}
		return "", fault.Wrap(err, fault.Conflict, "checkout_failed", "The merged result could not be checked out into a folder of the sandbox: %s", err.Words())
	}
	if err := b.CopyIgnoredTo(ctx, p.CopyIgnored, dir); err != nil {
		return "", err
	}
	return dir, nil
}

// DropCheckOut removes the folder of CheckOut. Without a sandbox it does nothing.
func (s *Service) DropCheckOut(ctx context.Context, workspaceID string) error {
	places, _, err := s.records.Connected()
	if err != nil || !places.Live(workspaceID) {
		return err
	}
	r, err := places.RunInSandbox(ctx, workspaceID, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", checkOutScript, "checkout", workspaceID, "drop", ""},
		TimeoutMs: s.cfg.SandboxTimeout.Milliseconds()})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("removing it ended with %d", r.ExitCode)
	}
	return err
}
