package sandboxgit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

// CaptureOnHost takes a snapshot without a sandbox. git only lists names, in a scratch repository; the server itself reads the files below
// the worktree and streams them to git fast-import, so that git never looks at a filter, hook, config or nested repository of the
// worktree's.
func (s *Store) CaptureOnHost(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (Captured, error) {
	head, err := s.LocalHead(ctx, p, w)
	if err != nil {
		return Captured{}, err
	}
	if head == "" {
		return Captured{}, errors.New("the worktree is at no commit")
	}
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return Captured{}, err
	}
	defer func() { _ = scratch.Close() }()
	if err := git.ExcludesOn(scratch, p); err != nil {
		return Captured{}, err
	}
	if _, err := scratch.Text(ctx, "read-tree", head); err != nil {
		return Captured{}, err
	}
	tracked, err := scratch.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Args: []string{"ls-files", "-s", "-z"}})
	if err != nil {
		return Captured{}, err
	}
	others, err := scratch.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Args: []string{"ls-files", "-z", "--others", "--exclude-standard"}})
	if err != nil {
		return Captured{}, fmt.Errorf("listing untracked files: %w", err)
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return Captured{}, err
	}
	defer root.Close()

	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return Captured{}, err
	}
	t := Captured{Head: head}
	pr, pw := io.Pipe()
	imp := importer{root: root, owner: s.Owner(w.ID), secrets: secrets, w: bufio.NewWriterSize(pw, 1<<20), taken: &t}
	done := make(chan error, 1)
	go func() { // owned by this call: ends when the pipe is read to its end or closed below
		err := imp.write(head, w.Key(), string(tracked), string(others), s.cfg.Now().Unix())
		pw.CloseWithError(err)
		done <- err
	}()
	_, err = scratch.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: pr, Timeout: s.cfg.StepTimeout})
	pr.CloseWithError(io.ErrClosedPipe)
	if werr := <-done; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return Captured{}, werr
	}
	if err != nil {
		return Captured{}, git.GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the snapshot")
	}
	t.Commit, err = scratch.Text(ctx, "rev-parse", "--verify", "refs/heads/snapshot")
	if err != nil || !git.IsCommitID(t.Commit) {
		return Captured{}, fmt.Errorf("reading the snapshot: %w", err)
	}
	return t, nil
}

// LocalHead is the commit the worktree is at, as the repository knows it; its branch's when the worktree has none. For an isolated or
// remote workspace it is the one last fetched.
func (s *Store) LocalHead(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (string, error) {
	if s.Separate(w.ID) {
		if home := s.ReadSyncState(w.ID); home.Head != "" {
			return home.Head, nil
		}
	} else if dir := git.LinkedDir(p, w); dir != "" {
		if c, err := s.repo.CommitOf(ctx, dir, "HEAD"); err == nil && c != "" {
			return c, nil
		}
	}
	return s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
}

// importer writes a fast-import stream.
type importer struct {
	root  *os.Root
	owner int // see git.Foreign
	w     *bufio.Writer
	taken *Captured
	seen  map[string]bool

	secrets workspaces.SecretFiles // the project's other workspaces can read what is in its repository
}

func (i *importer) write(head, key, tracked, others string, now int64) error {
	msg := "parawork: snapshot of " + key + "\n"
	fmt.Fprintf(i.w, "commit refs/heads/snapshot\ncommitter Parawork <parawork@localhost> %d +0000\ndata %d\n%sfrom %s\ndeleteall\n", now, len(msg), msg, head)
	i.seen = make(map[string]bool)
	for e := range strings.SplitSeq(tracked, "\x00") {
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			continue
		}
		if f[0] == "160000" { // a submodule stays one; its folder is stored separately
			fmt.Fprintf(i.w, "M 160000 %s %s\n", f[1], QuotePath(name))
			i.taken.nested = append(i.taken.nested, name)
			continue
		}
		if err := i.file(name, "M "+f[0]+" "+f[1]); err != nil {
			return err
		}
	}
	for name := range strings.SplitSeq(others, "\x00") {
		switch {
		case name == "":
		case strings.HasSuffix(name, "/"): // a nested repository
			i.taken.nested = append(i.taken.nested, strings.TrimSuffix(name, "/"))
		default:
			if err := i.file(name, ""); err != nil {
				return err
			}
		}
	}
	if _, err := i.w.WriteString("\ndone\n"); err != nil {
		return err
	}
	return i.w.Flush()
}

// file writes one file or link. It leaves out a file that no longer exists; an unreadable one is an error, because it would be lost. was is
// the file's blob in the head, which replaces a secret; "" = none.
func (i *importer) file(name, was string) error {
	if i.seen[name] || !ignored.PlainParents(i.root, name) {
		return nil
	}
	i.seen[name] = true
	fi, err := i.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	switch {
	case secretfiles.Has(i.secrets, name, ""):
		return i.secret(name, was, fi.Size())
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := i.root.Readlink(name)
		if err != nil {
			return fmt.Errorf("reading the link %q: %w", name, err)
		}
		link := []byte(to)
		if i.secrets.Values.Mask(link, i.secrets.Hides) {
			i.miss(name, ValueMissing, fi.Size())
		}
		_, err = fmt.Fprintf(i.w, "M 120000 inline %s\ndata %d\n%s\n", QuotePath(name), len(link), link)
		return err
	case !fi.Mode().IsRegular():
		return nil // a FIFO, socket, device, or a folder that replaced a file
	}
	f, err := i.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return fmt.Errorf("reading %q: it changed meanwhile", name)
	}
	if git.Foreign(fi, i.owner) {
		i.miss(name, ForeignMissing, fi.Size())
		return nil
	}
	mode := "100644"
	if fi.Mode()&0o100 != 0 {
		mode = "100755"
	}
	var from io.Reader = f
	if len(i.secrets.Blobs) > 0 && fi.Size() <= SmallFile {
		data := make([]byte, fi.Size())
		if n, err := io.ReadFull(f, data); err != nil {
			return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
		}
		if secretfiles.Has(i.secrets, "", BlobName(i.taken.Head, data)) {
			return i.secret(name, was, fi.Size())
		}
		from = bytes.NewReader(data)
	}
	masked := secretfiles.Reader(i.secrets, from) // of equal length
	fmt.Fprintf(i.w, "M %s inline %s\ndata %d\n", mode, QuotePath(name), fi.Size())
	if n, err := io.CopyN(i.w, masked, fi.Size()); err != nil {
		return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
	}
	if masked.Found() {
		i.miss(name, ValueMissing, fi.Size())
	}
	return i.w.WriteByte('\n')
}

// secret writes a secret's file as it is in the head.
func (i *importer) secret(name, was string, size int64) error {
	i.miss(name, SecretMissing, size)
	if was == "" {
		return nil
	}
	_, err := fmt.Fprintf(i.w, "%s %s\n", was, QuotePath(name))
	return err
}

func (i *importer) miss(name, why string, size int64) {
	i.taken.Missing = append(i.taken.Missing, workspaces.Missing{Path: guest.EncodePath(name), Reason: why, Size: size})
}

// QuotePath quotes a path for fast-import.
func QuotePath(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(p) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			b.WriteString(`\` + LeftPad(strconv.FormatInt(int64(c), 8)))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// LeftPad pads a number with zeros, so that names sort numerically.
func LeftPad(octal string) string { return strings.Repeat("0", 3-len(octal)) + octal }
