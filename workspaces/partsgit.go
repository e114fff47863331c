package workspaces

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
)

// fileEntry is a file as a tree or an index has it; the zero one is none.
type fileEntry struct {
	mode, oid string
	size      int64 // -1 = not known
}

func (e fileEntry) is() bool     { return e.oid != "" }
func (e fileEntry) plain() bool  { return e.mode == "100644" || e.mode == "100755" }
func (e fileEntry) link() bool   { return e.mode == "120000" }
func (e fileEntry) module() bool { return e.mode == "160000" }

// perm are the rights a file is written with.
func (e fileEntry) perm() uint32 {
	if e.mode == "100755" {
		return 0o755
	}
	return 0o644
}

// maxArgs bounds the paths of one command line, in bytes.
const maxArgs = 512 << 10

// eachBatch hands paths over in portions a command line can hold.
func eachBatch(paths []string, fn func([]string) error) error {
	for len(paths) > 0 {
		n, size := 0, 0
		for n < len(paths) && (n == 0 || size+len(paths[n]) < maxArgs) {
			size += len(paths[n]) + 1
			n++
		}
		if err := fn(paths[:n]); err != nil {
			return err
		}
		paths = paths[n:]
	}
	return nil
}

// treeFiles looks paths up in a tree of the repository. What is a folder there is refused.
func (s *Service) treeFiles(ctx context.Context, p Project, tree string, paths []string) (map[string]fileEntry, error) {
	out := make(map[string]fileEntry, len(paths))
	err := eachBatch(paths, func(some []string) error {
		list, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"ls-tree", "-z", "-l", "--full-tree", tree, "--"}, some...),
			Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the files of "+tree)
		}
		return parseTree(string(list), out)
	})
	for name, e := range out {
		if e.mode == "040000" {
			return nil, fault.New(fault.Invalid, "is_a_folder", "%q is a folder. Choose its files.", name)
		}
	}
	return out, err
}

// parseTree reads what ls-tree -z -l printed.
func parseTree(list string, out map[string]fileEntry) error {
	for e := range strings.SplitSeq(list, "\x00") {
		if e == "" {
			continue
		}
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 || !IsCommitID(f[2]) {
			return fmt.Errorf("ls-tree answered %q", e)
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			size = -1
		}
		out[name] = fileEntry{mode: f[0], oid: f[2], size: size}
	}
	return nil
}

// blobText reads a file of the repository that is taken apart; none is an empty one.
func (s *Service) blobText(ctx context.Context, p Project, name string, e fileEntry) ([]byte, error) {
	if !e.is() {
		return nil, nil
	}
	if err := apart(name, e); err != nil {
		return nil, err
	}
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"cat-file", "blob", e.oid}, Max: maxPartBytes + 1})
	if errors.Is(err, hostgit.ErrTooMuch) {
		return nil, wholeOnly(name, "it is larger than 8 MiB")
	}
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a file of the repository")
	}
	return out, textOnly(name, out)
}

// apart refuses what has no lines.
func apart(name string, e fileEntry) error {
	switch {
	case e.link():
		return wholeOnly(name, "it is a symbolic link")
	case e.module():
		return wholeOnly(name, "it is a submodule")
	case e.size > maxPartBytes:
		return wholeOnly(name, "it is larger than 8 MiB")
	}
	return nil
}

func textOnly(name string, b []byte) error {
	if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 { // as git tells binary files
		return wholeOnly(name, "it is a binary file")
	}
	return nil
}

func wholeOnly(name, why string) error {
	return fault.New(fault.Conflict, "part_whole_only", "%q can only be taken as a whole: %s.", name, why).With("path", guest.EncodePath(name))
}

