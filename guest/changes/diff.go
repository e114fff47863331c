package changes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Bounds of one diff.
const (
	maxDiff     = 16 << 20 // bytes of text
	maxContext  = 1_000_000
	diffTimeout = 20 * time.Second
	maxDiffs    = 2 // at once
)

// NoteMark starts a line of a diff that is Parawork's, not git's: why something is not shown.
const NoteMark = "Parawork: "

// Diff writes the unified diff of one path against the base, as git writes it: raw bytes, names quoted where they contain control
// characters. An untracked file appears as added. A line that starts with NoteMark replaces what is too large to compare or to
// show. A path that does not differ gives no text; one that exists nowhere is an error of kind NotFound.
func (p *Poller) Diff(ctx context.Context, req guest.DiffRequest, w io.Writer) error {
	if !commitID.MatchString(req.Base) {
		return fault.New(fault.Invalid, "invalid_base", "The base must be the full id of a commit.")
	}
	if err := checkPath(req.Path); err != nil {
		return err
	}
	if req.OldPath != "" {
		if err := checkPath(req.OldPath); err != nil {
			return err
		}
	}
	select {
	case p.diffs <- struct{}{}:
		defer func() { <-p.diffs }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s, err := p.prepared(ctx)
	if err != nil {
		return err
	}
	d := differ{
		s: s, base: req.Base, path: guest.DecodePath(req.Path), oldPath: guest.DecodePath(req.OldPath),
		context: min(max(req.Context, 0), maxContext), w: &cappedWriter{w: w, left: maxDiff},
	}
	return d.write(ctx)
}

// checkPath rejects a path that is not below the root, and git's own folder.
func checkPath(path string) error {
	if err := guest.CheckPath(path); err != nil {
		return err
	}
	for part := range strings.SplitSeq(guest.DecodePath(path), "/") {
		if strings.EqualFold(part, ".git") {
			return fault.New(fault.Forbidden, "git_directory", "Files of .git cannot be read or written here.")
		}
	}
	return nil
}

// prepared updates the shadow and releases the turn: a long diff must not delay a poll.
func (p *Poller) prepared(ctx context.Context) (*shadow, error) {
	done, err := p.turn.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.blocked.check(s.repo.root); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx, nil)
}

// differ writes one diff.
type differ struct {
	s             *shadow
	base          string
	path, oldPath string // raw
	context       int
	w             *cappedWriter

	now  fs.FileInfo // on the disk, nil when it does not exist
	then treeEntry   // in the base
}

// treeEntry is one path of a commit.
type treeEntry struct {
	mode, kind string // "100644", "blob"; "" when not there
	size       int64
}

func (d *differ) write(ctx context.Context) error {
	if err := d.find(ctx); err != nil {
		return err
	}
	isDir := d.now != nil && d.now.IsDir()
	switch {
	case isDir && (d.then.kind == "commit" || d.inIndexAsLink(ctx)) || d.now == nil && d.then.kind == "commit":
		return d.git(ctx, "", "--cached", "--ignore-submodules=none", d.base, "--", d.path)
	case isDir && d.then.kind == "":
		return d.nested()
	case isDir && d.then.kind == "tree", d.now == nil && d.then.kind == "tree":
		return fault.New(fault.Invalid, "is_a_folder", "The path is a folder. Ask for the difference of one file.")
	case d.now == nil && d.then.kind == "":
		return fault.New(fault.NotFound, "no_such_file", "There is no such file, neither now nor in the base.")
	case d.size() > bigFile || d.then.size > bigFile:
		return d.large()
	}
	return d.compare(ctx)
}

