package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// edit is one path in which a snapshot differs from the tree it starts from.
type edit struct {
	path string
	entry
	data []byte // of an object that is not in the repository yet; entry.oid is its id
	gone bool
}

// miss records a file that is left out.
func (t *Job) miss(path, why string, size int64) {
	t.Missing = append(t.Missing, workspaces.Missing{Path: guest.EncodePath(path), Reason: why, Size: size})
}

// read reads each path and records its change to the tree. It reads the files below root, without any program that git would run.
func (t *Job) read(ctx context.Context, root *os.Root, paths []string, had, clean map[string]entry) ([]edit, error) {
	out := edits{t: t}
	for _, name := range paths {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		was, known := had[name]
		if e, ok := clean[name]; ok { // as in the commit
			switch {
			case e.mode == "000000" || e.mode == "":
				if known {
					out.list = append(out.list, edit{path: name, gone: true})
				}
			case e != was:
				out.list = append(out.list, edit{path: name, entry: e})
			}
			continue
		}
		e, ok, err := t.readFile(ctx, root, name, was)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok && known && was.mode != "160000" && was.mode != "040000":
			out.list = append(out.list, edit{path: name, gone: true})
		case ok && e.entry != was:
			if err := out.add(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	return out.list, nil
}

// heldMost is how many bytes of small files are in memory at once: a worktree may have any number of them.
const heldMost = 32 << 20

// edits are files that were read: small ones are in memory, up to heldMost.
type edits struct {
	t            *Job
	list         []edit
	held, stored int // bytes in memory, and how many of list are in the repository
}

// add adds a file, and writes what is in memory to the repository when it is too much.
func (l *edits) add(ctx context.Context, e edit) error {
	l.list = append(l.list, e)
	if l.held += len(e.data); l.held <= heldMost {
		return nil
	}
	if err := l.t.storeSmall(ctx, l.list[l.stored:]); err != nil {
		return err
	}
	l.held, l.stored = 0, len(l.list)
	return nil
}

// storeSmall writes the edits' content in memory to the repository.
func (t *Job) storeSmall(ctx context.Context, edits []edit) error {
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() { // ends when the pipe is read to its end or closed below
		defer close(done)
		b := bufio.NewWriterSize(pw, 256<<10)
		for _, e := range edits {
			if e.data != nil {
				fmt.Fprintf(b, "blob\ndata %d\n", len(e.data))
				b.Write(e.data)
				b.WriteByte('\n')
			}
		}
		b.WriteString("done\n")
		pw.CloseWithError(b.Flush())
	}()
	_, err := t.Scratch.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done"}, Stdin: pr, Timeout: t.s.cfg.StepTimeout})
	pr.CloseWithError(io.ErrClosedPipe)
	<-done
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the snapshot")
	}
	for i := range edits {
		edits[i].data = nil
	}
	return nil
}

// readFile reads one file or link. ok is false when there is none that can be stored; one that is too large stays as it was.
func (t *Job) readFile(ctx context.Context, root *os.Root, name string, was entry) (e edit, ok bool, err error) {
	e = edit{path: name}
	if !ignored.PlainParents(root, name) {
		return e, false, nil
	}
	fi, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return e, false, nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL):
		t.miss(name, "It could not be read.", 0)
		return e, false, nil
	case err != nil:
		return e, false, fmt.Errorf("reading %q: %w", name, err)
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := root.Readlink(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) {
			return e, false, nil // it was another type a moment ago
		}
		if err != nil {
			return e, false, fmt.Errorf("reading the link %q: %w", name, err)
		}
		e.mode, e.data = "120000", []byte(to)
		t.Secrets.Values.Mask(e.data, t.Secrets.Hides)
		e.oid = sandboxgit.BlobName(t.Head, e.data)
		return e, true, nil
	case fi.IsDir():
		if _, err := root.Lstat(name + "/.git"); err == nil && was.mode != "160000" {
			t.miss(name, "It is a nested repository.", 0)
		}
		return e, false, nil
	case !fi.Mode().IsRegular():
		return e, false, nil // a FIFO, socket or device: it has no content
	}
	keepWas := func(why string) (edit, bool, error) {
		t.miss(name, why, fi.Size())
		return edit{path: name, entry: was}, was.mode != "", nil
	}
	if secretfiles.Has(t.Secrets, name, "") {
		return keepWas(sandboxgit.SecretMissing)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return e, false, nil
	case errors.Is(err, fs.ErrPermission):
		return keepWas("It could not be read.")
	case err != nil:
		return e, false, fmt.Errorf("reading %q: %w", name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return e, false, err
	}
	switch {
	case git.Foreign(fi, t.s.sandboxes.Owner(t.w.ID)):
		return keepWas(sandboxgit.ForeignMissing)
	case fi.Size() > t.limit:
		return keepWas(fmt.Sprintf("It is larger than %d MB.", t.limit>>20))
	case fi.Size() > t.total:
		return keepWas("The snapshot would be too large with it.")
	}
	t.total -= fi.Size()
	e.mode = "100644"
	if fi.Mode()&0o100 != 0 {
		e.mode = "100755"
	}
	if fi.Size() > sandboxgit.SmallFile {
		var from io.Reader = f // unchanged, if nothing is searched for: git reads it itself
		masked := secretfiles.Reader(t.Secrets, f)
		if t.Secrets.Values != nil {
			from = masked
		}
		e.oid, err = t.storeLarge(ctx, from)
		if masked.Found() {
			t.miss(name, sandboxgit.ValueMissing, fi.Size())
		}
		if err != nil {
			if ctx.Err() != nil || git.DiskIsFull(err) {
				return e, false, err
			}
			return keepWas("It was written to while it was read.")
		}
		return e, true, nil
	}
	// Read one byte more than its size, to stop at a file that is constantly appended to.
	if e.data, err = io.ReadAll(io.LimitReader(f, sandboxgit.SmallFile+1)); err != nil {
		return keepWas("It could not be read.")
	}
	e.oid = sandboxgit.BlobName(t.Head, e.data)
	if secretfiles.Has(t.Secrets, "", e.oid) {
		return keepWas(sandboxgit.SecretMissing)
	}
	if t.Secrets.Values.Mask(e.data, t.Secrets.Hides) {
		t.miss(name, sandboxgit.ValueMissing, fi.Size())
		e.oid = sandboxgit.BlobName(t.Head, e.data)
		return e, true, nil
	}
	// On the host, git reports other line ends as a change even where the worktree's own settings made them; the sandbox's git does not.
	if t.byHost && !t.reported[name] && e.oid != was.oid && bytes.Contains(e.data, []byte("\r\n")) && sandboxgit.BlobName(t.Head, bytes.ReplaceAll(e.data, []byte("\r\n"), []byte("\n"))) == was.oid {
		e.oid, e.data = was.oid, nil // checked out with other line ends
	}
	return e, true, nil
}

