package sandboxgit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces/git"
)

// WithoutSecrets leaves secrets' files out of the temporary index when everything is committed, and else rejects chosen ones.
func (b *Sandbox) WithoutSecrets(ctx context.Context) error {
	index := func(args ...string) (string, error) { return b.IndexGit(ctx, nil, args...) }
	if !b.All {
		if err := NoSecret(b.Secrets, index); err != nil {
			return err
		}
		return b.stagedValue(ctx, index)
	}
	names, was, err := staged(b.Secrets, index)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return b.stagedValue(ctx, index)
	}
	var in strings.Builder
	for _, name := range names {
		if e := was[name]; e.Is() {
			fmt.Fprintf(&in, "%s %s\t%s\x00", e.Mode, e.OID, name)
		} else {
			fmt.Fprintf(&in, "0 %s\t%s\x00", strings.Repeat("0", len(b.Like)), name)
		}
	}
	_, err = b.IndexGit(ctx, []byte(in.String()), "update-index", "-z", "--index-info")
	if err != nil {
		return git.SandboxFault(err, "commit_failed", "Leaving out secrets' files")
	}
	return b.stagedValue(ctx, index)
}

// CommitTree makes a commit object and returns its id.
func (b *Sandbox) CommitTree(ctx context.Context, tree, parent, message string) (string, error) {
	out, err := b.Git(ctx, []byte(TidyMessage(message)), "commit-tree", "-p", parent, "-F", "-", tree)
	if err != nil {
		return "", git.SandboxFault(err, "commit_failed", "Making the commit")
	}
	if out = strings.TrimSpace(out); !git.IsCommitID(out) {
		return "", fmt.Errorf("sandbox: commit-tree answered %q", out)
	}
	return out, nil
}

// PutEntries puts entries into the temporary index.
func (b *Sandbox) PutEntries(ctx context.Context, set map[string]git.FileEntry) error {
	in := indexInfo(set)
	_, err := b.IndexGit(ctx, in, "update-index", "--add", "--remove", "--replace", "-z", "--index-info")
	return git.SandboxFault(err, "commit_failed", "Collecting the changes")
}

// Uncommitted lists the differences from HEAD in the worktree, untracked files included.
func (b *Sandbox) Uncommitted(ctx context.Context, untracked string) ([]string, error) {
	out, err := b.Git(ctx, nil, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files="+untracked, "--ignore-submodules=none")
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the worktree")
	}
	var paths []string
	for e := range strings.SplitSeq(out, "\x00") {
		if len(e) > 3 {
			paths = append(paths, e[3:])
		}
	}
	return paths, nil
}

// Bounds of one request.
const MaxPartBytes = 8 << 20 // of a file of which parts are staged

// RefuseBinary rejects files without lines.
func RefuseBinary(name string, e git.FileEntry) error {
	switch {
	case e.Link():
		return WholeOnly(name, "it is a symbolic link")
	case e.Module():
		return WholeOnly(name, "it is a submodule")
	case e.Size > MaxPartBytes:
		return WholeOnly(name, "it is larger than 8 MiB")
	}
	return nil
}

// TextOnly rejects staging a part of a binary file.
func TextOnly(name string, b []byte) error {
	if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 { // git's own test for binary files
		return WholeOnly(name, "it is a binary file")
	}
	return nil
}

// WholeOnly is the error that a file can only be chosen as a whole.
func WholeOnly(name, why string) error {
	return fault.New(fault.Conflict, "part_whole_only", "%q can only be taken as a whole: %s.", name, why).With("path", guest.EncodePath(name))
}

// PutBlob writes these bytes as a blob in the sandbox.
func (b *Sandbox) PutBlob(ctx context.Context, text []byte) (string, error) {
	out, err := b.gitStdin(ctx, text, "hash-object", "-w", "--no-filters", "--stdin")
	if err != nil {
		return "", git.SandboxFault(err, "stage_failed", "Writing a part of a file")
	}
	if out = strings.TrimSpace(out); out != git.GitName(out, text) {
		return "", fmt.Errorf("sandbox: hash-object answered %q", out)
	}
	return out, nil
}

// gitStdin is git for a call whose input may be empty.
func (b *Sandbox) gitStdin(ctx context.Context, stdin []byte, args ...string) (string, error) {
	if len(stdin) > 0 {
		return b.Git(ctx, stdin, args...)
	}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: append([]string{"sh", "-c", `exec "$@" </dev/null`, "sh"}, b.Argv(args...)...)})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", &git.CommandError{Sub: args[0], Result: r}
	}
	return string(r.Stdout), nil
}

