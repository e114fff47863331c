package transfer

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func (s *Service) writeSent(workspaceID string, sent map[string]string) error {
	b, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	return sandboxgit.WriteOnce(s.sandboxes.SentFile(workspaceID), string(b))
}

// readSent returns them by raw paths.
func (s *Service) readSent(workspaceID string) map[string]string {
	sent, byPath := make(map[string]string), make(map[string]string)
	b, err := os.ReadFile(s.sandboxes.SentFile(workspaceID))
	if err != nil || json.Unmarshal(b, &byPath) != nil {
		return sent
	}
	for enc, oid := range byPath {
		sent[guest.DecodePath(enc)] = oid
	}
	return sent
}

// ChosenFile is an ignored file that is transferred.
type ChosenFile struct {
	Name string // raw bytes
	Size int64
	oid  string // git's object id of its content, if read
}

// ChosenFiles are the ignored files a project selects, as far as they are transferred to or from a sandbox with its own disk.
type ChosenFiles struct {
	Files []ChosenFile
	Left  []workspaces.Missing // those that are not, and why
}

// Bytes is their total size.
func (c ChosenFiles) Bytes() (sum int64) {
	for _, f := range c.Files {
		sum += f.Size
	}
	return sum
}

// Take adds a file, or lists it as left out if it exceeds the bounds.
func (c *ChosenFiles) Take(f ChosenFile) {
	switch {
	case f.Size > snapshot.RemoteIgnoredFile:
		c.leave(f, fmt.Sprintf("It is larger than %d MB.", snapshot.RemoteIgnoredFile>>20))
	case len(c.Files) >= snapshot.RemoteIgnoredCount:
		c.leave(f, fmt.Sprintf("At most %d files are transferred.", snapshot.RemoteIgnoredCount))
	case c.Bytes()+f.Size > snapshot.RemoteIgnoredTotal:
		c.leave(f, fmt.Sprintf("At most %d MB are transferred.", snapshot.RemoteIgnoredTotal>>20))
	default:
		c.Files = append(c.Files, f)
	}
}

func (c *ChosenFiles) leave(f ChosenFile, why string) {
	c.Left = append(c.Left, workspaces.Missing{Path: guest.EncodePath(f.Name), Reason: why, Size: f.Size})
}

// ChosenLocal finds them in the worktree on this server, which is at head. With read it reads each, to know git's object id of it and to
// leave out those with a secret's bytes.
func (s *Service) ChosenLocal(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string, read bool) (c ChosenFiles, err error) {
	if len(p.KeepIgnored) == 0 {
		return c, nil
	}
	t := s.snapshots.LookAt(p, w, head)
	if t.Secrets, err = s.secretFiles.SecretFiles(ctx, w.ID); err != nil {
		return c, err
	}
	if t.Scratch, err = s.repo.ScratchOf(ctx, p); err != nil {
		return c, err
	}
	defer func() { _ = t.Scratch.Close() }()
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return c, git.DiskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	names, err := t.ListIgnored(ctx, root)
	if err != nil {
		return c, err
	}
	excluded, err := snapshot.ExcludedNames(p.GitDir)
	if err != nil {
		return c, err
	}
	c.Left = t.Missing
	read = read || len(t.Secrets.Blobs) > 0
	for _, name := range names {
		f, fi, err := plainFile(root, name)
		if err != nil || fi == nil {
			if err != nil {
				c.leave(ChosenFile{Name: name}, "It could not be read.")
			}
			continue
		}
		one := ChosenFile{Name: name, Size: fi.Size()}
		switch {
		case excluded[git.ExcludePattern(name)]:
			c.leave(one, snapshot.ExcludedMissing)
		case secretfiles.Has(t.Secrets, name, ""):
			c.leave(one, sandboxgit.SecretMissing)
		case git.Foreign(fi, s.sandboxes.Owner(w.ID)):
			c.leave(one, sandboxgit.ForeignMissing)
		default:
			if read && one.Size <= snapshot.RemoteIgnoredFile {
				one.oid, err = blobOf(f, head, one.Size)
			}
			switch {
			case err != nil:
				c.leave(one, "It was written to while it was read.")
			case secretfiles.Has(t.Secrets, "", one.oid):
				c.leave(one, sandboxgit.SecretMissing)
			default:
				c.Take(one)
			}
		}
		f.Close()
	}
	return c, nil
}

