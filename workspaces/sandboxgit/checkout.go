package sandboxgit

import (
	"context"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces/git"
)

// copyScript copies the NUL-terminated files of its standard input from the worktree to the folder $1.
const copyScript = `exec xargs -0 sh -c 'to=$1; shift; for f; do mkdir -p -- "$to/$(dirname -- "$f")" && cp -p -- "$f" "$to/$f" || exit 255; done' copy "$1"`

// CopyIgnoredTo copies the ignored files that match patterns from the worktree to a folder of the same sandbox.
func (b *Sandbox) CopyIgnoredTo(ctx context.Context, patterns []string, dir string) error {
	if len(patterns) == 0 {
		return nil
	}
	names, err := b.IgnoredNames(ctx, patterns)
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > ignored.MaxFiles {
		return git.CopyFault(ignored.ErrTooLarge)
	}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: []string{"/bin/sh", "-c", copyScript, "copy", dir}, Stdin: []byte(strings.Join(names, "\x00") + "\x00")})
	if err == nil && r.ExitCode != 0 {
		return fault.New(fault.Conflict, "copy_failed", "The ignored files of the project could not be copied to the merged result: %s", (&git.CommandError{Sub: "copy", Result: r}).Words())
	}
	return err
}

// IgnoredNames lists the ignored files of the sandbox's worktree that match patterns.
func (b *Sandbox) IgnoredNames(ctx context.Context, patterns []string) ([]string, error) {
	out, err := b.Git(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Looking for ignored files")
	}
	var names []string
	for line := range strings.SplitSeq(out, "\x00") {
		folder, isFolder := strings.CutSuffix(line, "/")
		switch {
		case line == "":
		case !isFolder && ignored.Wants(patterns, line):
			names = append(names, line)
		case isFolder && ignored.Reaches(patterns, folder):
			r, err := b.Run(ctx, executors.SandboxCommand{Argv: []string{"find", "./" + folder, "-name", ".git", "-prune", "-o", "-type", "f", "-print0"}})
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
