package workspaces

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
)

// FilesNow is what the files of a workspace are.
type FilesNow struct {
	Tree  string // of all files, untracked ones included, as git names it; "" = that could not be seen
	Head  string // the commit the branch is at
	Clean bool   // nothing differs from Head: its files are what was seen
}

// FilesNow says what the workspace's files are, making its sandbox if need be. Two answers with the same tree are of the same files.
func (s *Service) FilesNow(ctx context.Context, workspaceID string) (FilesNow, error) {
	commit, tree, err := s.BranchNow(ctx, workspaceID)
	if err != nil {
		return FilesNow{}, err
	}
	sn, err := s.Keep(ctx, workspaceID, KeepFor{Kind: SnapPoll})
	if err != nil {
		return FilesNow{}, err
	}
	now := FilesNow{Tree: sn.Tree, Head: commit}
	if slices.ContainsFunc(sn.Missing, func(m Missing) bool { return m.Path == "" }) {
		now.Tree = "" // what they are could not be seen
		return now, nil
	}
	if now.Clean = now.Tree == tree; now.Clean {
		return now, nil
	}
	// Files that a filter of the repository keeps otherwise than they are on disk are not what the commit's tree names.
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return now, err
	}
	b, err := s.openBox(ctx, w)
	if err != nil {
		return now, err
	}
	head, _, err := b.head(ctx)
	if err != nil || head != commit {
		return now, err
	}
	paths, err := b.uncommitted(ctx, "normal")
	now.Clean = err == nil && len(paths) == 0
	return now, err
}

// BranchNow says where the workspace's branch is, once what its sandbox committed is home: the commit and its tree.
func (s *Service) BranchNow(ctx context.Context, workspaceID string) (commit, tree string, err error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", "", err
	}
	if err := s.ComeHome(ctx, p, w); err != nil {
		return "", "", err
	}
	if commit, err = s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch); err != nil {
		return "", "", err
	}
	if commit == "" {
		return "", "", fault.New(fault.Conflict, "branch_missing", "The branch %s no longer exists.", w.Branch)
	}
	tree, err = s.TreeOf(ctx, p, commit)
	return commit, tree, err
}

// TreeOf is the tree of a commit, or of a tree itself.
func (s *Service) TreeOf(ctx context.Context, p Project, object string) (string, error) {
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", "--verify", "--quiet", object + "^{tree}"}})
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a commit")
	}
	if !IsCommitID(tree) {
		err = fmt.Errorf("rev-parse answered %.100q", tree)
	}
	return tree, err
}

// CheckEnv is what a check is told of the workspace it runs for.
func (s *Service) CheckEnv(ctx context.Context, workspaceID string) (map[string]string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return nil, err
	}
	env := setupEnv(p, w)
	env["CI"] = "true" // tools that would wait for somebody, or watch files, do not
	return env, nil
}

// checkOutScript puts a commit into a folder of its own in the sandbox, as a repository that borrows the worktree's objects: what runs
// there sees a checkout like any other, and leaves no trace in the worktree or its refs.
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

// CheckOut puts a commit of the project into a folder of its own in the workspace's sandbox, on a branch named as given, with the ignored
// files the project copies into each worktree. One folder a workspace: the one before is removed. Errors: checkout_failed.
func (s *Service) CheckOut(ctx context.Context, workspaceID, commit, branch string) (string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return "", err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return "", err
	}
	if !IsCommitID(commit) {
		return "", errors.New("workspaces: CheckOut of no commit")
	}
	if target, err := s.BranchTarget(ctx, p, branch); err != nil || !plainRef(HeadsPrefix+target) {
		branch = "merged"
	} else {
		branch = target
	}
	b, err := s.openBox(ctx, w)
	if err != nil {
		return "", err
	}
	if err := s.supply(ctx, p, w, b, []string{commit}); err != nil {
		return "", err
	}
	r, err := b.run(ctx, executors.BoxCommand{Argv: []string{"/bin/sh", "-c", checkOutScript, "checkout", w.ID, commit, branch}})
	if err != nil {
		return "", err
	}
	dir := string(r.Stdout)
	if r.ExitCode != 0 || !path.IsAbs(dir) || strings.ContainsAny(dir, "\n\x00") {
		err := &boxError{sub: "checkout", result: r}
		return "", fault.Wrap(err, fault.Conflict, "checkout_failed", "The merged result could not be put into a folder of the sandbox: %s", err.words())
	}
	if err := b.copyIgnoredTo(ctx, p.CopyIgnored, dir); err != nil {
		return "", err
	}
	return dir, nil
}

// DropCheckOut removes what CheckOut made. Without a sandbox there is nothing to do.
func (s *Service) DropCheckOut(ctx context.Context, workspaceID string) error {
	places, _, err := s.Rooms()
	if err != nil || !places.Live(workspaceID) {
		return err
	}
	r, err := places.RunInBox(ctx, workspaceID, executors.BoxCommand{Argv: []string{"/bin/sh", "-c", checkOutScript, "checkout", workspaceID, "drop", ""},
		TimeoutMs: s.cfg.BoxTimeout.Milliseconds()})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("removing it ended with %d", r.ExitCode)
	}
	return err
}

// copyScript copies the files named on its standard input, one after a NUL each, from the worktree to the folder $1.
const copyScript = `exec xargs -0 sh -c 'to=$1; shift; for f; do mkdir -p -- "$to/$(dirname -- "$f")" && cp -p -- "$f" "$to/$f" || exit 255; done' copy "$1"`

// copyIgnoredTo copies the ignored files that patterns want from the worktree to a folder of the same sandbox.
func (b *Sandbox) copyIgnoredTo(ctx context.Context, patterns []string, dir string) error {
	if len(patterns) == 0 {
		return nil
	}
	names, err := b.ignoredNames(ctx, patterns)
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > ignored.MaxFiles {
		return copyFault(ignored.ErrTooLarge)
	}
	r, err := b.run(ctx, executors.BoxCommand{Argv: []string{"/bin/sh", "-c", copyScript, "copy", dir}, Stdin: []byte(strings.Join(names, "\x00") + "\x00")})
	if err == nil && r.ExitCode != 0 {
		return fault.New(fault.Conflict, "copy_failed", "The ignored files of the project could not be copied to the merged result: %s", (&boxError{sub: "copy", result: r}).words())
	}
	return err
}

// ignoredNames names the ignored files of the sandbox's worktree that patterns want.
func (b *Sandbox) ignoredNames(ctx context.Context, patterns []string) ([]string, error) {
	out, err := b.Git(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Looking for ignored files")
	}
	var names []string
	for line := range strings.SplitSeq(out, "\x00") {
		folder, isFolder := strings.CutSuffix(line, "/")
		switch {
		case line == "":
		case !isFolder && ignored.Wants(patterns, line):
			names = append(names, line)
		case isFolder && ignored.Reaches(patterns, folder):
			r, err := b.run(ctx, executors.BoxCommand{Argv: []string{"find", "./" + folder, "-name", ".git", "-prune", "-o", "-type", "f", "-print0"}})
			if err != nil {
				return nil, err
			}
			for f := range strings.SplitSeq(string(r.Stdout), "\x00") {
				if f = strings.TrimPrefix(f, "./"); f != "" && ignored.Wants(patterns, f) {
					names = append(names, f)
				}
			}
		}
	}
	return names, nil
}