// plainFile opens a regular file below root; it returns no file and no error for anything else, or nothing.
func plainFile(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	if !ignored.PlainParents(root, name) {
		return nil, nil, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

// blobOf is git's object id of a file's content, with the repository's hash algorithm, of which like is an example.
func blobOf(f io.Reader, like string, size int64) (string, error) {
	h := git.BlobHash(like, size)
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// sendIgnored adds the selected ignored files to a bundle, and removes secrets' files from those the project copies.
func (s *Service) sendIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, head string, st *git.WorktreeState) (sent map[string]string, err error) {
	excluded, err := snapshot.ExcludedNames(p.GitDir)
	if err != nil {
		return nil, err
	}
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	st.Ignored = slices.DeleteFunc(st.Ignored, func(name string) bool {
		return excluded[git.ExcludePattern(name)] || secretfiles.Has(secrets, name, "")
	})
	c, err := s.ChosenLocal(ctx, p, w, head, true)
	if err != nil {
		return nil, err
	}
	sent = make(map[string]string, len(c.Files))
	for _, f := range c.Files {
		st.Ignored = append(st.Ignored, f.Name)
		sent[guest.EncodePath(f.Name)] = f.oid
	}
	return sent, nil
}

// sizesScript prints the size of each of its arguments, - for anything but a regular file.
const sizesScript = `for f; do if [ -f "$f" ] && [ ! -L "$f" ]; then wc -c < "$f" || echo -; else echo -; fi; done`

// ChosenRemote finds them in a sandbox with its own disk, without reading them.
func (s *Service) ChosenRemote(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox) (c ChosenFiles, err error) {
	if len(p.KeepIgnored) == 0 {
		return c, nil
	}
	names, err := b.IgnoredNames(ctx, p.KeepIgnored)
	if err != nil {
		return c, err
	}
	excluded, err := snapshot.ExcludedNames(p.GitDir)
	if err != nil {
		return c, err
	}
	secrets, err := s.secretFiles.SecretFiles(ctx, w.ID)
	if err != nil {
		return c, err
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return snapshot.BadName(n) || !filepath.IsLocal(n) })
	for piece := range slices.Chunk(names, 500) {
		argv := []string{"/bin/sh", "-c", sizesScript, "sizes"}
		for _, n := range piece {
			argv = append(argv, "./"+n)
		}
		r, err := b.Run(ctx, executors.SandboxCommand{Argv: argv})
		if err != nil {
			return c, err
		}
		sizes := strings.Fields(string(r.Stdout))
		if r.ExitCode != 0 || len(sizes) != len(piece) {
			return c, &git.CommandError{Sub: "wc", Result: r}
		}
		for i, name := range piece {
			size, err := strconv.ParseInt(sizes[i], 10, 64)
			if err != nil || size < 0 {
				continue
			}
			one := ChosenFile{Name: name, Size: size}
			switch {
			case excluded[git.ExcludePattern(name)]:
				c.leave(one, snapshot.ExcludedMissing)
			case secretfiles.Has(secrets, name, ""):
				c.leave(one, sandboxgit.SecretMissing)
			default:
				c.Take(one)
			}
		}
	}
	return c, nil
}

// FetchIgnored writes the ignored files of an ended sandbox to the worktree on this server. It replaces those that are unchanged since they
// were sent; other files of these names stay as they are, and are reported.
func (s *Service) FetchIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace) error {
	commit, err := s.repo.CommitOf(ctx, p.GitDir, snapshot.RemoteIgnoredRef(w.ID))
	if err != nil || commit == "" {
		return err
	}
	files, err := s.snapshots.IgnoredFiles(ctx, p, w.ID, commit)
	if err != nil {
		return err
	}
	left, err := s.putIgnored(ctx, p, w, files, s.readSent(w.ID))
	if err != nil {
		return err
	}
	if len(left) > 0 {
		s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "ignored.left", Data: map[string]any{"paths": git.EncodePaths(left)},
			Text: fmt.Sprintf("%s of the sandbox did not replace others on this server: %s. The timeline has both.", git.Plural(len(left), "ignored file", "ignored files"), git.SomeNames(git.EncodePaths(left)))})
	}
	return nil
}