// OwnIndex looks paths up in the agent's index, and remembers their state to detect changes. It rejects unresolved conflicts.
func (b *Sandbox) OwnIndex(ctx context.Context, paths []string) (map[string]git.FileEntry, string, error) {
	out := make(map[string]git.FileEntry)
	said := ""
	err := git.EachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		said += list
		if err != nil {
			return git.SandboxFault(err, "worktree_unreadable", "Reading the index")
		}
		return ParseIndex(list, out)
	})
	return out, said, err
}

// ParseIndex parses the output of ls-files -s -z.
func ParseIndex(list string, out map[string]git.FileEntry) error {
	for e := range strings.SplitSeq(list, "\x00") {
		if e == "" {
			continue
		}
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 || !git.IsCommitID(f[1]) {
			return fmt.Errorf("sandbox: ls-files answered %q", e)
		}
		if f[2] != "0" {
			return fault.New(fault.Conflict, "unresolved_conflicts", "The workspace has files with unresolved conflicts. Resolve them in the terminal first.")
		}
		out[name] = git.FileEntry{Mode: f[0], OID: f[1], Size: -1}
	}
	return nil
}

// OwnBlob reads a blob from the agent's git.
func (b *Sandbox) OwnBlob(ctx context.Context, name string, e git.FileEntry) ([]byte, error) {
	if !e.Is() {
		return nil, nil
	}
	if err := RefuseBinary(name, e); err != nil {
		return nil, err
	}
	r, err := b.Run(ctx, executors.SandboxCommand{Argv: b.Argv("cat-file", "blob", e.OID), MaxOutput: MaxPartBytes + 1})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 {
		return nil, git.SandboxFault(&git.CommandError{Sub: "cat-file", Result: r}, "worktree_unreadable", "Reading a file of the index")
	}
	if len(r.Stdout) > MaxPartBytes {
		return nil, WholeOnly(name, "it is larger than 8 MiB")
	}
	if git.GitName(e.OID, r.Stdout) != e.OID {
		return nil, fmt.Errorf("sandbox: cat-file answered other bytes than %s", e.OID)
	}
	return r.Stdout, TextOnly(name, r.Stdout)
}

// indexScript changes the agent's index unless it has changed since it was read. It holds git's own lock, so that no git of the agent's
// interferes. $1 is the git dir, $2 the hash of the state that was read, $3 a name for a copy; the paths follow. The changes come by stdin.
// Exit codes: 75 = the lock is held, 76 = it has changed.
const indexScript = `d=$1; want=$2; copy=$3; shift 3
(set -C; : > "$d/index.lock") 2>/dev/null || exit 75
trap 'rm -f "$d/index.lock" "$copy" "$copy.lock"' EXIT
trap 'exit 70' HUP INT TERM
if [ -e "$d/index" ]; then cp "$d/index" "$copy" || exit 74; fi
export GIT_INDEX_FILE="$copy"
said=$(git ls-files -s -z -- "$@" | git hash-object --stdin) || exit 74
[ "$said" = "$want" ] || exit 76
git update-index --add --remove --replace -z --index-info || exit 74
mv -f "$copy" "$d/index"`

// ErrIndexMoved means that the agent's index changed meanwhile.
var ErrIndexMoved = errors.New("the index changed meanwhile")

// SetIndex writes these entries to the agent's index, the zero one for none. said is the state OwnIndex read: if it differs by now, the
// error is ErrIndexMoved.
func (b *Sandbox) SetIndex(ctx context.Context, paths []string, said string, entries map[string]git.FileEntry, tries int) error {
	if len(entries) == 0 {
		return nil
	}
	return b.SetIndexTo(ctx, paths, said, indexInfo(entries), tries)
}

// SetIndexTo is SetIndex with input for update-index: in may have stages of a conflict.
func (b *Sandbox) SetIndexTo(ctx context.Context, paths []string, said string, in []byte, tries int) error {
	size := 0
	for _, p := range paths {
		size += len(p) + 1
	}
	if size > git.MaxArgs {
		return fault.New(fault.TooLarge, "too_many_parts", "Too many files at once: take fewer.")
	}
	argv := append([]string{"sh", "-c", indexScript, "sh", b.GitDir, git.GitName(b.Like, []byte(said)), path.Join(b.GitDir, id.New("parawork")+".index")}, paths...)
	env := map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false"}
	for try := 0; ; try++ {
		r, err := b.Run(ctx, executors.SandboxCommand{Argv: argv, Env: env, Stdin: in})
		switch {
		case err != nil:
			return err
		case r.ExitCode == 0:
			return nil
		case r.ExitCode == 76:
			return ErrIndexMoved
		case r.ExitCode != 75:
			return git.SandboxFault(&git.CommandError{Sub: "update-index", Result: r}, "stage_failed", "Changing the index")
		case try+1 >= tries:
			return fault.New(fault.Conflict, "index_locked", "Another git command has held the workspace's index for a while. Try again in a moment; when none runs, remove %s in the terminal.", path.Join(b.GitDir, "index.lock"))
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
