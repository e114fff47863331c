package workspaces

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
)

// snapshotOnHost takes a snapshot without a sandbox. git only lists names, from a desk of ours; the files are read by the
// server itself below the worktree and streamed to git fast-import: no filter, hook, config or nested repository of the
// worktree's is ever looked at by git.
func (s *Service) snapshotOnHost(ctx context.Context, p Project, w Workspace) (taken, error) {
	head, err := s.LocalHead(ctx, p, w)
	if err != nil {
		return taken{}, err
	}
	if head == "" {
		return taken{}, errors.New("the worktree is at no commit")
	}
	desk, err := s.git.Desk(ctx, s.TmpDir(), p.GitDir)
	if err != nil {
		return taken{}, err
	}
	defer func() { _ = desk.Close() }()
	if err := excludesOn(desk, p); err != nil {
		return taken{}, err
	}
	if _, err := desk.Text(ctx, "read-tree", head); err != nil {
		return taken{}, err
	}
	tracked, err := desk.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Args: []string{"ls-files", "-s", "-z"}})
	if err != nil {
		return taken{}, err
	}
	others, err := desk.Run(ctx, hostgit.Call{WorkTree: w.Path, Max: 256 << 20, Args: []string{"ls-files", "-z", "--others", "--exclude-standard"}})
	if err != nil {
		return taken{}, fmt.Errorf("listing untracked files: %w", err)
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return taken{}, err
	}
	defer root.Close()

	secrets, err := s.SecretFiles(ctx, w.ID)
	if err != nil {
		return taken{}, err
	}
	t := taken{head: head}
	pr, pw := io.Pipe()
	imp := importer{root: root, owner: s.boxOwner(w.ID), secrets: secrets, w: bufio.NewWriterSize(pw, 1<<20), taken: &t}
	done := make(chan error, 1)
	go func() { // owned by this call: ends when the pipe is read to its end or closed below
		err := imp.write(head, w.Key(), string(tracked), string(others), s.cfg.Now().Unix())
		pw.CloseWithError(err)
		done <- err
	}()
	_, err = desk.Run(ctx, hostgit.Call{Args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, Stdin: pr, Timeout: s.cfg.StepTimeout})
	pr.CloseWithError(io.ErrClosedPipe)
	if werr := <-done; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		return taken{}, werr
	}
	if err != nil {
		return taken{}, GitFault(err, fault.Unavailable, "snapshot_failed", "Writing the snapshot")
	}
	t.commit, err = desk.Text(ctx, "rev-parse", "--verify", "refs/heads/snapshot")
	if err != nil || !IsCommitID(t.commit) {
		return taken{}, fmt.Errorf("reading the snapshot: %w", err)
	}
	return t, nil
}

// LocalHead is the commit the worktree is at, as the repository knows it; its branch's when the worktree is at none. Of a boxed
// or far workspace it is what came home last.
func (s *Service) LocalHead(ctx context.Context, p Project, w Workspace) (string, error) {
	if s.Apart(w.ID) {
		if home := s.readHome(w.ID); home.Head != "" {
			return home.Head, nil
		}
	} else if dir := linkedDir(p, w); dir != "" {
		if c, err := s.CommitOf(ctx, dir, "HEAD"); err == nil && c != "" {
			return c, nil
		}
	}
	return s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch)
}

// importer writes a fast-import stream.
type importer struct {
	root  *os.Root
	owner int // see foreign
	w     *bufio.Writer
	taken *taken
	seen  map[string]bool

	secrets SecretFiles // the project's other workspaces read what is in its repository
}

func (i *importer) write(head, key, tracked, others string, now int64) error {
	msg := "parawork: snapshot of " + key + "\n"
	fmt.Fprintf(i.w, "commit refs/heads/snapshot\ncommitter Parawork <parawork@localhost> %d +0000\ndata %d\n%sfrom %s\ndeleteall\n", now, len(msg), msg, head)
	i.seen = make(map[string]bool)
	for _, e := range strings.Split(tracked, "\x00") {
		meta, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			continue
		}
		if f[0] == "160000" { // a submodule stays what it is; its folder is kept apart
			fmt.Fprintf(i.w, "M 160000 %s %s\n", f[1], quotePath(name))
			i.taken.nested = append(i.taken.nested, name)
			continue
		}
		if err := i.file(name, "M "+f[0]+" "+f[1]); err != nil {
			return err
		}
	}
	for _, name := range strings.Split(others, "\x00") {
		switch {
		case name == "":
		case strings.HasSuffix(name, "/"): // a repository of its own
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

// file writes one file or link. What is not there any more is left out; what cannot be read is an error, for it would be lost. was is the
// file as the head has it, which stands for a secret's; "" = it has none.
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
	case i.secrets.Has(name, ""):
		return i.secret(name, was, fi.Size())
	case fi.Mode()&fs.ModeSymlink != 0:
		to, err := i.root.Readlink(name)
		if err != nil {
			return fmt.Errorf("reading the link %q: %w", name, err)
		}
		link := []byte(to)
		if i.secrets.Values.Mask(link, i.secrets.hides) {
			i.miss(name, valueMissing, fi.Size())
		}
		_, err = fmt.Fprintf(i.w, "M 120000 inline %s\ndata %d\n%s\n", quotePath(name), len(link), link)
		return err
	case !fi.Mode().IsRegular():
		return nil // a FIFO, socket, device, or a folder where a file was
	}
	f, err := i.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return fmt.Errorf("reading %q: it changed meanwhile", name)
	}
	if foreign(fi, i.owner) {
		i.miss(name, foreignMissing, fi.Size())
		return nil
	}
	mode := "100644"
	if fi.Mode()&0o100 != 0 {
		mode = "100755"
	}
	var from io.Reader = f
	if len(i.secrets.Blobs) > 0 && fi.Size() <= smallFile {
		data := make([]byte, fi.Size())
		if n, err := io.ReadFull(f, data); err != nil {
			return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
		}
		if i.secrets.Has("", blobName(i.taken.head, data)) {
			return i.secret(name, was, fi.Size())
		}
		from = bytes.NewReader(data)
	}
	masked := i.secrets.Reader(from) // of equal length
	fmt.Fprintf(i.w, "M %s inline %s\ndata %d\n", mode, quotePath(name), fi.Size())
	if n, err := io.CopyN(i.w, masked, fi.Size()); err != nil {
		return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
	}
	if masked.Found() {
		i.miss(name, valueMissing, fi.Size())
	}
	return i.w.WriteByte('\n')
}

// secret leaves a secret's file as the head has it.
func (i *importer) secret(name, was string, size int64) error {
	i.miss(name, secretMissing, size)
	if was == "" {
		return nil
	}
	_, err := fmt.Fprintf(i.w, "%s %s\n", was, quotePath(name))
	return err
}

func (i *importer) miss(name, why string, size int64) {
	i.taken.missing = append(i.taken.missing, Missing{Path: guest.EncodePath(name), Reason: why, Size: size})
}

// quotePath quotes a path as fast-import reads it.
func quotePath(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(p) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			b.WriteString(`\` + leftPad(strconv.FormatInt(int64(c), 8)))
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func leftPad(octal string) string { return strings.Repeat("0", 3-len(octal)) + octal }
