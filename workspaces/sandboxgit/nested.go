package sandboxgit

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Folders in the archive of nested repositories.
const (
	nestedTree    = "tree/"    // folders of the worktree with a nested repository
	nestedModules = "modules/" // the git dirs of submodules
)

// SnapshotNested stores nested repositories, history included, as one archive, because git itself stores only a commit id of them. It
// returns the commit with the archive, "" when there are none.
func (s *Store) SnapshotNested(ctx context.Context, p workspaces.Project, w workspaces.Workspace, t Captured) (string, error) {
	folders := t.nested
	if folders == nil {
		out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Max: 256 << 20, Args: []string{"ls-tree", "-r", "-z", t.Commit}})
		if err != nil {
			return "", err
		}
		for e := range strings.SplitSeq(string(out), "\x00") {
			if meta, name, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(meta, "160000 ") {
				folders = append(folders, name)
			}
		}
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	folders = slices.DeleteFunc(folders, func(name string) bool {
		fi, err := root.Lstat(path.Join(name, ".git"))
		return err != nil || !ignored.PlainParents(root, path.Join(name, ".git")) || fi.Mode()&fs.ModeSymlink != 0
	})
	if len(folders) == 0 {
		return "", nil
	}
	if err := os.MkdirAll(s.records.TmpDir(), 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(s.records.TmpDir(), "nested-")
	if err != nil {
		return "", git.DiskFault(err, "Saving nested repositories")
	}
	defer func() { _ = tmp.Close(); _ = os.Remove(tmp.Name()) }()
	buf := bufio.NewWriterSize(tmp, 1<<20)
	tw := tar.NewWriter(buf)
	for _, f := range folders {
		if err := tarFolder(ctx, tw, root, f, nestedTree, s.Owner(w.ID)); err != nil {
			return "", archiveFault(err)
		}
	}
	if dir := git.LinkedDir(p, w); dir != "" {
		if admin, err := os.OpenRoot(dir); err == nil {
			defer admin.Close()
			if fi, err := admin.Lstat("modules"); err == nil && fi.IsDir() {
				if err := tarFolder(ctx, tw, admin, "modules", "", -1); err != nil {
					return "", archiveFault(err)
				}
			}
		}
	}
	if err := errors.Join(tw.Close(), buf.Flush()); err != nil {
		return "", archiveFault(err)
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	blob, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: tmp, Timeout: s.cfg.StepTimeout, Args: []string{"hash-object", "-w", "--no-filters", "--stdin"}})
	if err != nil {
		return "", err
	}
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader("100644 blob " + blob + "\tnested.tar\n"), Args: []string{"mktree"}})
	if err != nil {
		return "", err
	}
	return s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"commit-tree", "-m", "parawork: repositories inside " + w.Key(), tree}})
}

// archiveFault says when the disk is full and leaves other errors as they are.
func archiveFault(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return git.DiskFault(err, "Saving nested repositories")
	}
	return err
}

// tarFolder writes the files, folders and links below name; owner as in git.Foreign.
func tarFolder(ctx context.Context, tw *tar.Writer, root *os.Root, name, prefix string, owner int) error {
	return fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", p, err)
		}
		fi, err := d.Info()
		if err != nil {
			return fmt.Errorf("reading %q: %w", p, err)
		}
		h := &tar.Header{Name: prefix + p, Mode: int64(fi.Mode().Perm()), ModTime: fi.ModTime(), Format: tar.FormatPAX}
		switch {
		case fi.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			return tw.WriteHeader(h)
		case fi.Mode()&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = root.Readlink(p); err != nil {
				return fmt.Errorf("reading %q: %w", p, err)
			}
			return tw.WriteHeader(h)
		case !fi.Mode().IsRegular():
			return nil
		}
		f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("reading %q: %w", p, err)
		}
		defer f.Close()
		if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
			return fmt.Errorf("reading %q: it changed meanwhile", p)
		}
		if git.Foreign(fi, owner) {
			return nil
		}
		h.Typeflag, h.Size = tar.TypeReg, fi.Size()
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.CopyN(tw, f, h.Size)
		return err
	})
}

// RestoreNested restores the nested repositories of a worktree.
func (s *Store) RestoreNested(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	blob, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", "--quiet", "--verify", git.TrashNested(w.ID) + ":nested.tar"}})
	if hostgit.ExitCode(err) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	var admin *os.Root
	if dir := git.LinkedDir(p, w); dir != "" {
		if admin, err = os.OpenRoot(dir); err != nil {
			return err
		}
		defer admin.Close()
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() { // owned by this call: ends with the pipe
		err := untar(pr, root, admin)
		pr.CloseWithError(err)
		done <- err
	}()
	_, err = s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdout: pw, Timeout: s.cfg.StepTimeout, Args: []string{"cat-file", "blob", blob}})
	pw.Close()
	if uerr := <-done; uerr != nil {
		return fault.Wrap(uerr, fault.Unavailable, "restore_failed", "Restoring the nested repositories of the workspace failed.")
	}
	return err
}

// untar extracts an archive of SnapshotNested below the two roots. It overwrites nothing.
func untar(r io.Reader, tree, modules *os.Root) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		root, name := tree, ""
		if rest, ok := strings.CutPrefix(h.Name, nestedTree); ok {
			name = strings.TrimSuffix(rest, "/")
		} else if strings.HasPrefix(h.Name, nestedModules) || h.Name == strings.TrimSuffix(nestedModules, "/") {
			root, name = modules, strings.TrimSuffix(h.Name, "/")
		}
		if root == nil || !filepath.IsLocal(name) || !ignored.PlainParents(root, name) {
			continue
		}
		if dir := path.Dir(name); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = untarFile(tr, root, name, fs.FileMode(h.Mode).Perm())
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

func untarFile(r io.Reader, root *os.Root, name string, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