// putIgnored writes ignored files to the worktree on this server where there is no file, or the one that was sent from there; left are the
// others.
func (s *Service) putIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace, files []git.ChangedFile, sent map[string]string) (left []string, err error) {
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return nil, git.DiskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	to := snapshot.HereFiles{Root: root, UID: s.sandboxes.Owner(w.ID)}
	var put []hostgit.TreeFile
	by := make(map[string]git.ChangedFile)
	for _, f := range files {
		is := func(blob string) (same bool, err error) { // "" = nothing
			f.OldBlob = blob
			_, same, err = s.snapshots.StillAs(ctx, p, root, f)
			return same, err
		}
		had := sent[f.Path]
		ok, err := is("")
		if err == nil && !ok {
			if ok, err = is(f.NewBlob); ok && (had == "" || sameMode(root, f)) {
				continue // already there
			}
		}
		if err == nil && !ok && had != "" {
			ok, err = is(had)
		}
		switch {
		case err != nil:
			return nil, err
		case !ok:
			left = append(left, f.Path)
		default:
			put = append(put, hostgit.TreeFile{Path: f.Path, OID: f.NewBlob, Size: f.Size})
			by[f.Path] = f
		}
	}
	err = s.repo.CommitBlobs(ctx, p.ID, put, func(c hostgit.TreeFile, r io.Reader) error {
		f := by[c.Path]
		still := func() (bool, error) { _, same, err := s.snapshots.StillAs(ctx, p, root, f); return same, err }
		err := to.Put(ctx, f.Path, f.Mode, r, snapshot.Found{Still: still})
		if errors.Is(err, snapshot.ErrInTheWay) {
			left = append(left, f.Path)
			return nil
		}
		if err != nil {
			return fmt.Errorf("restoring %q: %w", guest.EncodePath(f.Path), err)
		}
		return nil
	})
	return left, err
}

// sameMode reports whether both files are executable, or neither is.
func sameMode(root *os.Root, f git.ChangedFile) bool {
	fi, err := root.Lstat(f.Path)
	return err == nil && fi.Mode().IsRegular() && (fi.Mode()&0o100 != 0) == (f.Mode == "100755")
}

// ForgetIgnored deletes the record of the ignored files in an ended sandbox.
func (s *Service) ForgetIgnored(ctx context.Context, p workspaces.Project, workspaceID string) error {
	commit, err := s.repo.CommitOf(ctx, p.GitDir, snapshot.RemoteIgnoredRef(workspaceID))
	if err == nil && commit != "" {
		err = s.snapshots.DropRefs(ctx, p, []git.RefEdit{git.RefDrop(snapshot.RemoteIgnoredRef(workspaceID))})
	}
	return err
}

// ReadRemoteIgnored reads the ignored files of a sandbox that is about to be destroyed, and fails if they cannot be read.
func (s *Service) ReadRemoteIgnored(ctx context.Context, p workspaces.Project, w workspaces.Workspace) (*snapshot.RemoteIgnored, error) {
	there := s.snapshots.AskIgnored(ctx, p, w, snapshot.SnapKept)
	if there == nil && s.sandboxes.Remote(w.ID) && snapshot.WantsIgnored(p, snapshot.SnapKept) {
		there = &snapshot.RemoteIgnored{Failed: "The sandbox does not answer."}
	}
	if there != nil && there.Failed != "" {
		return nil, fault.New(fault.Unavailable, "ignored_files_not_copied", "The ignored files that the project selects could not be copied from the sandbox: %s Try again, or have the project select none.", there.Failed)
	}
	return there, nil
}