// find looks at the path on the disk and in the base.
func (d *differ) find(ctx context.Context) error {
	root, err := os.OpenRoot(d.s.repo.root)
	if err != nil {
		return fmt.Errorf("opening the worktree: %w", err)
	}
	defer root.Close()
	if d.now, err = root.Lstat(d.path); err != nil {
		d.now = nil
	}
	paths := []string{d.path}
	if d.oldPath != "" && d.oldPath != d.path {
		paths = append(paths, d.oldPath)
	}
	entries, err := d.s.tree(ctx, d.base, paths)
	if err != nil {
		return err
	}
	d.then = entries[d.path]
	if d.then.kind == "" && d.oldPath != "" {
		d.then = entries[d.oldPath]
	}
	return nil
}

// tree looks up paths in a commit.
func (s *shadow) tree(ctx context.Context, commit string, paths []string) (map[string]treeEntry, error) {
	out, err := s.run(ctx, nil, call{args: append([]string{"ls-tree", "-l", "-z", "--full-tree", commit, "--"}, paths...)})
	if err != nil {
		return nil, fault.Wrap(err, fault.Conflict, "base_missing", "The base commit cannot be read: %s", fault.Words(err, err.Error()))
	}
	entries := make(map[string]treeEntry)
	for rec := range bytes.SplitSeq(out, []byte{0}) {
		meta, path, ok := bytes.Cut(rec, []byte{'\t'})
		f := strings.Fields(string(meta))
		if !ok || len(f) != 4 {
			continue
		}
		size, _ := strconv.ParseInt(f[3], 10, 64) // "-" for what is no file
		entries[string(path)] = treeEntry{mode: f[0], kind: f[1], size: size}
	}
	return entries, nil
}

// inIndexAsLink reports whether the path was added as a submodule.
func (d *differ) inIndexAsLink(ctx context.Context) bool {
	out, err := d.s.run(ctx, nil, call{args: []string{"ls-files", "-s", "-z", "--", d.path}})
	return err == nil && bytes.HasPrefix(out, []byte(gitLink+" ")) && bytes.HasSuffix(out, []byte("\t"+d.path+"\x00"))
}

func (d *differ) size() int64 {
	if d.now == nil || !d.now.Mode().IsRegular() {
		return 0
	}
	return d.now.Size()
}

// mode is git's mode of what is on the disk, "" for what git does not track.
func (d *differ) mode() string {
	switch {
	case d.now == nil:
		return ""
	case d.now.Mode()&fs.ModeSymlink != 0:
		return "120000"
	case d.now.Mode().IsRegular() && d.now.Mode()&0o100 != 0:
		return "100755"
	case d.now.Mode().IsRegular():
		return "100644"
	}
	return ""
}

// nested writes the note about a repository inside the worktree, which is never entered; any other folder is an error.
func (d *differ) nested() error {
	if _, err := os.Lstat(filepath.Join(d.s.repo.root, d.path, ".git")); err != nil {
		return fault.New(fault.Invalid, "is_a_folder", "The path is a folder. Ask for the difference of one file.")
	}
	_, err := fmt.Fprintf(d.w, "diff --git %s %s\n%sa git repository of its own, which is not looked into.\n",
		quote("a/"+d.path), quote("b/"+d.path), NoteMark)
	return err
}

// large writes the header of a diff for files that are not compared.
func (d *differ) large() error {
	old := d.path
	if d.oldPath != "" {
		old = d.oldPath
	}
	a, b, mode := quote("a/"+old), quote("b/"+d.path), d.mode()
	var t strings.Builder
	fmt.Fprintf(&t, "diff --git %s %s\n", a, b)
	switch {
	case d.then.mode == "":
		fmt.Fprintf(&t, "new file mode %s\n", mode)
		a = "/dev/null"
	case mode == "":
		fmt.Fprintf(&t, "deleted file mode %s\n", d.then.mode)
		b = "/dev/null"
	case mode != d.then.mode:
		fmt.Fprintf(&t, "old mode %s\nnew mode %s\n", d.then.mode, mode)
	}
	fmt.Fprintf(&t, "Binary files %s and %s differ\n", a, b)
	fmt.Fprintf(&t, "%sthe file is too large to be compared line by line (%d bytes, at most %d).\n", NoteMark, max(d.size(), d.then.size), bigFile)
	_, err := io.WriteString(d.w, t.String())
	return err
}