// blobHash makes git's name of a content of this size, in the form of another name of the repository.
func blobHash(like string, size int64) hash.Hash {
	var h hash.Hash
	if len(like) == 64 {
		h = sha256.New()
	} else {
		h = sha1.New() // #nosec G401: git's name for it
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

func gitName(like string, b []byte) string {
	h := blobHash(like, int64(len(b)))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// presentFile is what is at a path of a worktree now.
type presentFile struct {
	fileEntry
	hash string // sha256
	text []byte // where it was asked for
	what string // file, symlink, dir, other; "" = nothing
}

// present reads what is at a path. With text, the bytes of a file up to maxPartBytes come along.
func (s *Service) present(ctx context.Context, files Files, w Workspace, name, like string, text bool) (presentFile, error) {
	wire := guest.EncodePath(name)
	info, err := files.Stat(ctx, w.ID, wire)
	if fault.Is(err, fault.NotFound) || fault.CodeOf(err) == "not_a_directory" {
		return presentFile{}, nil
	}
	if err != nil {
		return presentFile{}, err
	}
	out := presentFile{what: info.Type}
	switch info.Type {
	case "symlink":
		to := []byte(guest.DecodePath(info.Link))
		out.fileEntry = fileEntry{"120000", gitName(like, to), int64(len(to))}
		return out, nil
	case "file":
	default:
		return out, nil
	}
	r, info, err := files.Read(ctx, w.ID, wire)
	if fault.Is(err, fault.NotFound) {
		return presentFile{}, nil
	}
	if err != nil {
		return presentFile{}, err
	}
	defer r.Close()
	out.mode, out.size, out.hash = "100644", info.Size, info.Hash
	if info.Mode&0o100 != 0 {
		out.mode = "100755"
	}
	h := blobHash(like, info.Size)
	var keep bytes.Buffer
	if text && info.Size > maxPartBytes {
		return out, wholeOnly(name, "it is larger than 8 MiB")
	}
	var to io.Writer = h
	if text {
		to = io.MultiWriter(h, &keep)
	}
	if _, err := io.Copy(to, r); err != nil {
		return out, fmt.Errorf("reading %q: %w", name, err)
	}
	out.oid, out.text = hex.EncodeToString(h.Sum(nil)), keep.Bytes()
	return out, nil
}

// filtered says which files git changes between the worktree and the repository: line ends, large files kept elsewhere, encryption.
func (b *Sandbox) filtered(ctx context.Context, paths []string) (map[string]bool, error) {
	out := make(map[string]bool)
	all := false
	for key, changes := range map[string]string{"core.autocrlf": "true input", "core.eol": "crlf"} {
		v, err := b.Git(ctx, nil, "config", "--get", key)
		if err != nil && boxCode(err) != 1 {
			return nil, SandboxFault(err, "worktree_unreadable", "Reading the config")
		}
		if v = strings.ToLower(strings.TrimSpace(v)); v != "" && strings.Contains(changes, v) {
			all = true
		}
	}
	list, err := b.Git(ctx, []byte(strings.Join(paths, "\x00")+"\x00"), "check-attr", "-z", "--stdin", "filter", "eol", "crlf", "text", "ident", "working-tree-encoding")
	if err != nil {
		return nil, SandboxFault(err, "worktree_unreadable", "Reading the attributes of files")
	}
	f := strings.Split(list, "\x00")
	for i := 0; i+2 < len(f); i += 3 {
		name, attr, v := f[i], f[i+1], f[i+2]
		if v == "unspecified" || v == "unset" || attr == "eol" && v == "lf" || (attr == "text" || attr == "crlf") && v != "set" && v != "auto" {
			continue
		}
		if (attr == "text" || attr == "crlf") && !all {
			continue // line feeds stay line feeds
		}
		out[name] = true
	}
	for _, p := range paths {
		if all {
			out[p] = true
		}
	}
	return out, nil
}

// putBlob makes a blob of these bytes as they are, where the agent works.
func (b *Sandbox) putBlob(ctx context.Context, text []byte) (string, error) {
	out, err := b.gitStdin(ctx, text, "hash-object", "-w", "--no-filters", "--stdin")
	if err != nil {
		return "", SandboxFault(err, "stage_failed", "Writing a part of a file")
	}
	if out = strings.TrimSpace(out); out != gitName(out, text) {
		return "", fmt.Errorf("box: hash-object answered %q", out)
	}
	return out, nil
}

// gitStdin is git for a call that reads its input even when that is empty.
func (b *Sandbox) gitStdin(ctx context.Context, stdin []byte, args ...string) (string, error) {
	if len(stdin) > 0 {
		return b.Git(ctx, stdin, args...)
	}
	r, err := b.run(ctx, executors.BoxCommand{Argv: append([]string{"sh", "-c", `exec "$@" </dev/null`, "sh"}, b.argv(args...)...)})
	if err != nil {
		return "", err
	}
	if r.ExitCode != 0 {
		return "", &boxError{sub: args[0], result: r}
	}
	return string(r.Stdout), nil
}

// ownIndex looks paths up in the agent's index, and remembers what it said to tell when it changes. Unresolved conflicts are refused.
func (b *Sandbox) ownIndex(ctx context.Context, paths []string) (map[string]fileEntry, string, error) {
	out := make(map[string]fileEntry)
	said := ""
	err := eachBatch(paths, func(some []string) error {
		list, err := b.Git(ctx, nil, append([]string{"ls-files", "-s", "-z", "--"}, some...)...)
		said += list
		if err != nil {
			return SandboxFault(err, "worktree_unreadable", "Reading the index")
		}
		return parseIndex(list, out)
	})
	return out, said, err
}

// parseIndex reads what ls-files -s -z printed.
func parseIndex(list string, out map[string]fileEntry) error {
	for e := range strings.SplitSeq(list, "\x00") {
		if e == "" {
			continue
		}
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 || !IsCommitID(f[1]) {
			return fmt.Errorf("box: ls-files answered %q", e)
		}
		if f[2] != "0" {
			return fault.New(fault.Conflict, "unresolved_conflicts", "The workspace has files with unresolved conflicts. Resolve them in the terminal first.")
		}
		out[name] = fileEntry{mode: f[0], oid: f[1], size: -1}
	}
	return nil
}

// ownBlob reads a content the agent's git has.
func (b *Sandbox) ownBlob(ctx context.Context, name string, e fileEntry) ([]byte, error) {
	if !e.is() {
		return nil, nil
	}
	if err := apart(name, e); err != nil {
		return nil, err
	}
	r, err := b.run(ctx, executors.BoxCommand{Argv: b.argv("cat-file", "blob", e.oid), MaxOutput: maxPartBytes + 1})
	if err != nil {
		return nil, err
	}
	if r.ExitCode != 0 {
		return nil, SandboxFault(&boxError{sub: "cat-file", result: r}, "worktree_unreadable", "Reading a file of the index")
	}
	if len(r.Stdout) > maxPartBytes {
		return nil, wholeOnly(name, "it is larger than 8 MiB")
	}
	if gitName(e.oid, r.Stdout) != e.oid {
		return nil, fmt.Errorf("box: cat-file answered other bytes than %s", e.oid)
	}
	return r.Stdout, textOnly(name, r.Stdout)
}

// indexScript changes the agent's index if it still says what it said: under git's own lock, so that no git of the agent's comes between.
// $1 is the git dir, $2 the name of what was said, $3 a name for a copy; the paths follow. The changes come by stdin. 75 = the lock is held,
// 76 = it says something else.
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

// errIndexMoved says that the agent's index changed meanwhile.
var errIndexMoved = errors.New("the index changed meanwhile")

// setIndex makes the agent's index have these entries, the zero one for none. said is what ownIndex remembered of paths: when it says
// something else by now, the error is errIndexMoved.
func (b *Sandbox) setIndex(ctx context.Context, paths []string, said string, entries map[string]fileEntry, tries int) error {
	if len(entries) == 0 {
		return nil
	}
	return b.setIndexTo(ctx, paths, said, indexInfo(entries), tries)
}

// setIndexTo is setIndex for what update-index reads: in may have stages of a conflict.
func (b *Sandbox) setIndexTo(ctx context.Context, paths []string, said string, in []byte, tries int) error {
	size := 0
	for _, p := range paths {
		size += len(p) + 1
	}
	if size > maxArgs {
		return fault.New(fault.TooLarge, "too_many_parts", "Too many files at once: take fewer.")
	}
	argv := append([]string{"sh", "-c", indexScript, "sh", b.gitDir, gitName(b.like, []byte(said)), path.Join(b.gitDir, id.New("parawork")+".index")}, paths...)
	env := map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false"}
	for try := 0; ; try++ {
		r, err := b.run(ctx, executors.BoxCommand{Argv: argv, Env: env, Stdin: in})
		switch {
		case err != nil:
			return err
		case r.ExitCode == 0:
			return nil
		case r.ExitCode == 76:
			return errIndexMoved
		case r.ExitCode != 75:
			return SandboxFault(&boxError{sub: "update-index", result: r}, "stage_failed", "Changing the index")
		case try+1 >= tries:
			return fault.New(fault.Conflict, "index_locked", "Another git command has held the workspace's index for a while. Try again in a moment; when none runs, remove %s in the terminal.", path.Join(b.gitDir, "index.lock"))
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