// BadName reports whether git cannot store a name: a part of it is git's own folder, in any spelling.
func BadName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// storeLarge writes a file to the repository without holding it in memory.
func (t *Job) storeLarge(ctx context.Context, f io.Reader) (string, error) {
	b, err := t.Scratch.Run(ctx, hostgit.Call{Args: []string{"hash-object", "-w", "--no-filters", "--stdin"}, Stdin: f, Timeout: t.s.cfg.StepTimeout})
	oid := strings.TrimSpace(string(b))
	if err == nil && !git.IsCommitID(oid) {
		err = fmt.Errorf("hash-object answered %.100q", oid)
	}
	return oid, err
}

// BlobNames are git's object ids of a content, in SHA-1 and in SHA-256.
func BlobNames(data []byte) (sha1Name, sha256Name string) {
	return sandboxgit.BlobName(strings.Repeat("0", 40), data), sandboxgit.BlobName(strings.Repeat("0", 64), data)
}

// writeEdits writes changed files, not removed ones, as fast-import commands.
func writeEdits(b *bufio.Writer, edits []edit) {
	for _, e := range edits {
		switch {
		case e.gone:
		case e.data == nil:
			fmt.Fprintf(b, "M %s %s %s\n", e.mode, e.oid, sandboxgit.QuotePath(e.path))
		default:
			fmt.Fprintf(b, "M %s inline %s\ndata %d\n", e.mode, sandboxgit.QuotePath(e.path), len(e.data))
			b.Write(e.data)
			b.WriteByte('\n')
		}
	}
}

// write makes the snapshot's commit: the tree it starts from, changed by the edits, with the previous snapshot and the head as parents.
func (t *Job) write(ctx context.Context, sn *Snap, start, before, since string, edits []edit) error {
	message, err := noteOf(*sn, since)
	if err != nil {
		return err
	}
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() { // ends when the pipe is read to its end or closed below
		defer close(done)
		b := bufio.NewWriterSize(pw, 256<<10)
		fmt.Fprintf(b, "commit refs/heads/snapshot\nmark :1\ncommitter Parawork <parawork@localhost> %d +0000\ndata %d\n%s", sn.At/1000, len(message), message)
		if before != "" {
			fmt.Fprintf(b, "from %s\nmerge %s\n", before, t.Head)
		} else {
			fmt.Fprintf(b, "from %s\n", t.Head)
		}
		if sn.Ignored != "" {
			fmt.Fprintf(b, "merge %s\n", sn.Ignored)
		}
		fmt.Fprintf(b, "M 040000 %s \"\"\n", start)
		for _, e := range edits { // a removed name may make room for a folder, or vice versa
			if e.gone {
				fmt.Fprintf(b, "D %s\n", sandboxgit.QuotePath(e.path))
			}
		}
		writeEdits(b, edits)
		b.WriteString("\nget-mark :1\nls :1 \"\"\ndone\n")
		pw.CloseWithError(b.Flush())
	}()
	// Store names that other systems do not accept: they are only read here.
	out, err := t.Scratch.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: pr, Timeout: t.s.cfg.StepTimeout,
		Config: []string{"core.protectHFS=false", "core.protectNTFS=false"}})
	pr.CloseWithError(io.ErrClosedPipe)
	<-done
	if err != nil {
		return git.GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the snapshot")
	}
	commit, rest, _ := strings.Cut(string(out), "\n")
	f := strings.Fields(rest)
	if !git.IsCommitID(commit) || len(f) != 3 || !git.IsCommitID(f[2]) {
		return fmt.Errorf("fast-import answered %.200q", out)
	}
	sn.Commit, sn.Tree = commit, f[2]
	return nil
}