// compare lets git compare the base with an index that contains only the requested paths, as they are on the disk: untracked,
// staged and conflicted files are then treated alike, and the size of the repository does not matter.
func (d *differ) compare(ctx context.Context) error {
	f, err := os.CreateTemp(d.s.dir, "diff-*.index")
	if err != nil {
		return fmt.Errorf("making a private index: %w", err)
	}
	index := f.Name()
	f.Close()
	// git requires either an index or no file at all.
	os.Remove(index)
	defer os.Remove(index)

	if mode := d.mode(); mode != "" {
		feed := fmt.Sprintf("%s %s 0\t%s\x00", mode, emptyID(d.base), d.path)
		if _, err := d.s.run(ctx, nil, call{args: []string{"update-index", "-z", "--index-info"},
			env: []string{"GIT_INDEX_FILE=" + index}, stdin: []byte(feed), locks: true}); err != nil {
			return err
		}
	}
	args := []string{"--ignore-submodules=all", d.base, "--", d.path}
	if d.then.kind == "tree" { // a file in place of a folder: the path also names the folder's files, which were not requested
		args = append([]string{"--no-renames", "--diff-filter=A"}, args...)
	}
	if d.oldPath != "" && d.oldPath != d.path {
		args = append(args, d.oldPath)
	}
	return d.git(ctx, index, args...)
}

// git runs `git diff` into w.
func (d *differ) git(ctx context.Context, index string, args ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d.w.full = func() { stop(errOutput) }
	c := call{stdout: d.w, timeout: diffTimeout, args: append([]string{"diff", "-M", "-p", "-U" + strconv.Itoa(d.context),
		"--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"}, args...)}
	if index != "" {
		c.env = []string{"GIT_INDEX_FILE=" + index}
	}
	_, err := d.s.run(ctx, nil, c)
	var note string
	switch {
	case d.w.over:
		note = fmt.Sprintf("the difference is longer than %d bytes; the rest is not shown.", maxDiff)
	case err == nil:
		return nil
	case errors.Is(err, errTimeout) && d.w.wrote:
		note = "comparing took too long; the rest is not shown."
	case errors.Is(err, errTimeout):
		return fault.Wrap(err, fault.Timeout, "diff_timeout", "Git did not compare the file in %v.", diffTimeout)
	default:
		return err
	}
	_, err = io.WriteString(d.w.w, "\n"+NoteMark+note+"\n")
	return err
}

// cappedWriter passes on at most left bytes and then calls full.
type cappedWriter struct {
	w     io.Writer
	left  int
	full  func()
	over  bool
	wrote bool
}

func (c *cappedWriter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, err := c.w.Write(p[:c.left])
		c.left -= n
		c.over, c.wrote = true, true
		if c.full != nil {
			c.full()
		}
		err = cmp.Or(err, errOutput)
		return n, err
	}
	n, err := c.w.Write(p)
	c.left -= n
	c.wrote = c.wrote || n > 0
	return n, err
}

// quote writes a name as git does with core.quotePath=false: in quotes with escapes when it holds control characters, quotes
// or backslashes.
func quote(name string) string {
	special := func(c byte) bool { return c < 0x20 || c == 0x7f || c == '"' || c == '\\' }
	plain := true
	for i := range len(name) {
		plain = plain && !special(name[i])
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		c := name[i]
		if !special(c) {
			b.WriteByte(c)
			continue
		}
		if j := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); j >= 0 {
			b.WriteByte('\\')
			b.WriteByte("abtnvfr\"\\"[j])
			continue
		}
		fmt.Fprintf(&b, `\%03o`, c)
	}
	b.WriteByte('"')
	return b.String()
}
